"""Kernels of row programs: what a row of one touches, and how it divides, follow from the program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES, SIZES, RowKernel
from workbench.framework.rows.program import RowForm, RowProgram
from workbench.runtime.division import Division
from workbench.runtime.footprint import FOOTPRINTS, GivenFootprint

ROW_KERNELS: dict[str, RowKernel] = {}
"""By name: those that were asked for."""
_ALONG = {LINES: ("rows",), PLANES: ("rows",), COLUMNS: ("outer", "rows")}


@cache
def row_kernel(
    program: RowProgram, form: RowForm, layout: str, is_across: bool, item: int = 4, is_whole: bool = False
) -> RowKernel:
    """A kernel of a program, declared like those that are written by hand.

    Args:
        item: bytes of an element. is_whole: it is an int64.
    """
    kernel = RowKernel(program, form, layout, is_across, item, is_whole)
    names = SIZES[layout]
    first = len(kernel.letters) - len(names)
    divisions = [
        _division(first + names.index(size), _unit(kernel, size), kernel.moves(size)) for size in _ALONG[layout]
    ]
    own = frozenset({len(kernel.inputs) + len(kernel.outputs)})
    FOOTPRINTS[kernel.name] = GivenFootprint(kernel.touched, divisions, own)
    ROW_KERNELS[kernel.name] = kernel
    return kernel


def _unit(kernel: RowKernel, size: str) -> int:
    """Where blocks of a row may begin."""
    return kernel.block if (kernel.layout, size) == (COLUMNS, "rows") else 1


def _division(at: int, unit: int, moves: Sequence[tuple[int, Any]]) -> Division:
    return Division(
        lambda arguments: arguments[at], lambda _, size: size, at, lambda _: unit, lambda _: 0, tuple(moves)
    )
