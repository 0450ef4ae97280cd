"""Every element-wise op and its backward op as prebound calls against `forward`: the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import workbench.ops  # fills the op table
from tests.framework.op.binding import FLOATS, FULL, LONG, Scratch, run, same_bits, stale
from tests.ops import case as C
from tests.ops.test_cases import CASES, _emptied
from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.expr.step_calls import BLOCK
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.record import OPS, Op, find_op
from workbench.framework.op.ufuncs import bind_elementwise, bind_expression, passes_through

assert workbench.ops


# Every op and its backward op


@dataclass
class Use:
    """One op on arrays, and what its own body gives."""

    label: str
    op: Op
    arrays: list[Any]
    attrs: dict[str, Any]

    def want(self, arrays: Sequence[Any] | None = None) -> tuple[Any, ...]:
        extra = {"wanted": (True,) * len(self.op.outputs)} if "wanted" in self.op.needs else {}
        outputs = C.run_forward(self.op, self.arrays if arrays is None else arrays, self.attrs, **extra)
        return tuple(None if v is None else np.array(v) for v in outputs)

    def bound(self, outs: Sequence[Any], scratch: Scratch, arrays: Sequence[Any] | None = None) -> Any:
        return bind_elementwise(self.op, outs, self.arrays if arrays is None else arrays, scratch, self.attrs)


def uses_of(case: C.Case, dtype: str, arrays: list[Any] | None = None) -> list[Use]:
    """The op of a case, and its backward op if the case is differentiated."""
    arrays = case.arrays(dtype) if arrays is None else arrays
    uses = [Use(f"{case.label} {dtype}", case.op, arrays, case.full_attrs)]
    if case.differentiated() and dtype != "float16":  # gradients of halves are left to `forward`
        outputs = uses[0].want()
        kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
        inputs = [*arrays, *kept, *C.cotangents(case, outputs)]
        backward = find_op(case.op.grad_type)
        uses.append(Use(f"{backward.type} of {case.label} {dtype}", backward, inputs, case.full_attrs))
    return uses


def over_uses() -> Any:
    chosen = [c for c in CASES if c.type in OPS and c.op.is_elementwise]
    return pytest.mark.parametrize("case", chosen, ids=[c.label for c in chosen])


def prepared_dtypes(case: C.Case) -> list[str]:
    """NumPy itself has no bfloat16."""
    named = [str(v) for v in case.attrs.values()]
    return [d for d in case.run_dtypes() if d != "bfloat16" and "bfloat16" not in named]


def test_every_elementwise_op_is_among_the_cases() -> None:
    ops = {t for t, record in OPS.items() if record.is_elementwise and not record.is_grad}
    covered = {c.type for c in CASES if c.type in OPS and c.op.is_elementwise and prepared_dtypes(c)}
    toys = {t for t in ops if t.startswith("toy")}
    assert not (ops - toys - covered) and len(covered) > 60


@over_uses()
def test_ops_give_the_bits_of_forward(case: C.Case) -> None:
    for dtype in prepared_dtypes(case):
        for use in uses_of(case, dtype):
            want, scratch = use.want(), Scratch()
            outs = [stale(w) for w in want]
            calls = use.bound(outs, scratch)
            for _ in range(2):  # the second run finds other garbage in outs and scratch
                run(calls, scratch)
                for got, w in zip(outs, want, strict=True):
                    if w is not None:
                        same_bits(got, w, use.label)


@over_uses()
def test_ops_see_new_values(case: C.Case) -> None:
    """The calls hold memory, not values."""
    for dtype in prepared_dtypes(case):
        for use in uses_of(case, dtype):
            arrays = C.tree_map(np.array, use.arrays)
            outs, scratch = [stale(w) for w in use.want()], Scratch()
            calls = use.bound(outs, scratch, arrays)
            for array in arrays:
                if array is not None:
                    array[...] = array[..., ::-1].copy() if array.ndim else array
            run(calls, scratch)
            for got, w in zip(outs, use.want(arrays), strict=True):
                if w is not None:
                    same_bits(got, w, use.label)


@over_uses()
def test_ops_in_place(case: C.Case) -> None:
    """Every out in turn is the memory of every input of its shape and dtype."""
    for dtype in prepared_dtypes(case):
        for use in uses_of(case, dtype):
            want = use.want()
            for i, source in enumerate(use.arrays):
                for k, w in enumerate(want):
                    if w is None or source is None or (source.shape, source.dtype) != (w.shape, w.dtype):
                        continue
                    arrays = C.tree_map(np.array, use.arrays)
                    outs, scratch = [stale(v) for v in want], Scratch()
                    outs[k] = arrays[i]
                    run(use.bound(outs, scratch, arrays), scratch)
                    for got, v in zip(outs, want, strict=True):
                        if v is not None:
                            same_bits(got, v, f"{use.label}: out {k} in input {i}")


@over_uses()
def test_ops_on_strided_memory(case: C.Case) -> None:
    for dtype in prepared_dtypes(case):
        for use in uses_of(case, dtype):
            arrays, want, scratch = [C.strided(a) for a in use.arrays], use.want(), Scratch()
            outs = [C.strided(stale(w)) for w in want]
            calls = use.bound(outs, scratch, arrays)
            if calls is None:  # sums of strided arrays are left to `forward`
                full = np.broadcast_shapes(*(a.shape for a in use.arrays if a is not None))
                assert use.op.is_grad and any(w is not None and w.shape != full for w in want), use.label
                continue
            run(calls, scratch)
            for got, w in zip(outs, use.want(arrays), strict=True):
                if w is not None:
                    same_bits(got, w, use.label)


@over_uses()
def test_only_what_is_wanted_is_computed(case: C.Case) -> None:
    for use in uses_of(case, prepared_dtypes(case)[0] if prepared_dtypes(case) else "float32")[1:]:
        want = use.want()
        for keep in range(len(want)):
            outs, scratch = [stale(w) if k == keep else None for k, w in enumerate(want)], Scratch()
            run(use.bound(outs, scratch), scratch)
            same_bits(outs[keep], want[keep], use.label)
        nothing = use.bound([None] * len(want), Scratch())
        assert nothing == []


@over_uses()
def test_ops_on_empty_arrays(case: C.Case) -> None:
    if not prepared_dtypes(case) or not case.size0:
        return
    for emptied in _emptied(case):
        for use in uses_of(case, "float64", emptied):
            want, scratch = use.want(), Scratch()
            outs = [stale(w) for w in want]
            run(use.bound(outs, scratch), scratch)
            for got, w in zip(outs, want, strict=True):
                if w is not None:
                    same_bits(got, w, use.label)


@over_uses()
def test_what_passes_through_is_an_input(case: C.Case) -> None:
    for dtype in prepared_dtypes(case):
        for use in uses_of(case, dtype):
            dtypes = [None if a is None else a.dtype for a in use.arrays]
            for out, source in passes_through(use.op, dtypes, use.attrs).items():
                w = use.want()[out]
                if w is not None and w.shape == use.arrays[source].shape:
                    same_bits(w, use.arrays[source], use.label)


# How much there is to call


def bound(type: str, n_out: int = 1, **attrs: Any) -> tuple[list[Any], int]:
    """Calls and scratch buffers of an op on float32 operands of one shape."""
    record, scratch = find_op(type), Scratch()
    arrays = [FULL.copy() for _ in record.inputs]
    calls = bind_elementwise(record, [np.empty_like(FULL) for _ in range(n_out)], arrays, scratch, attrs)
    assert calls is not None
    return calls, len(scratch.arrays)


@pytest.mark.parametrize(
    ("type", "attrs", "calls", "buffers"),
    [
        ("relu", {}, 1, 0),
        ("relu_grad", {}, 2, 0),
        ("tanh", {}, 1, 0),
        ("tanh_grad", {}, 3, 0),
        ("sigmoid_grad", {}, 3, 1),
        ("square_grad", {}, 2, 0),
        ("scale", {"scale": 2.0}, 1, 0),
        ("scale", {"scale": 2.0, "bias": 1.0}, 2, 0),
        ("scale_grad", {"scale": 2.0}, 1, 0),
        ("exp_grad", {}, 1, 0),
        ("cast", {"dtype": "float32"}, 1, 0),
        ("leaky_relu", {}, 5, 2),
    ],
)
def test_no_call_too_many(type: str, attrs: dict[str, Any], calls: int, buffers: int) -> None:
    prepared, allocated = bound(type, **attrs)
    assert (len(prepared), allocated) == (calls, buffers)


@pytest.mark.parametrize(
    ("type", "calls"), [("elementwise_add_grad", 2), ("elementwise_sub_grad", 2), ("elementwise_mul_grad", 2)]
)
def test_gradients_of_two_operands(type: str, calls: int) -> None:
    prepared, allocated = bound(type, 2)
    assert (len(prepared), allocated) == (calls, 0)


def test_a_gradient_in_the_memory_it_passes_through_costs_nothing() -> None:
    g, x, y, bias = FULL.copy(), FULL.copy(), FULL.copy(), FULL[0].copy()
    add = find_op("elementwise_add_grad")
    assert bind_elementwise(add, [g, None], [x, y, g], Scratch(), {}) == []
    out = np.empty_like(bias)
    calls = bind_elementwise(add, [g, out], [x, bias, g], Scratch(), {})
    assert calls is not None and len(calls) == 1
    calls[0]()
    same_bits(out, FULL.sum(axis=(0,)))


def test_which_outputs_pass_through() -> None:
    f4, f8 = np.dtype("float32"), np.dtype("float64")

    def passed_through(type: str, *dtypes: Any, **attrs: Any) -> dict[int, int]:
        return passes_through(find_op(type), dtypes, attrs)

    assert passed_through("elementwise_add_grad", f4, f4, f4) == {0: 2, 1: 2}
    assert passed_through("elementwise_add_grad", f4, f8, f4) == {0: 2}  # the second one is cast
    assert passed_through("elementwise_sub_grad", f4, f4, f4) == {0: 2}
    assert passed_through("scale_grad", f4, f4, scale=1.0, bias=3.0) == {0: 1}
    assert passed_through("scale_grad", f4, f4, scale=2.0) == {}
    assert passed_through("cast", f4, dtype="float32") == {0: 0}
    assert passed_through("cast", f4, dtype="float64") == {}
    assert passed_through("cast_grad", f4, f8, dtype="float64") == {}
    assert passed_through("increment_grad", f4, f4, wanted=(True,)) == {0: 1}
    assert passed_through("relu", f4) == {} == passed_through("relu_grad", f4, f4, f4)


# Where there is no prepared form


def test_bfloat16_is_left_to_forward() -> None:
    import ml_dtypes

    x = FULL.astype(ml_dtypes.bfloat16)
    for type in ("relu", "scale"):
        assert bind_elementwise(find_op(type), [x.copy()], [x], Scratch(), {}) is None
    assert bind_elementwise(find_op("cast"), [x.copy()], [FULL], Scratch(), {"dtype": "bfloat16"}) is None


def test_outs_that_do_not_fit() -> None:
    x = Expr("input", value=0)
    for out in (np.empty((32, 63), "float32"), np.empty((1, 64), "float32"), np.empty((32, 64), "float64")):
        assert bind_expression([Recording.exp(x)], [FULL], [out], Scratch()) is None
        assert bind_elementwise(find_op("exp"), [out], [FULL], Scratch(), {}) is None


def test_outs_that_overlap_each_other() -> None:
    x, both = Expr("input", value=0), np.empty((33, 64), "float32")
    results = [Recording.exp(x), Recording.tanh(x)]
    assert bind_expression(results, [FULL], [both[:32], both[1:]], Scratch()) is None
    assert bind_expression(results, [FULL], [both[:32], None], Scratch()) is not None


def test_a_number_the_dtype_does_not_hold() -> None:
    x, small = Expr("input", value=0, dtype="int8"), np.ones(4, "int8")
    with pytest.raises(OverflowError):
        (x + 1000).evaluate(numpy_xp, small)
    assert bind_expression([x + 1000], [small], [small.copy()], Scratch()) is None


def test_a_body_that_cannot_be_traced() -> None:
    before = set(OPS)
    record = elementwise("mean_free", "X -> Out")(lambda xp, x: x - xp.mean(x))
    try:
        assert bind_elementwise(record, [FULL.copy()], [FULL], Scratch(), {}) is None
        assert passes_through(record, [FULL.dtype], {}) == {}
    finally:
        for type in set(OPS) - before:
            del OPS[type]


# Attributes, gradients, long operands


def test_attributes_that_are_equal_but_not_the_same() -> None:
    """0.0 and -0.0, 1 and 1.0 and True are one key of a dict each."""
    x = np.array([1.0, -2.0], "float32")
    for factor in (0.0, -0.0, 1, 1.0, True):
        out, scratch = np.empty_like(x), Scratch()
        run(bind_elementwise(find_op("scale"), [out], [x], scratch, {"scale": factor}), scratch)
        same_bits(out, x * np.float32(factor), str(factor))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    npst.mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=4, min_side=0, max_side=6),
    st.sampled_from(["add", "sub", "mul", "div", "max", "min", "pow"]),
    st.sampled_from([d for d in FLOATS if d != "float16"]),
    st.integers(0, 2**16),
)
def test_gradients_undo_broadcasting(shapes: Any, name: str, dtype: str, seed: int) -> None:
    rng, record = np.random.default_rng(seed), find_op(f"elementwise_{name}")
    x, y = (rng.uniform(0.5, 2.0, s).astype(dtype) for s in shapes.input_shapes)
    out = np.asarray(record.forward(numpy_xp, x, y))
    kept = [out] if "Out" in record.saved else []
    arrays = [x, y, *kept, rng.standard_normal(out.shape).astype(dtype)]
    backward, scratch = find_op(record.grad_type), Scratch()
    want = C.run_forward(backward, arrays, {}, wanted=(True, True))
    outs = [np.empty_like(x), np.empty_like(y)]
    run(bind_elementwise(backward, outs, arrays, scratch, {}), scratch)
    for got, w in zip(outs, want, strict=True):
        same_bits(got, w)


def test_gradients_of_another_dtype() -> None:
    x, y = np.ones((4, 3), "float32"), np.ones(3, "float64")
    g = np.random.default_rng(0).standard_normal((4, 3))
    outs, scratch = [np.empty_like(x), np.empty_like(y)], Scratch()
    record = find_op("elementwise_add_grad")
    run(bind_elementwise(record, outs, [x, y, g], scratch, {}), scratch)
    for got, w in zip(outs, record.forward(numpy_xp, x, y, g), strict=True):
        same_bits(got, w)


@pytest.mark.parametrize("other", FLOATS)
def test_gradients_of_halves_are_left_to_forward(other: str) -> None:
    """A sum over a broadcast is taken in float32 and rounded once; prebound calls would round what is added up."""
    x, y, g = np.ones((5000, 3), "float16"), np.ones(3, other), np.ones((5000, 3), "float16")
    outs, record = [np.empty_like(x), np.empty_like(y)], find_op("elementwise_add_grad")
    assert bind_elementwise(record, outs, [x, y, g], Scratch(), {}) is None
    assert (record.forward(numpy_xp, x, y, g)[1] == np.asarray(5000, other)).all()


@pytest.mark.parametrize("type", ["sigmoid", "gelu", "relu", "clip", "tanh_grad", "elementwise_div_grad", "leaky_relu"])
@pytest.mark.parametrize("place", ["apart", "in place"])
@pytest.mark.parametrize("size", [LONG + 1, LONG + BLOCK + 77])
def test_blocks(type: str, place: str, size: int) -> None:
    record, rng = find_op(type), np.random.default_rng(size)
    attrs = record.complete({"min": -0.5, "max": 1.0} if type == "clip" else {})
    arrays = [rng.standard_normal((1, size)).astype("float32") for _ in record.inputs]
    wanted = {"wanted": (True,) * len(record.outputs)} if record.is_grad else {}
    want = C.run_forward(record, [a.copy() for a in arrays], attrs, **wanted)
    outs, scratch = [np.empty_like(w) for w in want], Scratch()
    if place == "in place":
        outs[0] = arrays[-1]
    calls = bind_elementwise(record, outs, arrays, scratch, attrs)
    run(calls, scratch)
    assert calls is not None and len(calls) >= -(-size // BLOCK)
    assert all(a.size <= BLOCK for a in scratch.arrays)
    for got, w in zip(outs, want, strict=True):
        same_bits(got, w, type)
