"""Ops whose results show the memory of an input, and those that look as if they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.framework.op.record import OPS, Op, find_op

Layout = Callable[[np.ndarray], np.ndarray]


def over(keep: Callable[[C.Case], bool]) -> Any:
    chosen = [case for case in CASES if case.type in OPS and keep(case)]
    return pytest.mark.parametrize("case", chosen, ids=[case.label for case in chosen])


def plain(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="C")


def reversed_axes(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="F")


def spread(a: np.ndarray) -> np.ndarray:
    return C.strided(a) if a.ndim else np.array(a)


LAYOUTS = (plain, reversed_axes, spread)


def _laid_out(values: Sequence[Any], layout: Layout) -> list[Any]:
    return [C.tree_map(layout, v) for v in values]


def _forward(case: C.Case, arrays: Sequence[Any]) -> tuple[Any, ...]:
    return C.run_forward(case.op, arrays, case.full_attrs)


def _stale(a: Any) -> Any:
    return C.tree_map(lambda x: np.full_like(x, np.nan if x.dtype.kind == "f" else 0), a)


def _backward_operands(case: C.Case, arrays: list[Any], layout: Layout) -> list[Any]:
    """What the backward op reads; inputs that are not saved hold garbage."""
    outputs = _forward(case, arrays)
    kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
    ins = [a if s.name in case.op.saved else _stale(a) for s, a in zip(case.op.inputs, arrays, strict=True)]
    return [*ins, *_laid_out([*kept, *C.cotangents(case, outputs)], layout)]


def _gradients(op: Op, operands: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return list(C.run_forward(op, operands, attrs, wanted=(True,) * len(op.outputs)))


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
