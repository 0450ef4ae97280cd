"""Cutting tensors into blocks, so that servers have about as much each (T-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod


@dataclass(frozen=True)
class TensorBlock:
    """Rows `start` to `stop` of a tensor, a block of it.

    Attributes:
        index: its number among the blocks. of: how many there are. shape: its own.
    """

    index: int
    of: int
    start: int
    stop: int
    shape: tuple[int, ...]

    def named(self, name: str) -> str:
        """What this block of the variable is called; the one block of a tensor that is not cut goes by its name."""
        return name if self.of == 1 else f"{name}.block{self.index}"


def cut(shape: Sequence[int], servers: int, smallest: int, is_sliced: bool = True) -> list[TensorBlock]:
    """The blocks of a tensor, of whole rows.

    Args:
        servers: at most so many blocks. smallest: elements a block has at least.

    Example:
        >>> [(block.start, block.stop) for block in cut([200, 100], servers=2, smallest=8192)]
        [(0, 100), (100, 200)]
    """
    elements = prod(shape)
    row = prod(shape[1:])
    size = _elements_of_one(elements, row, servers, smallest) if is_sliced and elements else elements
    rows = size // row if row else 0
    height = shape[0] if shape else 1
    if not rows or rows >= height:
        return [TensorBlock(0, 1, 0, height, tuple(shape))]
    starts = range(0, height, rows)
    stops = [min(start + rows, height) for start in starts]
    return [
        TensorBlock(index, len(starts), start, stop, (stop - start, *shape[1:]))
        for index, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]


def _elements_of_one(elements: int, row: int, servers: int, smallest: int) -> int:
    """Elements of every block but the last, a multiple of a row's."""
    most = max(1, elements // smallest)
    size = ceil(elements / min(servers, most))
    return ceil(size / row) * row
