"""Expressions as prebound NumPy calls against `Expr.evaluate`: the same bits in every layout and use of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import workbench.ops  # fills the op table
from tests.framework.op.binding import FLOATS, FULL, LONG, Scratch, run, same_bits, stale
from tests.ops.case import strided
from workbench.framework.expr import bound_steps
from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.expr.step_calls import BLOCK, select_calls
from workbench.framework.op.elementwise import trace
from workbench.framework.op.record import find_op
from workbench.framework.op.ufuncs import bind_expression

assert workbench.ops


# Numbers, dtypes, choices


X, Y = (Expr("input", value=i) for i in range(2))
WEAK: list[Any] = [
    X * 2, X + 0.1, 3.0 - X, 2.5 / X, X // 2.0, Recording.maximum(X, 0), Recording.minimum(0.5, X), X > 0.1,
    Recording.where(X > 1, X, 0.1), Recording.where(X > 1, 7, X), Recording.where(X != 0, X, 0.0),
    Recording.where(X != 0, -0.0, X), Recording.where(Y, X, -X), (X > 0) * X, (X > 0) * 2.0, (X > 0) + (X < 2),
    Recording.power(X, 2), Recording.power(X, 0.5), Recording.cast(X, "int32") * 3, Recording.cast(X, "bool"),
    Recording.cast(X > 0, "float16") * X, Recording.square(X) - X, Recording.logical_and(X, Y), X * np.float64(0.1),
    X * np.float32(0.1), Recording.add(1, 2) * X, X * (1.0 - X * X), Recording.erf(X) * 2.0, Recording.sign(X),
    Recording.remainder(X, 3), Recording.cast(Recording.cast(X, "float64"), "float32") + X,
]  # fmt: skip


@pytest.mark.parametrize("expression", WEAK, ids=repr)
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64", "uint8", "int8"])
def test_numbers_and_mixed_dtypes(expression: Expr, dtype: str) -> None:
    rng = np.random.default_rng(1)
    arrays = [(rng.standard_normal((5, 60)) * 3).astype("int8").astype(dtype) for _ in range(2)]
    arrays[0].flat[:4] = [0, 1, 2, 3]
    if dtype in FLOATS:
        arrays[0].flat[4:10] = [-0.0, 0.0, np.nan, np.inf, -np.inf, 0.3]
    try:
        with np.errstate(all="ignore"):
            want = np.asarray(expression.evaluate(numpy_xp, *arrays))
    except TypeError:  # NumPy refuses: so does the prepared form
        assert bind_expression([expression], arrays, [arrays[0].copy()], Scratch()) is None
        return
    for given_arrays in (arrays, [a[..., :2] for a in arrays]):  # few elements: other calls
        with np.errstate(all="ignore"):
            want = np.asarray(expression.evaluate(numpy_xp, *given_arrays))
        out, scratch = stale(want), Scratch()
        run(bind_expression([expression], given_arrays, [out], scratch), scratch)
        same_bits(out, want, repr(expression))


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("size", [1, 200, 1000])
@pytest.mark.parametrize("place", ["apart", "x", "y", "mask", "shifted x", "shifted y"])
def test_choices(dtype: str, size: int, place: str) -> None:
    """`np.where` bit by bit, wherever the result goes."""
    rng = np.random.default_rng(size)
    roomy = rng.integers(0, 255, (2, 2 * (size + 1) * np.dtype(dtype).itemsize), "uint8")
    if dtype == "bool":
        roomy %= 2
    x, y = roomy.view(dtype)[:, :size]
    mask = rng.random(size) < 0.5
    outs = {
        "apart": np.empty(size, dtype), "x": x, "y": y, "mask": mask if dtype == "bool" else np.empty(size, dtype),
        "shifted x": roomy.view(dtype)[0, 1 : size + 1], "shifted y": roomy.view(dtype)[1, 1 : size + 1],
    }  # fmt: skip
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    want = np.where(mask, x.view(bits), y.view(bits))
    scratch = Scratch()
    run(select_calls(mask, x, y, outs[place], bound_steps.Pool(scratch)), scratch)
    np.testing.assert_array_equal(outs[place].view(bits), want)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "bool"])
@pytest.mark.parametrize("size", [0, 100, 5000])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, strided])
def test_choices_into_new_memory(dtype: str, size: int, layout: Any) -> None:
    """`numpy_xp.where` is `np.where`, with numbers for either side too."""
    rng = np.random.default_rng(size)
    x, y = (layout(rng.standard_normal((4, size)).astype(dtype)) for _ in range(2))
    mask = layout(rng.random((4, size)) < 0.5)
    kind = np.dtype(dtype).type
    for a, b in ((x, y), (x, 0), (0, y), (x, 2), (2, y), (x, y[:1]), (x[0], np.array(3, dtype)), (x, -0.0)):
        typed = [kind(v) if isinstance(v, int | float) else v for v in (a, b)]
        want, got = np.where(mask, *typed), numpy_xp.where(mask, a, b)
        same_bits(got, want)
        same_bits(numpy_xp.where(mask.astype(dtype), a, b), np.where(mask.astype(dtype), *typed))


# Chains made at random


UNARY = ("abs", "exp", "tanh", "sqrt", "square", "negative", "sign", "floor", "erf", "log", "sin", "reciprocal")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "floor_divide", "arctan2")
COMPARED = ("less", "greater_equal", "equal")
NUMBERS = st.sampled_from([0, 1, -1, 2, 0.0, -0.0, 0.5, -1.5, 1e3])


@st.composite
def chains(draw: Any, n_inputs: int, dtype: str) -> list[Expr]:
    """One to three results over shared parts."""
    values: list[Expr] = [Expr("input", value=i, dtype=dtype) for i in range(n_inputs)]
    masks: list[Expr] = []

    def operand(*, number: bool = True) -> Any:
        return draw(NUMBERS) if number and draw(st.integers(0, 4)) == 0 else draw(st.sampled_from(values))

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["unary", "binary", "binary", "compare", "where", "mask", "cast"]))
        if kind == "unary":
            values.append(getattr(Recording, draw(st.sampled_from(UNARY)))(operand(number=False)))
        elif kind == "binary":
            values.append(getattr(Recording, draw(st.sampled_from(BINARY)))(operand(number=False), operand()))
        elif kind == "compare" or not masks:
            masks.append(getattr(Recording, draw(st.sampled_from(COMPARED)))(operand(number=False), operand()))
        elif kind == "where":
            values.append(Recording.where(draw(st.sampled_from(masks)), operand(number=False), operand()))
        elif kind == "mask":
            values.append(operand(number=False) * draw(st.sampled_from(masks)))
        else:
            values.append(Recording.cast(draw(st.sampled_from(masks)), dtype))
    count = draw(st.integers(1, 3))
    return [draw(st.sampled_from(values + masks)) for _ in range(count - 1)] + [values[-1]]


@st.composite
def layouts(draw: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array of a shape: whole, transposed in memory, or every other element; special values among the others."""
    seed = draw(st.integers(0, 2**16))
    data = (np.random.default_rng(seed).standard_normal(shape) * 2).astype(dtype)
    if data.size:
        data.flat[seed % data.size] = draw(st.sampled_from([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0]))
    kind = draw(st.sampled_from(["whole", "whole", "transposed", "spread"]))
    if kind == "transposed":
        return np.asfortranarray(data)
    return strided(data) if kind == "spread" else data


