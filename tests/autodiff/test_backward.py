"""append_backward and gradients: rules P-30 … P-35, and derivatives against numerical ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.names import guard
from workbench.framework.notice import Notice
from workbench.framework.program.guard import static_mode

static = wb.static
Build = Callable[..., Any]


def types(program: Any) -> list[str]:
    return [op.type for op in program.global_block().ops]


def programs() -> tuple[Any, Any, Any]:
    main, startup = static.Program(), static.Program()
    return main, startup, static.program_guard(main, startup)


def test_p30_roles_and_order() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        loss = wb.mean(static.nn.fc(static.data("x", [None, 3]), 2))
        static.append_backward(loss)
    assert types(main) == [
        "mul",
        "elementwise_add",
        "mean",
        "fill_constant",
        "mean_grad",
        "elementwise_add_grad",
        "mul_grad",
    ]
    assert [op.role for op in main.global_block().ops] == [0, 0, 0x100, 0x101, 1, 1, 1]
    seed = main.global_block().ops[3]
    assert seed.output("Out") == [loss.name + "@GRAD"] and seed.attr("value") == 1.0
    assert tuple(seed.attr("shape")) == (1,)


def test_p31_p32_several_contributions_are_summed_before_the_first_use() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 3])
        h = static.nn.fc(x, 3, weight_attr="w", bias_attr=False)
        h2 = static.nn.fc(h * h, 3, weight_attr="w", bias_attr=False)
        loss = wb.mean(h2 + h)
        (pair,) = static.append_backward(loss)
    ops = main.global_block().ops
    sums = [op for op in ops if op.type == "sum"]
    assert [s.input("X") for s in sums] == [
        ["fc_0.tmp_0@GRAD@RENAME@block0@0", "fc_0.tmp_0@GRAD@RENAME@block0@1", "fc_0.tmp_0@GRAD@RENAME@block0@2"],
        ["w@GRAD@RENAME@block0@0", "w@GRAD@RENAME@block0@1"],
    ]
    consumer = next(i for i, op in enumerate(ops) if "fc_0.tmp_0@GRAD" in op.input_arg_names)
    assert ops[consumer - 1] is sums[0]
    assert ops[-1] is sums[1], "nothing consumes a parameter's gradient, so its sum comes last"
    assert sums[1].attr("op_role_var") == ["w", "w@GRAD"]
    assert pair[0].name == "w" and pair[1].name == "w@GRAD"


def test_p33_stop_gradient_no_grad_set_and_trainable() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 3])
        frozen = static.nn.fc(x, 3, weight_attr=wb.ParamAttr(trainable=False))
        cut = static.nn.fc(frozen, 3)
        cut.stop_gradient = True
        last = static.nn.fc(cut, 1)
        pairs = static.append_backward(wb.mean(last), no_grad_set={"fc_2.b_0"})
    assert [p.name for p, _ in pairs] == ["fc_2.w_0"]
    assert not main.global_block().has_var("fc_2.b_0@GRAD")
    _, _, inside = programs()
    with static_mode(), guard(), inside:
        out = static.nn.fc(static.data("x", [None, 3]), 1, weight_attr=wb.ParamAttr(trainable=False))
        pairs = static.append_backward(wb.mean(out))
    assert [p.name for p, _ in pairs] == ["fc_0.b_0"], "the bias of a frozen weight still trains"


def test_p34_pairs_come_in_creation_order_and_only_with_gradients() -> None:
    _, _, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 3])
        a, b, unused = (static.nn.fc(x, 2, name=n) for n in "bau")
        pairs = static.append_backward(wb.mean(b + a))
    assert [p.name for p, _ in pairs] == ["b.w_0", "b.b_0", "a.w_0", "a.b_0"]
    assert unused.name == "u.tmp_1"


def test_p35_the_loss_has_one_element() -> None:
    _, _, inside = programs()
    with static_mode(), inside:
        out = static.nn.fc(static.data("x", [None, 3]), 2)
        with pytest.raises(ValueError, match=r"must have shape \[1\], got \[-1, 2\]"):
            static.append_backward(out)
        with pytest.raises(ValueError, match="depends on no trainable parameter"):
            static.append_backward(wb.mean(static.data("z", [None, 3])))
        with pytest.raises(TypeError, match="is a Variable"):
            static.append_backward("loss")


def evaluate(build: Build, arrays: list[np.ndarray], order: int = 1) -> list[np.ndarray]:
    """[value, gradients …] of a scalar function of arrays; order 2 takes a function of its gradient instead."""
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        xs = [static.data(f"x{i}", [None, *a.shape[1:]], "float64") for i, a in enumerate(arrays)]
        y = build(*xs)
        for _ in range(order - 1):
            first = static.gradients(y, xs)
            y = sum((wb.sum(g * g * g) for g in first if g is not None), start=wb.sum(xs[0]) * 0.5)
        grads = static.gradients(y, xs)
    exe = static.Executor()
    feed = {f"x{i}": a for i, a in enumerate(arrays)}
    return exe.run(main, feed=feed, fetch_list=[y, *grads], scope=static.Scope())


FUNCTIONS: dict[str, Build] = {
    "polynomial": lambda x, y: wb.sum(x * x * y + 3 * x),
    "tanh_exp": lambda x, y: wb.sum(wb.tanh(x) * wb.exp(y)),
    "broadcast": lambda x, y: wb.sum(x * wb.mean(y, axis=0) / (y * y + 1)),
    "matmul": lambda x, y: wb.sum(wb.tanh(wb.matmul(x, y, transpose_y=True))),
    "softmax": lambda x, y: wb.sum(wb.nn.functional.softmax(x) * y),
    "shared": lambda x, y: wb.sum((x + y) * (x + y) * x),
    "reduce": lambda x, y: wb.sum(wb.sum(x, axis=1) * wb.mean(y, axis=1)) + wb.sum(x**3),
    "shapes": lambda x, y: wb.sum(
        wb.reshape(wb.concat([x, y * y], axis=0), [-1]) ** 3 * wb.sum(wb.transpose(x, [1, 0]))
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("order", [1, 2])
def test_gradients_match_numerical_ones(name: str, order: int) -> None:
    r = np.random.default_rng(5)
    arrays = [r.uniform(0.2, 1.0, (4, 3)), r.uniform(0.2, 1.0, (4, 3))]
    direction = [r.standard_normal(a.shape) for a in arrays]
    _, *grads = evaluate(FUNCTIONS[name], arrays, order)
    slope = sum(float(np.sum(g * d)) for g, d in zip(grads, direction, strict=True))
    eps = 1e-5
    up = evaluate(FUNCTIONS[name], [a + eps * d for a, d in zip(arrays, direction, strict=True)], order)[0]
    down = evaluate(FUNCTIONS[name], [a - eps * d for a, d in zip(arrays, direction, strict=True)], order)[0]
    expected = float((up - down).item()) / (2 * eps)
    assert slope == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_third_derivative() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None], "float64")
        y = wb.sum(x**4)
        for _ in range(3):
            (y,) = static.gradients(y, x)
    (out,) = static.Executor().run(main, feed={"x": np.array([1.0, 2.0])}, fetch_list=[y])
    assert np.allclose(out, [24.0, 48.0])


def test_gradients_with_given_output_gradients_and_unreached_inputs() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        x, z, v = (static.data(n, [None, 2], "float64") for n in "xzv")
        y = wb.sum(x, axis=1) * 2
        seed = static.data("seed", [None], "float64")
        gx, gz = static.gradients([y], [x, z], target_gradients=[seed])
        both = static.gradients([x * v, x * x], [x])
        with pytest.raises(ValueError, match="must have its shape"):
            static.gradients([y], [x], target_gradients=[v])
        with pytest.raises(TypeError):
            static.gradients("y", [x])
    assert gz is None
    feed = {"x": np.ones((2, 2)), "z": np.ones((2, 2)), "v": np.full((2, 2), 5.0), "seed": np.array([1.0, 10.0])}
    a, b = static.Executor().run(main, feed=feed, fetch_list=[gx, both[0]])
    assert a.tolist() == [[2, 2], [20, 20]]
    assert b.tolist() == [[7, 7], [7, 7]]


def test_gradient_penalty_trains() -> None:
    """A loss that contains a gradient: append_backward goes through the `_grad` operators."""
    main, startup, inside = programs()
    startup.random_seed = 3
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 3], "float32")
        out = static.nn.fc(wb.tanh(static.nn.fc(x, 4)), 1)
        (gx,) = static.gradients(out, x)
        loss = wb.mean((wb.sum(gx * gx, axis=1) - 1.0) ** 2)
        wb.optimizer.Adam(0.05).minimize(loss)
    exe, scope = static.Executor(), static.Scope()
    exe.run(startup, scope=scope)
    feed = {"x": np.random.default_rng(0).standard_normal((8, 3)).astype("float32")}
    losses = [exe.run(main, feed=feed, fetch_list=[loss], scope=scope)[0].item() for _ in range(60)]
    assert losses[-1] < 0.1 * losses[0]


def test_second_minimize_in_one_program_gets_its_own_names() -> None:
    main, startup, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 3])
        h = static.nn.fc(x, 2)
        first, second = wb.mean(h), wb.mean(h * h)
        a = static.append_backward(first)
        b = static.append_backward(second)
    assert [g.name for _, g in a] == ["fc_0.w_0@GRAD", "fc_0.b_0@GRAD"]
    assert [g.name for _, g in b] == ["grad/fc_0.w_0@GRAD", "grad/fc_0.b_0@GRAD"]
    exe, scope = static.Executor(), static.Scope()
    exe.run(startup, scope=scope)
    feed = {"x": np.random.default_rng(0).random((4, 3), np.float32)}
    hv, g1, g2 = exe.run(main, feed=feed, fetch_list=[h, a[1][1], b[1][1]], scope=scope)
    assert np.allclose(g1, 0.5) and np.allclose(g2, hv.mean(0), rtol=1e-5)


def test_a_value_needed_by_a_gradient_must_not_be_overwritten() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 3])
        h = static.nn.fc(x, 3, bias_attr=False)
        y = h * h
        main.global_block().append_op("scale", inputs={"X": h}, outputs={"Out": h}, attrs={"scale": 2.0})
        with pytest.raises(NotImplementedError, match="later op overwrites"):
            static.append_backward(wb.mean(y + h))


def test_split_with_an_unused_output() -> None:
    main, _, inside = programs()
    with static_mode(), guard(), inside:
        x = static.data("x", [None, 4], "float64")
        first, _ = wb.split(x, 2, axis=1)
        (g,) = static.gradients(wb.sum(first * first), x)
    (out,) = static.Executor().run(main, feed={"x": np.array([[1.0, 2, 3, 4]])}, fetch_list=[g])
    assert out.tolist() == [[2, 4, 0, 0]]


def test_gradients_by_integers_are_none_after_a_notice() -> None:
    """As int64 a gradient of 0.5 would be 0."""
    _, _, inside = programs()
    with static_mode(), guard(), inside:
        ids, w = static.data("ids", [2], "int64"), static.data("w", [2])
        y = wb.sum(wb.cast(ids, "float32") * w * 0.5)
        with pytest.warns(Notice, match=r"'ids' is None, for it holds int64; op 'cast' reads it"):
            by_ids, by_w = static.gradients(y, [ids, w])
    assert by_ids is None and by_w.dtype.name == "float32"
