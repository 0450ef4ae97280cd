"""Random small programs: the Executor against a second interpreter, gradients against differences."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.framework.program.guard import static_mode

# The second interpreter: one line of plain NumPy per op type, read from slots and attributes.

Rule = Callable[[dict[str, Any], dict[str, Any]], Any]


def _axes(attrs: dict[str, Any]) -> Any:
    return None if attrs["reduce_all"] else tuple(attrs["dim"])


def _reduced(f: Callable[..., Any]) -> Rule:
    def rule(i: dict[str, Any], a: dict[str, Any]) -> Any:
        reduced = np.asarray(f(i["X"], axis=_axes(a), keepdims=a["keep_dim"]))
        return reduced.reshape(1) if reduced.shape == () else reduced

    return rule


def _matmul(i: dict[str, Any], a: dict[str, Any]) -> Any:
    x = np.swapaxes(i["X"], -1, -2) if a["trans_x"] else i["X"]
    y = np.swapaxes(i["Y"], -1, -2) if a["trans_y"] else i["Y"]
    return np.einsum("ij,jk->ik", x, y)


RULES: dict[str, Rule] = {
    "elementwise_add": lambda i, a: i["X"] + i["Y"],
    "elementwise_sub": lambda i, a: i["X"] - i["Y"],
    "elementwise_mul": lambda i, a: i["X"] * i["Y"],
    "elementwise_max": lambda i, a: np.where(i["X"] > i["Y"], i["X"], i["Y"]),
    "tanh": lambda i, a: 1 - 2 / (np.exp(2 * i["X"]) + 1),
    "sigmoid": lambda i, a: 1 / (1 + np.exp(-i["X"])),
    "square": lambda i, a: i["X"] ** 2,
    "scale": lambda i, a: i["X"] * a["scale"] + a["bias"],
    "matmul_v2": _matmul,
    "reduce_sum": _reduced(np.sum),
    "reduce_mean": _reduced(np.mean),
    "mean": lambda i, a: np.asarray(i["X"].sum() / i["X"].size).reshape(1),
    "transpose2": lambda i, a: i["X"].T,
    "concat": lambda i, a: np.concatenate(i["X"], axis=a["axis"]),
    "assign": lambda i, a: i["X"].copy(),
}


def interpret(program: Any, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run the forward operators one after the other; nothing is freed and everything is copied."""
    values = {name: value.copy() for name, value in values.items()}
    for op in program.global_block().ops:
        ins = {slot: [values[n] for n in names] for slot, names in op.inputs.items()}
        ins = {slot: operands if op.type == "concat" else operands[0] for slot, operands in ins.items()}  # type: ignore[misc]
        (out,) = op.output_arg_names if op.type != "transpose2" else op.output_arg_names[:1]
        values[out] = np.array(RULES[op.type](ins, op.attrs))
    return values


# Programs


def grow(draw: Any, known: list[Any], allow_kinks: bool) -> None:
    """Append one operator to the program, on variables that may have been used before."""
    pick = lambda: known[draw(st.integers(0, len(known) - 1))]  # noqa: E731
    kind = draw(st.sampled_from(["binary", "unary", "reduce", "matmul", "concat", "in place", "transpose"]))
    x, y = pick(), pick()
    if kind == "binary" and _broadcasts(x.shape, y.shape):
        known.append(draw(st.sampled_from([wb.add, wb.subtract, wb.multiply] + [wb.maximum] * allow_kinks))(x, y))
    elif kind == "unary":
        known.append(draw(st.sampled_from([wb.tanh, wb.nn.functional.sigmoid, wb.square, wb.assign]))(x))
    elif kind == "reduce":
        axis = draw(st.sampled_from([None, *range(len(x.shape))]))
        known.append(draw(st.sampled_from([wb.sum, wb.mean]))(x, axis=axis, keepdim=draw(st.booleans())))
    elif kind == "matmul" and len(x.shape) == 2:
        known.append(wb.matmul(x, x, transpose_y=True) if draw(st.booleans()) else wb.matmul(x, x, transpose_x=True))
    elif kind == "concat":
        known.append(wb.concat([x, x, x] if draw(st.booleans()) else [x, x * 0.5], axis=0))
    elif kind == "transpose" and len(x.shape) == 2:
        known.append(wb.transpose(x, [1, 0]))
    elif kind == "in place":
        attrs = {"scale": draw(st.sampled_from([0.5, -1.5])), "bias": 0.25}
        x.block.append_op("scale", {"X": x}, {"Out": x}, attrs)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(p == q or 1 in (p, q) for p, q in zip(a[::-1], b[::-1], strict=False))