ANY_SHAPES = npst.mutually_broadcastable_shapes(num_shapes=3, min_dims=0, max_dims=3, min_side=0, max_side=5)
WIDE_SHAPES = st.sampled_from([((3, 200),) * 3, ((3, 200), (200,), (3, 1)), ((600,), (600,), ())])


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_chains_give_the_bits_of_evaluate(data: Any) -> None:
    dtype = data.draw(st.sampled_from(FLOATS))
    shapes = data.draw(st.one_of(ANY_SHAPES.map(lambda s: s.input_shapes), WIDE_SHAPES))
    arrays = [np.array(data.draw(layouts(s, dtype))) if s == () else data.draw(layouts(s, dtype)) for s in shapes]
    results = data.draw(chains(3, dtype))
    with np.errstate(all="ignore"):
        want = [np.array(r.evaluate(numpy_xp, *arrays)) for r in results]  # a copy: some are inputs
    outs, free = [stale(w) for w in want], [0, 1, 2]
    for k, w in enumerate(want):
        fitting = [i for i in free if (arrays[i].shape, arrays[i].dtype) == (w.shape, w.dtype)]
        if fitting and data.draw(st.booleans(), label=f"out {k} in place"):
            source = data.draw(st.sampled_from(fitting))
            outs[k] = arrays[source]
            free.remove(source)
    scratch = Scratch()
    run(bind_expression(results, arrays, outs, scratch), scratch)
    for k, w in enumerate(want):
        same_bits(outs[k], w, f"result {k} of {results}")


