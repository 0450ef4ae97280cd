"""Memory of sparse gradients: what kernels make of them is seen by Python, and the other way round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import ExecutionError
from workbench.executors.lowering.operands import Cell
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.framework.values.rows import Rows
from workbench.runtime.arena import ALIGN, Arena

_WORD = np.dtype(np.int64)


class RowsMemory:
    """Rows of a table and their numbers, in memory of their own.

    Args:
        most: how many rows there may be. shape, dtype: of the table.
        numbered: the same rows with other values: how many there are, and their numbers, are kept there.

    Attributes:
        numbers: int64 `[most]`. values: `[most, ...]` of the dtype. counted: in one word, how many of them there are.
    """

    def __init__(
        self, most: int, shape: Sequence[int], dtype: np.dtype[Any], numbered: RowsMemory | None = None
    ) -> None:
        self.most, self.shape = most, tuple(shape)
        behind = 0 if numbered is not None else ALIGN + -(-most * _WORD.itemsize // ALIGN) * ALIGN
        self.arena = Arena(behind + most * self.width * dtype.itemsize)
        self.values = self.arena.array(behind, (most, *self.shape[1:]), dtype)
        self.counted: np.ndarray = self.arena.array(0, (1,), _WORD) if numbered is None else numbered.counted
        self.numbers: np.ndarray = self.arena.array(ALIGN, (most,), _WORD) if numbered is None else numbered.numbers

    @property
    def height(self) -> int:
        """Rows of the table."""
        return self.shape[0]

    @property
    def width(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[1:])

    def rows(self) -> Rows:
        """What it holds."""
        count = int(self.counted[0])
        return Rows(self.numbers[:count], self.values[:count], self.height)

    def hold(self, rows: Rows) -> None:
        """Take these.

        Raises:
            ExecutionError: there is no room for them. InvalidArgument: a row lies outside the table.
        """
        count = len(rows.rows)
        if count > self.most or rows.shape != self.shape or rows.dtype != self.values.dtype:
            raise ExecutionError(f"a sparse gradient of {self.shape}, at most {self.most} rows, became {rows}")
        rows.require_inside()
        self.numbers[:count], self.values[:count], self.counted[0] = rows.rows, rows.values, count


class RowsCell(Cell):
    """Holds a sparse gradient: as an object, or in memory, where kernels make it.

    Attributes:
        memory: None while Python makes it.
    """

    __slots__ = ("_object", "memory")

    def __init__(self) -> None:
        self.memory: RowsMemory | None = None
        self._object: Any = None

    @property
    def is_in_memory(self) -> bool:
        """Whether kernels make it."""
        return self.memory is not None

    def promise(self) -> None:
        """Kernels are going to make it."""

    def room_for(
        self, most: int, shape: Sequence[int], dtype: np.dtype[Any], numbered: RowsMemory | None = None
    ) -> RowsMemory:
        """Memory for so many rows, see `RowsMemory`; the same as before, for who lowers the same rows once more."""
        memory = self.memory
        if memory is None or (memory.most, memory.shape) != (most, tuple(shape)):
            memory = self.memory = RowsMemory(most, shape, dtype, numbered)
        return memory

    @property
    def value(self) -> Any:
        """The gradient; None if there is none yet."""
        return self._object if self.memory is None else self.memory.rows()

    @value.setter
    def value(self, new: Any) -> None:
        if self.memory is None:
            self._object = new
        elif new is not None:  # what lies in memory stays there until something else does
            self.memory.hold(new)


class OpenRowsCell(RowsCell):
    """One of a plan whose sizes are open: there is no memory before they are known."""

    __slots__ = ("_is_promised",)

    def __init__(self) -> None:
        super().__init__()
        self._is_promised = False

    @property
    def is_in_memory(self) -> bool:
        return self._is_promised

    def promise(self) -> None:
        self._is_promised = True

    def room_for(
        self, most: int, shape: Sequence[int], dtype: np.dtype[Any], numbered: RowsMemory | None = None
    ) -> RowsMemory:
        raise Unsettled("how many rows a sparse gradient has has to be known")