SHAPES = st.sampled_from([(1,), (3,), (2, 3), (3, 2), (1, 3), (2, 1)])


def build(draw: Any, allow_kinks: bool) -> tuple[Any, list[Any], dict[str, np.ndarray]]:
    """A program, the variables in it, and a feed."""
    feed: dict[str, np.ndarray] = {}
    with Built() as p:
        p.main.random_seed = 1
        r = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        for i in range(draw(st.integers(1, 3))):
            shape = draw(SHAPES)
            static.data(f"x{i}", shape, "float64")
            feed[f"x{i}"] = r.uniform(-1, 1, shape)
        known = list(p.main.global_block().vars.values())
        for _ in range(draw(st.integers(1, 12))):
            grow(draw, known, allow_kinks)
    return p, known, feed


@settings(max_examples=120)
@given(st.data())
def test_the_executor_computes_what_the_second_interpreter_computes(data: Any) -> None:
    p, known, feed = build(data.draw, allow_kinks=True)
    expected = interpret(p.main, feed)
    names = data.draw(st.lists(st.sampled_from([v.name for v in known]), min_size=1, max_size=4))
    fetched = static.Executor().run(p.main, feed=feed, fetch_list=names, scope=static.Scope())
    for name, value in zip(names, fetched, strict=True):
        assert value.dtype == np.float64
        np.testing.assert_allclose(value, expected[name], rtol=1e-10, atol=1e-12, err_msg=str(p.main))


@settings(max_examples=60)
@given(st.data())
def test_pruning_does_not_change_what_is_fetched(data: Any) -> None:
    p, known, feed = build(data.draw, allow_kinks=True)
    assume(not any(_is_overwritten(p.main, name) for name in feed))  # what is fed counts as a leaf (E-5)
    name = data.draw(st.sampled_from([v.name for v in known]))
    run = lambda **how: static.Executor().run(  # noqa: E731
        p.main, feed=feed, fetch_list=[name], scope=static.Scope(), **how
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is not needed by what is run")
        assert np.array_equal(run()[0], run(use_prune=True)[0])


@settings(max_examples=60)
@given(st.data())
def test_persistable_variables_carry_over(data: Any) -> None:
    """Every variable that is written becomes persistable at random; three steps in one scope."""
    p, known, feed = build(data.draw, allow_kinks=True)
    assume(p.main.global_block().ops)
    written = [v for v in known if not v.is_data]
    for v in written:
        v.persistable = data.draw(st.booleans())
    p.main.touch()
    scope, exe, values = static.Scope(), static.Executor(), dict(feed)
    for _ in range(3):
        exe.run(p.main, feed=feed, scope=scope)
        values = interpret(p.main, {**values, **feed})
        for v in written:
            if v.persistable:
                np.testing.assert_allclose(np.array(scope.find_var(v.name).get_tensor()), values[v.name], rtol=1e-10)
            else:
                assert scope.find_var(v.name) is None


@settings(max_examples=120)
@given(st.data())
def test_gradients_are_numerical_ones_or_refused(data: Any) -> None:
    """A value that is overwritten may make a gradient impossible; then it is refused, never wrong."""
    p, known, feed = build(data.draw, allow_kinks=False)
    fresh, inputs = list(feed), []
    with static_mode(), static.program_guard(p.main, p.startup):
        target = wb.mean(data.draw(st.sampled_from(known)))
        forward = p.main.clone()
        with contextlib.suppress(NotImplementedError):
            inputs = static.gradients(target, [p.main.global_block().var(n) for n in fresh])
    if not inputs:
        assert any(op.type == "scale" and op.inputs["X"] == op.outputs["Out"] for op in forward.global_block().ops)
        return
    pairs = [(n, g) for n, g in zip(fresh, inputs, strict=True) if g is not None and not _is_overwritten(forward, n)]
    if not pairs:
        return
    gradients = static.Executor().run(p.main, feed=feed, fetch_list=[g for _, g in pairs], scope=static.Scope())
    direction = {n: np.random.default_rng(0).standard_normal(feed[n].shape) for n, _ in pairs}
    along = sum(float((g * direction[n]).sum()) for (n, _), g in zip(pairs, gradients, strict=True))

    def at(t: float) -> float:
        moved = {n: v + t * direction[n] if n in direction else v for n, v in feed.items()}
        return float(interpret(forward, moved)[target.name].item())

    eps = 1e-6
    np.testing.assert_allclose(along, (at(eps) - at(-eps)) / (2 * eps), rtol=1e-5, atol=1e-7, err_msg=str(p.main))


def _is_overwritten(program: Any, name: str) -> bool:
    """Whether the gradient by this feed means its second value."""
    return any(name in op.output_arg_names for op in program.global_block().ops)