# Long operands run block by block


def test_blocks_with_a_number_in_an_array() -> None:
    """An operand of one element goes with every block; one that is a row does not, and all runs at once."""
    size, x = LONG + 5, Expr("input", value=0)
    chain = Recording.maximum(Recording.exp(-x) * Expr("input", value=1) + 1.0, 0.5)
    long = np.random.default_rng(0).standard_normal((2, size)).astype("float32")
    for other in (np.full((), 0.3, "float32"), np.full((1, 1), 0.3, "float32"), np.ones((2, 1), "float32")):
        out, scratch = np.empty_like(long), Scratch()
        run(bind_expression([chain], [long, other], [out], scratch), scratch)
        same_bits(out, chain.evaluate(numpy_xp, long, other))


def test_a_shifted_out_is_not_cut_into_blocks() -> None:
    """The blocks of one operand would overwrite what later blocks read."""
    size, x = LONG + BLOCK, Expr("input", value=0)
    memory = np.random.default_rng(0).standard_normal(size + 100).astype("float32")
    chain = Recording.tanh(Recording.exp(-x) + x)
    want = chain.evaluate(numpy_xp, memory[:size])
    out, scratch = memory[100:], Scratch()
    run(bind_expression([chain], [memory[:size]], [out], scratch), scratch)
    same_bits(out, want)


def test_a_long_chain_needs_few_buffers() -> None:
    """Fused chains are long: no recursion, and temporaries share memory."""
    x = Expr("input", value=0)
    chain: Any = x
    for k in range(3000):
        chain = Recording.tanh(chain) * (0.5 + k % 3) + x
    out, scratch = np.empty_like(FULL), Scratch()
    run(bind_expression([chain], [FULL], [out], scratch), scratch)
    want = FULL
    for k in range(3000):
        want = np.tanh(want) * np.float32(0.5 + k % 3) + FULL
    same_bits(out, want)
    assert not scratch.arrays  # everything lives in out


def test_parts_that_occur_twice_are_computed_once() -> None:
    expression = trace(find_op("tanh_shrink_grad"))  # g * tanh(x) * tanh(x)
    out, scratch = np.empty_like(FULL), Scratch()
    calls = bind_expression([expression], [FULL, FULL], [out], scratch)
    assert calls is not None and len(calls) == 3


def test_a_choice_without_dimensions() -> None:
    """A ufunc makes np.float64 of such an array, which is a Python float too and must not be taken for a number."""
    x = np.array(-0.5)
    for result, want in (
        (Recording.where(X < 0, Recording.abs(X), 0), 0.5),
        (Recording.where(X < 0, 2, Recording.abs(X)), 2.0),
    ):
        assert result.evaluate(numpy_xp, x) == want
        out, scratch = np.empty(()), Scratch()
        run(bind_expression([result], [x], [out], scratch), scratch)
        assert out == want
