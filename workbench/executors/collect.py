"""What a step hands out: fetched values of all devices, copied so that they never change afterwards (X-40 … X-47).

Everything that can fail - shapes that do not join, values that are missing - fails before the commit. Of variables the
commit changes the result is set aside before and filled by the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.binding import Binding
from workbench.executors.lower import Cell
from workbench.executors.merge import Merger
from workbench.framework.rows import dense
from workbench.graph.ssa import Value
from workbench.ops.control_flow import Stack
from workbench.runtime.tensor import LoDTensor


@dataclass
class Collected:
    """Results, and what has to be copied into them once the step is applied."""

    results: list[Any] = field(default_factory=list)
    fills: list[Callable[[], None]] = field(default_factory=list)


def collect(binding: Binding, return_numpy: bool, merged: bool, training: bool) -> Collected:
    """The fetched values of a step that has been speculated.

    Args:
        merged: join the devices' values along dimension 0; else a list with one value per device (X-43).
        training: the devices depend on each other; matters for the text of an error (X-42).

    Raises:
        InvalidArgument: values that do not join. PreconditionNotMet: a value nobody has given.
    """
    found = Collected()
    for name, values in binding.plan.fetches:
        arrays = [_newest(binding, name, value) for value in values]
        late = any(_is_late(binding, value) for value in values)
        if merged:
            result = _joined(found, name, arrays, late, training)
            found.results.append(result if return_numpy else LoDTensor(result))
        else:
            copies = [_joined(found, name, [array], late, training) for array in arrays]
            found.results.append(copies if return_numpy else [LoDTensor(c) for c in copies])
    return found


def _joined(found: Collected, name: str, arrays: list[Any], late: bool, training: bool) -> Any:
    merger = Merger(name, [a.shape for a in arrays], arrays[0].dtype, training)
    out = merger.allocate()
    if late:
        found.fills.append(partial(merger.fill, out, arrays))
    else:
        merger.fill(out, arrays)
    return out


def _newest(binding: Binding, name: str, value: Value) -> Any:
    """The array whose content is (or, after the commit, will be) the newest version."""
    if _is_late(binding, value):
        tensor = binding.replicas.find(name, value.place)
        if tensor is None:
            raise PreconditionNotMet(f"fetch {name!r}: it has no value; run the startup program first")
        return tensor.array
    source = binding.cells[value].value if value in binding.cells else binding.array(value)
    if source is None or isinstance(source, Cell):
        raise PreconditionNotMet(f"fetch {name!r}: nothing gave the variable a value")
    if isinstance(source, Stack):
        raise InvalidArgument("what a branch or loop keeps for its gradient cannot be fetched")
    return np.asarray(dense(np, source))


def _is_late(binding: Binding, value: Value) -> bool:
    """Whether the commit gives the value, or another device's update of the same storage does."""
    return value.persistable and value not in binding.given_aside
