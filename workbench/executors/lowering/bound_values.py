"""Where the values of a plan are, once it is bound: arrays in arenas and in scopes, objects in cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions, sum_in_order
from workbench.executors.lowering.operands import Cell
from workbench.executors.lowering.rows_memory import RowsCell
from workbench.executors.planning.memory.refs import Ref
from workbench.executors.planning.plan import Plan
from workbench.framework.values.spec import ROWS, Spec, spec_of
from workbench.graph.ssa import Value
from workbench.runtime.device import DeviceMemory


class BoundValues:
    """The values of one binding.

    Args:
        arenas: the devices' memory.
        reductions: the sums over devices that updates take themselves.
        arrays: of persistable values that have memory; objects: of those that travel as objects. Both stay.

    Attributes:
        cells: of what travels as an object.
    """

    __slots__ = ("_arenas", "_arrays", "_contributions", "_lasting", "_plan", "cells")

    def __init__(
        self,
        plan: Plan,
        arenas: Mapping[int, DeviceMemory],
        reductions: FusedReductions,
        arrays: Mapping[Value, np.ndarray],
        objects: Mapping[Value, np.ndarray],
    ) -> None:
        self._plan, self._arenas, self._contributions = plan, arenas, reductions.contributions
        self._arrays, self._lasting = dict(arrays), frozenset(objects)
        self.cells: dict[Value, Cell] = {}
        for value, array in objects.items():
            self.cell(value).value = array

    def array(self, value: Value) -> np.ndarray:
        """The array of a value that has memory."""
        array = self._arrays.get(value)
        if array is None:
            array = self._arrays[value] = self.flat(self._plan.refs[value])
        return array

    def cell(self, value: Value) -> Cell:
        """The cell of a value that travels as an object."""
        cell = self.cells.get(value)
        if cell is None:
            cell = self.cells[value] = self._new_cell(value)
        return cell

    def _new_cell(self, value: Value) -> Cell:
        return RowsCell() if value.spec.kind == ROWS else Cell()

    def place_of(self, value: Value) -> Any:
        """The array of a value, or its cell."""
        return self.array(value) if value in self._plan.refs else self.cell(value)

    def flat(self, ref: Ref) -> np.ndarray:
        """The array of a Ref in an arena."""
        return self._arenas[ref.root.place].array(ref.root.offset + ref.offset, ref.shape, ref.dtype, ref.strides)

    def current(self, value: Value) -> Any:
        """What a value holds now: an array, an object, or None."""
        if value in self._contributions:
            return sum_in_order([self.array(part) for part in self._contributions[value]])
        return self.array(value) if value in self._plan.refs else self.cell(value).value

    def spec_of(self, value: Value) -> Spec:
        """What a value is like in the step under way; of one that is known only when it runs, what it holds now."""
        held = None if value in self._plan.refs else self.cell(value).value
        return spec_of(held) if isinstance(held, np.ndarray) else self._plan.shapes.specs[value]

    def parts_of(self, value: Value) -> Sequence[Value]:
        """What a sum that updates take themselves is made of; of any other value itself."""
        return self._contributions.get(value, (value,))

    def forget(self) -> None:
        """Let go of the objects of the last step."""
        for value, cell in self.cells.items():
            if value not in self._lasting:
                cell.value = None
