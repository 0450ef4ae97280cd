"""Gradients where a quick implementation goes wrong without saying so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built, number, slope
from workbench import static
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.grad_op import backward_op
from workbench.framework.op.record import Op, parse_slots


def scale_in_place(p: Built, variable: Any, factor: float = 10.0) -> None:
    p.main.global_block().append_op("scale", inputs={"X": variable}, outputs={"Out": variable}, attrs={"scale": factor})


def test_a_target_listed_twice_counts_twice() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        y = x * x
        (g,) = static.gradients([y, y], [x])
        (h,) = static.gradients([y, y], [x], target_gradients=[None, x])
    assert [v.item() for v in p.run({"x": number(3)}, [g, h])] == [12.0, 6.0 + 18.0]


def test_a_target_that_is_an_input_too() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        h = x * x
        g = static.gradients([h * h, h], [x, h])
    assert [v.item() for v in p.run({"x": number(3)}, g)] == [4 * 27 + 6.0, 2 * 9 + 1.0]


def test_an_overwritten_feed_is_refused() -> None:
    """A feed has no gradient of its own, but the gradient of the weight reads its value."""
    with Built() as p:
        x, w = static.data("x", [1], "float64"), static.data("w", [1], "float64")
        y = w * x
        scale_in_place(p, x)
        with pytest.raises(NotImplementedError, match="needs the value of 'x' that a later op overwrites"):
            static.gradients(y, [w])


def test_an_overwritten_output_is_refused() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        y = wb.tanh(x)
        scale_in_place(p, y)
        with pytest.raises(NotImplementedError, match=r"needs the value of 'tanh_0\.tmp_0' that a later op overwrites"):
            static.gradients(y * 1.0, [x])


def test_overwriting_what_no_gradient_reads_is_allowed() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        h = x * 3.0
        scale_in_place(p, h)
        (g,) = static.gradients(h * h, [x])
    assert p.run({"x": number(2)}, [g])[0].item() == 2 * 900 * 2


def test_second_derivative_where_two_unknown_batches_broadcast() -> None:
    with Built() as p:
        x, y = static.data("x", [None, 2], "float64"), static.data("y", [None, 2], "float64")
        (g,) = static.gradients(wb.sum((x * y) ** 3), [x])
        (gg,) = static.gradients(wb.sum(g * g), [x])
    x0, y0 = np.array([[0.5, 0.7]]), np.array([[1.0, 2.0], [3.0, 4.0]])

    def squared(x: np.ndarray) -> float:
        return float(((3 * (x * y0) ** 2 * y0).sum(0) ** 2).sum())

    expected = [slope(lambda t, d=d: squared(x0 + t * d), 0.0) for d in np.eye(2)]
    assert np.allclose(p.run({"x": x0, "y": y0}, [gg])[0], [expected], rtol=1e-7)


def test_a_parameter_as_the_loss() -> None:
    with Built() as p:
        w = static.create_parameter([1], "float32", name="w")
        ((parameter, grad),) = static.append_backward(w)
    assert parameter is w and grad.name == "w@GRAD"
    assert p.run({}, [grad])[0].tolist() == [1.0]


def outline(program: Any) -> list[Any]:
    return [(list(b.vars), [(op.type, dict(op.outputs), dict(op.attrs)) for op in b.ops]) for b in program.blocks]


def test_a_refused_backward_leaves_the_program_as_it_was() -> None:
    with Built() as p:
        x = static.data("x", [None, 3])
        loss = wb.mean(x * x)
        before = outline(p.main)
        with pytest.raises(ValueError, match="depends on no trainable parameter"):
            static.append_backward(loss)
        assert outline(p.main) == before
        scale_in_place(p, x)
        before = outline(p.main)
        with pytest.raises(NotImplementedError):
            static.gradients(loss, [x])
        assert outline(p.main) == before


# Control flow


def test_two_gradients_through_one_cond() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        a, b = static.nn.cond(x > 0, lambda: (wb.exp(x) * x, wb.tanh(x) * x), lambda: (x, x))
        (ga,), (gb,) = static.gradients(a, [x]), static.gradients(b, [x])
    gradients = [v.item() for v in p.run({"x": number(0.5)}, [ga, gb])]
    assert gradients == pytest.approx([slope(lambda t: np.exp(t) * t, 0.5), slope(lambda t: np.tanh(t) * t, 0.5)])


def test_two_gradients_through_one_while() -> None:
    def body(i: Any, a: Any, b: Any) -> list[Any]:
        return [i + 1, wb.exp(a) * x, wb.tanh(b) * x]

    with Built() as p:
        x = static.data("x", [1], "float64")
        start = [wb.zeros([1], "int64"), x * 1.0, x * 1.0]
        _, a, b = static.nn.while_loop(lambda i, a, b: i < 2, body, start)
        (ga,), (gb,) = static.gradients(a, [x]), static.gradients(b, [x])
    gradients = [v.item() for v in p.run({"x": number(0.5)}, [ga, gb])]
    by_hand = [lambda t: np.exp(np.exp(t) * t) * t, lambda t: np.tanh(np.tanh(t) * t) * t]
    assert gradients == pytest.approx([slope(f, 0.5) for f in by_hand])


@pytest.mark.parametrize("kind", ["cond", "while"])
def test_the_second_derivative_of_control_flow_is_refused(kind: str) -> None:
    with Built():
        x = static.data("x", [1], "float64")
        if kind == "cond":
            out = static.nn.cond(x > 0, lambda: x * x * x, lambda: x)
        else:
            start = [wb.zeros([1], "int64"), x * 1.0]
            _, out = static.nn.while_loop(lambda i, a: i < 2, lambda i, a: [i + 1, a * x], start)
        (g,) = static.gradients(out, [x])
        with pytest.raises(NotImplementedError, match=rf"op '{kind}_grad' has no second derivative\n  at .*hard_cases"):
            static.gradients(g * x, [x])


def test_a_gradient_taken_inside_a_loop_body_is_differentiated() -> None:
    def body(i: Any, a: Any) -> list[Any]:
        (g,) = static.gradients(a * a * a, [a])
        return [i + 1, g * x]

    with Built() as p:
        x = static.data("x", [1], "float64")
        _, a = static.nn.while_loop(lambda i, a: i < 2, body, [wb.zeros([1], "int64"), x * 1.0])
        (g,) = static.gradients(a, [x])
    value, grad = p.run({"x": number(0.5)}, [a, g])
    assert value.item() == pytest.approx(27 * 0.5**7)  # a -> 3 a^2 x, twice
    assert grad.item() == pytest.approx(27 * 7 * 0.5**6)


def test_a_gradient_taken_inside_a_branch_is_differentiated() -> None:
    def side() -> Any:
        (g,) = static.gradients(wb.exp(x * x), [x])
        return g * 1.0

    with Built() as p:
        x = static.data("x", [1], "float64")
        out = static.nn.cond(x > 0, side, lambda: x)
        (g,) = static.gradients(out, [x])
    assert p.run({"x": number(0.5)}, [g])[0].item() == pytest.approx(slope(lambda t: 2 * t * np.exp(t * t), 0.5))


def table() -> Any:
    return wb.ParamAttr(name="table", initializer=wb.nn.initializer.Assign(np.arange(10.0).reshape(5, 2)))


def test_sparse_gradients_add_up_over_the_passes_of_a_loop() -> None:
    def body(i: Any, total: Any) -> list[Any]:
        rows = static.nn.embedding(ids, [5, 2], is_sparse=True, param_attr=table())
        return [i + 1, total + wb.sum(rows * rows)]

    with Built() as p:
        ids = static.data("ids", [None], "int64")
        _, total = static.nn.while_loop(lambda i, t: i < 3, body, [wb.zeros([1], "int64"), wb.zeros([1], "float32")])
        _, ((_, grad),) = wb.optimizer.SGD(0.01).minimize(wb.mean(total))
    before, scope = np.arange(10.0).reshape(5, 2), static.Scope()
    (gradient,) = p.run({"ids": np.array([1, 1, 3])}, [grad], scope)
    expected = np.array([0, 2, 0, 1, 0])[:, None] * 2 * 3 * before
    assert np.allclose(gradient, expected)
    assert np.allclose(np.array(scope.find_var("table").get_tensor()), before - 0.01 * expected)


@pytest.mark.parametrize("taken", [True, False])
def test_sparse_gradients_of_a_branch(taken: bool) -> None:
    def side() -> Any:
        return wb.sum(static.nn.embedding(ids, [5, 2], is_sparse=True, param_attr=table()))

    with Built() as p:
        ids = static.data("ids", [None], "int64")
        out = static.nn.cond(wb.sum(ids) > 0, side, lambda: wb.zeros([1], "float32"))
        _, ((_, grad),) = wb.optimizer.SGD(0.1).minimize(wb.mean(out))
    (gradient,) = p.run({"ids": np.array([1, 1, 3]) if taken else np.zeros(3, np.int64)}, [grad])
    assert gradient.tolist() == [[k * taken] * 2 for k in (0, 2, 0, 1, 0)]


def test_masks_of_dropout_in_a_branch_in_a_loop_are_those_of_their_pass() -> None:
    def body(i: Any, a: Any) -> list[Any]:
        dropped = lambda: wb.nn.functional.dropout(a * x, 0.3)  # noqa: E731
        return [i + 1, static.nn.cond(i % 2 == 0, dropped, lambda: a * x * 2.0)]

    with Built() as p:
        p.main.random_seed = 3
        x = static.data("x", [None, 50], "float64")
        _, out = static.nn.while_loop(lambda i, a: i < 4, body, [wb.zeros([1], "int64"), x * 1.0])
        (g,) = static.gradients(wb.sum(out), [x])
    x0 = np.full((2, 50), 1.1)
    value, grad = p.run({"x": x0}, [out, g])
    kept = (value != 0).mean()
    assert 0.3 < kept < 0.7, "two independent masks keep 0.49"
    assert np.allclose(grad, 5 * value / x0), "out is 4 x^5 times the masks"


def test_a_failing_branch_or_body_leaves_the_program_as_it_was() -> None:
    with Built() as p:
        x = static.data("x", [None, 3])
        positive, start = wb.sum(x) > 0, wb.zeros([1], "int64")
        before = outline(p.main), outline(p.startup)
        with pytest.raises(
            NotImplementedError, match=r"(?s)op 'batch_norm' writes 'batch_norm_0.w_1'.*use the op outside"
        ):
            static.nn.cond(positive, lambda: static.nn.batch_norm(static.nn.fc(x, 3)), lambda: x)
        with pytest.raises(NotImplementedError, match="'batch_norm'"):
            static.nn.while_loop(lambda i, h: i < 2, lambda i, h: [i + 1, static.nn.batch_norm(h)], [start, x])
        assert (outline(p.main), outline(p.startup)) == before


def test_where_a_rule_gives_no_gradient_there_are_zeros() -> None:
    """An operator that was asked for a gradient writes it: what reads it would find nothing otherwise."""
    slots = Op("both", parse_slots("X, Ys*"), parse_slots("Out"), None, None, grad=lambda g, out, x, ys: (None, None))  # type: ignore[arg-type]
    read = tuple(slot._replace(traits=frozenset({"saved"})) for slot in slots.inputs)
    body = backward_op(replace(slots, inputs=read)).forward
    x = np.ones((2, 3))
    zero, zeros = body(numpy_xp, x, [x, x], x, wanted=(True, True))
    assert (zero == 0).all() and zero.shape == x.shape and [z.shape for z in zeros] == [x.shape] * 2
    assert body(numpy_xp, x, [x, x], x, wanted=(False, False)) == (None, None)


def test_a_refused_backward_takes_back_what_it_asked_a_branch_to_save() -> None:
    with Built() as p:
        x = static.data("x", [1])
        x.stop_gradient = False  # a leaf with a gradient, but no parameter
        loss = wb.mean(static.nn.cond(x > 0, lambda: wb.exp(x) * x, lambda: x))
        before = outline(p.main)
        with pytest.raises(ValueError, match="depends on no trainable parameter"):
            static.append_backward(loss)
        assert outline(p.main) == before
        (g,) = static.gradients(loss, [x])
    assert p.run({"x": np.ones(1, np.float32)}, [g])[0].item() == pytest.approx(2 * np.e)
