"""Prepared calls (`Op.bind`): on every op case they give the bits of `forward`, run after run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops import case as C
from tests.ops.test_cases import CASES, _emptied
from workbench.errors import InvalidArgument
from workbench.framework.op.record import OPS, Op, find_op

Layout = Callable[[np.ndarray], np.ndarray]


def _bound(case: C.Case) -> bool:
    return case.op.bind is not None and bool(case.inputs or case.op.needs == ())


def _bound_back(case: C.Case) -> bool:
    return case.op.grad_bind is not None and bool(case.differentiated())


def over(keep: Callable[[C.Case], bool]) -> Any:
    chosen = [case for case in CASES if case.type in OPS and keep(case)]
    return pytest.mark.parametrize("case", chosen, ids=[case.label for case in chosen])


PREPARED = sorted(type for type, op in OPS.items() if op.bind is not None)


# Operands: writable, in some layout, and changed between runs


def plain(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="C")


def reversed_axes(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="F")


def spread(a: np.ndarray) -> np.ndarray:
    return C.strided(a) if a.ndim else np.array(a)


LAYOUTS = (plain, reversed_axes, spread)


def _laid_out(values: Sequence[Any], layout: Layout) -> list[Any]:
    return [C.tree_map(layout, v) for v in values]


def _change(array: np.ndarray) -> None:
    """Other values of the same kind: the elements move on by one; floats shrink, too."""
    moved = np.roll(array.reshape(-1), 1).reshape(array.shape)
    array[...] = (moved.astype(np.float64) * 0.75).astype(array.dtype) if array.dtype.kind in "fV" else moved


def _stale(like: Any) -> Any:
    """A buffer for a result, full of garbage."""

    def one(a: np.ndarray) -> np.ndarray:
        return np.full(a.shape, np.nan if a.dtype.kind in "fV" else 77, a.dtype)

    return C.tree_map(one, like)


class Scratch:
    """Gives memory full of garbage, and new garbage before every run."""

    def __init__(self) -> None:
        self.given: list[np.ndarray] = []

    def __call__(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        self.given.append(np.empty(tuple(shape), dtype))
        self.spoil()
        return self.given[-1]

    def spoil(self) -> None:
        for array in self.given:
            array.fill(np.nan if array.dtype.kind in "fV" else 113)


def _run(calls: Sequence[Callable[[], Any]], scratch: Scratch) -> None:
    scratch.spoil()
    with np.errstate(all="ignore"):
        for call in calls:
            call()


def _same(got: Any, want: Any, what: str) -> None:
    for a, b in zip(C.leaves([got]), C.leaves([want]), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        wide = (a.astype(np.float64), b.astype(np.float64)) if a.dtype.kind == "V" else (a, b)
        assert np.array_equal(*wide, equal_nan=a.dtype.kind in "fV"), f"{what}:\n{a}\nnot\n{b}"


BOUND: set[str] = set()  # ops that had a prepared form in some check


def check(op: Op, arrays: list[Any], outs: list[Any], attrs: dict[str, Any], **extra: Any) -> bool:
    """Bind once, run three times on changing values; False if there is no prepared form.

    An out that is the memory of an input is left alone before it is compared.
    """
    scratch = Scratch()
    calls = op.bind(outs, arrays, scratch, **attrs)  # type: ignore[misc]
    if calls is None:
        return False
    BOUND.add(op.type)
    for turn in range(3):
        if turn:
            for a in C.leaves(arrays):
                _change(a)
        want = C.tree_map(np.array, list(C.run_forward(op, arrays, attrs, **extra)))
        before = C.tree_map(np.array, arrays)
        _run(calls, scratch)
        for slot, out, expected in zip(op.outputs, outs, want, strict=True):
            if out is not None:
                _same(out, expected, f"{op.type} {slot.name}, run {turn}")
        written = C.leaves(outs)
        for a, old in zip(C.leaves(arrays), C.leaves(before), strict=True):
            if not any(np.shares_memory(a, o) for o in written):
                _same(a, old, f"{op.type}: an operand was written")
    return True


def check_if_bound(op: Op, arrays: list[Any], outs: list[Any], attrs: dict[str, Any], **extra: Any) -> None:
    """`check` where there may be no prepared form; which ops have one at all is looked at in the end."""
    check(op, arrays, outs, attrs, **extra)


def _variants(case: C.Case) -> list[tuple[str, list[Any]]]:
    """Operands of every dtype and layout, and empty ones."""
    variants = [
        (f"{d} {layout.__name__}", _laid_out(case.arrays(d), layout)) for d in case.run_dtypes() for layout in LAYOUTS
    ]
    if case.size0 and case.inputs:
        for given in _emptied(case):
            arrays = given + [None] * (len(case.op.inputs) - len(given))
            variants.append(("empty", _laid_out(arrays, plain)))
    return variants


def _forward(case: C.Case, arrays: list[Any]) -> list[Any]:
    return list(C.run_forward(case.op, arrays, case.full_attrs))


@over(_bound)
def test_forward(case: C.Case) -> None:
    _check_case(case)


def _check_case(case: C.Case) -> None:
    for _, arrays in _variants(case):
        check_if_bound(case.op, arrays, [_stale(out) for out in _forward(case, arrays)], case.full_attrs)


@over(lambda case: _bound(case) and len(case.op.outputs) > 1)
def test_outputs_nobody_wants(case: C.Case) -> None:
    for place in range(len(case.op.outputs)):
        arrays = _laid_out(case.arrays(), plain)
        outs = [_stale(out) if i == place else None for i, out in enumerate(_forward(case, arrays))]
        check_if_bound(case.op, arrays, outs, case.full_attrs)


def _in_place(op: Op, arrays: list[Any], outs: list[Any]) -> list[list[Any]]:
    """Outs that lie on inputs: all that `aliases` allows at once; for element-wise ops each input in turn."""
    slots = [s.name for s in op.inputs]
    shared = [
        arrays[slots.index(op.aliases[s.name])] if s.name in op.aliases else out
        for s, out in zip(op.outputs, outs, strict=True)
    ]
    choices = [shared] if op.aliases and not op.is_view else []
    if op.is_elementwise:
        fitting = [a for a in C.leaves(arrays) if (a.shape, a.dtype) == (outs[0].shape, outs[0].dtype)]
        choices += [[a] for a in fitting] if len(outs) == 1 else []
    return choices


@over(lambda case: _bound(case) and (case.op.is_elementwise or bool(case.op.aliases)))
def test_in_place(case: C.Case) -> None:
    for dtype in case.run_dtypes():
        arrays = _laid_out(case.arrays(dtype), plain)
        for i in range(len(_in_place(case.op, arrays, _forward(case, arrays)))):
            arrays = _laid_out(case.arrays(dtype), plain)
            outs = _in_place(case.op, arrays, _forward(case, arrays))[i]
            check_if_bound(case.op, arrays, outs, case.full_attrs)


def _backward_operands(case: C.Case, arrays: list[Any], layout: Layout, alone: int | None = None) -> list[Any]:
    """What the backward op reads; inputs that are not saved hold garbage.

    Args:
        alone: the only output with a gradient; None: all have one that can.
    """
    outputs = _forward(case, arrays)
    kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
    gs = [g if alone in (None, i) else None for i, g in enumerate(C.cotangents(case, outputs))]
    ins = [a if s.name in case.op.saved else _stale(a) for s, a in zip(case.op.inputs, arrays, strict=True)]
    return [*ins, *_laid_out([*kept, *gs], layout)]


def _gradients(op: Op, operands: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return list(C.run_forward(op, operands, attrs, wanted=(True,) * len(op.outputs)))


@over(_bound_back)
def test_gradient(case: C.Case) -> None:
    _check_gradient(case)


def _check_gradient(case: C.Case) -> None:
    """With a gradient for every output, and for one alone."""
    if not _bound_back(case):
        return
    op, attrs, several = find_op(case.op.grad_type), case.full_attrs, len(case.op.outputs) > 1
    for alone in (None, *range(len(case.op.outputs) if several else 0)):
        for name, arrays in _variants(case):
            layout = next((lay for lay in LAYOUTS if lay.__name__ in name), plain)
            operands = _backward_operands(case, arrays, layout, alone)
            if all(g is None for g in operands[-len(case.op.outputs) :]):
                continue  # the one output is of integers
            outs = [_stale(out) for out in _gradients(op, operands, attrs)]
            check_if_bound(op, operands, outs, attrs, wanted=(True,) * len(outs))


@over(lambda case: _bound_back(case) and len(find_op(case.op.grad_type).outputs) > 1)
def test_gradients_nobody_wants(case: C.Case) -> None:
    op, attrs = find_op(case.op.grad_type), case.full_attrs
    for place in range(len(op.outputs)):
        operands = _backward_operands(case, _laid_out(case.arrays(), plain), plain)
        outs = [_stale(out) if i == place else None for i, out in enumerate(_gradients(op, operands, attrs))]
        check_if_bound(op, operands, outs, attrs, wanted=tuple(out is not None for out in outs))


def test_ops_that_say_so_have_a_prepared_form() -> None:
    """Of some case; the tests above pass over operands without one."""
    for type in PREPARED:
        forward = find_op(type).forward_of or find_op(type)
        for case in (c for c in CASES if c.type == forward.type):
            _check_case(case)
            _check_gradient(case)
    missing = sorted(set(PREPARED) - BOUND)
    assert not missing


# Short cuts: other functions than those of `forward`, which have to give its bits


@given(
    st.tuples(*[st.integers(1, 70)] * 3), st.booleans(), st.booleans(), st.sampled_from(["float32", "float64"]),
    st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_products_of_any_size(sizes: tuple[int, int, int], trans_x: bool, trans_y: bool, dtype: str, seed: int) -> None:
    """`np.dot` where `forward` calls `np.matmul`."""
    rng, (m, k, n) = np.random.default_rng(seed), sizes
    x = rng.standard_normal((k, m) if trans_x else (m, k)).astype(dtype)
    y = rng.standard_normal((n, k) if trans_y else (k, n)).astype(dtype)
    op, attrs, out = find_op("matmul_v2"), {"trans_x": trans_x, "trans_y": trans_y}, np.empty((m, n), dtype)
    assert check(op, [x, y], [out], attrs)
    assert check(
        find_op("matmul_v2_grad"),
        [x, y, rng.standard_normal((m, n)).astype(dtype)],
        [_stale(x), _stale(y)],
        attrs,
        wanted=(True, True),
    )


def test_wrong_ids_are_refused_when_the_calls_run() -> None:
    op = find_op("lookup_table_v2")
    table, ids = np.arange(12, dtype="float32").reshape(4, 3), np.array([[3, 0], [1, 2]])
    out = np.empty((2, 2, 3), "float32")
    (call,) = op.bind([out], [table, ids], Scratch(), **op.attrs)
    call()
    assert np.array_equal(out, table[ids])
    for wrong in (4, -1):
        ids[1, 0] = wrong
        with pytest.raises(InvalidArgument, match=rf"embedding: id {wrong} at position \[1, 0\]"):
            call()


# Views


def _view_of(op: Op) -> int:
    """The input slot whose memory the output shows."""
    ((shown, source),) = op.aliases.items()
    assert [s.name for s in op.outputs] == [shown]
    return [s.name for s in op.inputs].index(source)


@over(lambda case: case.op.is_view)
def test_views_share_memory(case: C.Case) -> None:
    """With their input wherever NumPy needs no copy; the gradients of most do as well."""
    place = _view_of(case.op)
    arrays = _laid_out(case.arrays(), plain)
    (out,) = _forward(case, arrays)
    assert np.shares_memory(out, arrays[place]) or not out.size
    back = find_op(case.op.grad_type)
    if back.is_view and case.differentiated():
        operands = _backward_operands(case, arrays, plain)
        (g,) = _gradients(back, operands, case.full_attrs)
        assert np.shares_memory(g, operands[_view_of(back)])


@over(lambda case: case.op.type in ("transpose2", "slice", "strided_slice"))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_some_are_views_of_any_layout(case: C.Case, layout: Layout) -> None:
    arrays = _laid_out(case.arrays(), layout)
    (out,) = _forward(case, arrays)
    assert np.shares_memory(out, arrays[0]) or not out.size


def test_what_changes_its_input_is_no_view() -> None:
    views = {type for type, op in OPS.items() if op.is_view}
    shapes = {"reshape2", "reshape_like", "flatten_contiguous_range", "squeeze2", "unsqueeze2", "transpose2"}
    shapes.add("pylayer_gradient")
    assert {"slice", "strided_slice", "assign_grad"} | shapes | {type + "_grad" for type in shapes} == views
