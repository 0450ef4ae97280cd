"""Prepared calls (`Op.bind`): on every op case they give the bits of `forward`, run after run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops import case as C
from tests.ops.test_cases import CASES, _emptied
from workbench.framework.op import OPS, Op, find_op

Layout = Callable[[np.ndarray], np.ndarray]


def _bound(case: C.Case) -> bool:
    return case.op.bind is not None and bool(case.inputs or case.op.needs == ())


def _bound_back(case: C.Case) -> bool:
    return case.op.grad_bind is not None and bool(case.differentiated())


def over(keep: Callable[[C.Case], bool]) -> Any:
    chosen = [case for case in CASES if case.type in OPS and keep(case)]
    return pytest.mark.parametrize("case", chosen, ids=[case.label for case in chosen])


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


def _check(op: Op, arrays: list[Any], outs: list[Any], attrs: dict[str, Any], **extra: Any) -> bool:
    """Bind once, run three times on changing values; False if there is no prepared form.

    An out that is the memory of an input is left alone before it is compared.
    """
    scratch = Scratch()
    calls = op.bind(outs, arrays, scratch, **attrs)  # type: ignore[misc]
    if calls is None:
        return False
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


def _variants(case: C.Case) -> list[tuple[str, list[Any]]]:
    """Operands of every dtype and layout, and empty ones."""
    found = [
        (f"{d} {layout.__name__}", _laid_out(case.arrays(d), layout)) for d in case.run_dtypes() for layout in LAYOUTS
    ]
    if case.size0 and case.inputs:
        for given in _emptied(case):
            arrays = given + [None] * (len(case.op.inputs) - len(given))
            found.append(("empty", _laid_out(arrays, plain)))
    return found


def _forward(case: C.Case, arrays: list[Any]) -> list[Any]:
    return list(C.run_forward(case.op, arrays, case.full_attrs))


@over(_bound)
def test_forward(case: C.Case) -> None:
    for _, arrays in _variants(case):
        _check(case.op, arrays, [_stale(out) for out in _forward(case, arrays)], case.full_attrs)


@over(lambda case: _bound(case) and len(case.op.outputs) > 1)
def test_outputs_nobody_wants(case: C.Case) -> None:
    for place in range(len(case.op.outputs)):
        arrays = _laid_out(case.arrays(), plain)
        outs = [_stale(out) if i == place else None for i, out in enumerate(_forward(case, arrays))]
        _check(case.op, arrays, outs, case.full_attrs)


def _in_place(op: Op, arrays: list[Any], outs: list[Any]) -> list[list[Any]]:
    """Outs that lie on inputs: all that `aliases` allows at once; for element-wise ops each input in turn."""
    slots = [s.name for s in op.inputs]
    shared = [
        arrays[slots.index(op.aliases[s.name])] if s.name in op.aliases else out
        for s, out in zip(op.outputs, outs, strict=True)
    ]
    found = [shared] if op.aliases and not op.is_view else []
    if op.is_elementwise:
        fitting = [a for a in C.leaves(arrays) if (a.shape, a.dtype) == (outs[0].shape, outs[0].dtype)]
        found += [[a] for a in fitting] if len(outs) == 1 else []
    return found


@over(lambda case: _bound(case) and (case.op.is_elementwise or bool(case.op.aliases)))
def test_in_place(case: C.Case) -> None:
    for dtype in case.run_dtypes():
        arrays = _laid_out(case.arrays(dtype), plain)
        for i in range(len(_in_place(case.op, arrays, _forward(case, arrays)))):
            arrays = _laid_out(case.arrays(dtype), plain)
            outs = _in_place(case.op, arrays, _forward(case, arrays))[i]
            _check(case.op, arrays, outs, case.full_attrs)


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
    """With a gradient for every output, and for one alone."""
    op, attrs, several = find_op(case.op.grad_type), case.full_attrs, len(case.op.outputs) > 1
    for alone in (None, *range(len(case.op.outputs) if several else 0)):
        for name, arrays in _variants(case):
            layout = next((lay for lay in LAYOUTS if lay.__name__ in name), plain)
            operands = _backward_operands(case, arrays, layout, alone)
            outs = [_stale(out) for out in _gradients(op, operands, attrs)]
            _check(op, operands, outs, attrs, wanted=(True,) * len(outs))


@over(lambda case: _bound_back(case) and len(find_op(case.op.grad_type).outputs) > 1)
def test_gradients_nobody_wants(case: C.Case) -> None:
    op, attrs = find_op(case.op.grad_type), case.full_attrs
    for place in range(len(op.outputs)):
        operands = _backward_operands(case, _laid_out(case.arrays(), plain), plain)
        outs = [_stale(out) if i == place else None for i, out in enumerate(_gradients(op, operands, attrs))]
        _check(op, operands, outs, attrs, wanted=tuple(out is not None for out in outs))
