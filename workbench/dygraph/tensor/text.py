"""The text of a tensor's values, as Paddle writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType


@dataclass
class PrintOptions:
    """How values are written: digits behind the point, from how many elements on a tensor is shortened, how many are
    then shown at each end, characters in a line, and whether floats are written as 1.5e+00."""

    precision: int = 8
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: float = 80
    sci_mode: bool = False


OPTIONS = PrintOptions()
INDENT = 7  # of every line but the first: the length of "Tensor("


def values_text(array: Any, indent: int = INDENT) -> str:
    """The elements of an array in nested brackets; of more than a thousand the first and last three of each row.

    Args:
        indent: blanks before every line but the first.
    """
    array = np.asarray(array)
    if array.size == 0:
        return "[]"
    if array.dtype.kind == "V":
        array = array.astype(np.float32)  # bfloat16
    is_short = array.size > OPTIONS.threshold
    shown = _edges(array) if is_short else array
    texts = [_element(v) for v in shown.reshape(-1)]
    width = max(map(len, texts))
    signed = array.dtype.kind in "fi" and bool((shown < 0).any())
    cells = [_aligned(v, text, width, signed) for v, text in zip(shown.reshape(-1), texts, strict=True)]
    if not array.shape:
        return texts[0]
    grid: Any = np.array(cells, object).reshape(shown.shape)
    return _nested(grid, array.shape, indent, is_short)


def _edges(array: np.ndarray) -> np.ndarray:
    for axis, size in enumerate(array.shape):
        if size > 2 * OPTIONS.edgeitems:
            array = np.take(array, [*range(OPTIONS.edgeitems), *range(-OPTIONS.edgeitems, 0)], axis=axis)
    return array


def _element(value: Any) -> str:
    if value.dtype.kind != "f":
        return str(value)
    if OPTIONS.sci_mode:
        return f"{value:.{OPTIONS.precision}e}"
    if (np.isfinite(value) and float(value).is_integer()) or np.isinf(value):
        return f"{value:.0f}."
    return f"{value:.{OPTIONS.precision}f}"


def _aligned(value: Any, text: str, width: int, signed: bool) -> str:
    """The text filled up to the width of the widest one; with a blank for the sign where others have one."""
    if len(text) >= width:
        return text
    if signed and not value < 0:
        text = " " + text
    return text.ljust(width)


def _nested(grid: Any, shape: tuple[int, ...], indent: int, is_short: bool) -> str:
    cut = is_short and shape[0] > 2 * OPTIONS.edgeitems
    if len(shape) == 1:
        return _row(list(grid), indent, cut)
    rows = [_nested(part, shape[1:], indent + 1, is_short) for part in grid]
    if cut:
        rows = [*rows[: OPTIONS.edgeitems], "...", *rows[OPTIONS.edgeitems :]]
    between = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + between.join(rows) + "]"


def _row(cells: list[str], indent: int, cut: bool) -> str:
    per_line = max(1, int(OPTIONS.linewidth - indent) // (len(cells[0]) + 2))
    if cut:
        cells = [*cells[: OPTIONS.edgeitems], "...", *cells[OPTIONS.edgeitems :]]
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Choose how the values of tensors are written; what is None stays.

    Args:
        precision: digits behind the point, 8 at first.
        threshold: tensors of more elements are shortened, 1000 at first.
        edgeitems: how many of each dimension are then shown at each end, 3 at first.
        sci_mode: write floats as 1.5e+00.
        linewidth: characters in a line, 80 at first.

    Raises:
        InvalidType: no ints, no bool. InvalidArgument: a negative number.

    Example:
        >>> wb.set_printoptions(precision=3)
        >>> print(wb.to_tensor([1 / 3]))
        Tensor(shape=[1], dtype=float32, place=Place(cpu), stop_gradient=True,
               [0.333])
        >>> wb.set_printoptions(precision=8)
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidType(f"set_printoptions takes an int as {name}, got {value!r}")
        if value < 0:
            raise InvalidArgument(f"set_printoptions takes {name} >= 0, got {value}")
    if not (sci_mode is None or isinstance(sci_mode, bool)):
        raise InvalidType(f"set_printoptions takes True or False as sci_mode, got {sci_mode!r}")
    for name, value in {**chosen, **({} if sci_mode is None else {"sci_mode": sci_mode})}.items():
        setattr(OPTIONS, name, value)
