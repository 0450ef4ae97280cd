"""What control flow in kernels leaves for its gradient, and how that is kept by a loop or a branch around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from workbench.executors.lowering.operands import Call, Cell, Context
from workbench.executors.planning.plan import Row
from workbench.ops.flow.control_flow import Stack


@runtime_checkable
class FlowMemory(Protocol):
    """What a loop or a branch leaves."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What a loop around it keeps of every pass."""

    def like(self, arrays: Mapping[str, np.ndarray]) -> FlowMemory:
        """What was there when these were kept."""

    def stack(self) -> Stack | None:
        """The same as the body of the op makes it; None if that has not come to its end in kernels."""

    def loops(self) -> Iterator[Any]:
        """The loops whose runs it consists of."""


def arrays_of(name: str, kept: Any) -> dict[str, np.ndarray]:
    """The arrays in a value, or in what control flow leaves, by names of their own."""
    if not isinstance(kept, FlowMemory):
        return {name: kept}
    return {f"{name} {part}": array for part, array in kept.arrays().items()}


def of_arrays(name: str, kept: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The same value, or what control flow left, of other such arrays."""
    if not isinstance(kept, FlowMemory):
        return arrays[name]
    return kept.like({part: arrays[f"{name} {part}"] for part in kept.arrays()})


def handing_over(row: Row, context: Context) -> list[Call]:
    """What gives the things that control flow in kernels has kept to a row that runs in Python."""
    memories = context.memories
    return [partial(_hand_over, memories[v], context.cell(v)) for v in row.node.reads if v in memories]


def _hand_over(memory: FlowMemory, cell: Cell) -> None:
    stack = memory.stack()
    if stack is not None:  # else it has run in Python as well
        cell.value = stack
