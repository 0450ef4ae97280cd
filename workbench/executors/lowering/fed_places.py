"""Where what is fed goes to, in the memory of one binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.executors.feeding.feed_plan import FeedPlan, Index
from workbench.executors.lowering.operands import Cell

Key = tuple[str, int]  # name and device
IntoArray = tuple[int, str, Index, np.ndarray]  # device, name, rows, where they go
IntoCell = tuple[int, str, Index, Cell]


class FedPlaces:
    """Of one binding; what they are for the split of the last feed is kept.

    Args:
        arrays: of what has memory. cells: of what travels as an object.
    """

    __slots__ = ("_arrays", "_cells", "_into_arrays", "_into_cells", "_recipe")

    def __init__(self, arrays: Mapping[Key, np.ndarray], cells: Mapping[Key, Cell]) -> None:
        self._arrays, self._cells = arrays, cells
        self._recipe: FeedPlan | None = None
        self._into_arrays: list[IntoArray] = []
        self._into_cells: list[IntoCell] = []

    def of(self, recipe: FeedPlan) -> tuple[list[IntoArray], list[IntoCell]]:
        """Where feeds of a split go; what the plan does not read is left out."""
        if self._recipe is not recipe:
            self._recipe = None  # until both are there: Ctrl-C may come in between
            self._into_arrays = _reading(recipe, self._arrays)
            self._into_cells = _reading(recipe, self._cells)
            self._recipe = recipe
        return self._into_arrays, self._into_cells

    def give(self, name: str, devices: int, number: float) -> None:
        """Set a variable of one number, such as a learning rate, on that many devices."""
        for place in range(devices):
            array = self._arrays.get((name, place))
            if array is not None:
                array.fill(number)


def _reading(recipe: FeedPlan, targets: Mapping[Key, Any]) -> list[Any]:
    return [
        (place, name, index, targets[name, place])
        for rows in (recipe.data, recipe.persistable)
        for place, row in enumerate(rows)
        for name, index in row
        if (name, place) in targets
    ]
