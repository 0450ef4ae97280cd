"""What a step hands out: fetched values of all devices, copied so that they never change afterwards (X-40 … X-47).

Everything that can fail - shapes that do not join, values that are missing - fails before the commit. Of variables the
commit changes the result is set aside before and filled by the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.fetching.fetch import KEPT_FOR_GRADIENT
from workbench.executors.fetching.merge import Merger, merge
from workbench.executors.lowering.binding import Binding
from workbench.framework.values.spec import STACK
from workbench.graph.ssa import Value
from workbench.runtime.storage.tensor import LoDTensor
from workbench.runtime.undisturbed import Call


class Collector:
    """The fetches of one binding, prepared as far as their shapes are known.

    Args:
        training: the devices depend on each other; matters for the text of an error (X-42).
    """

    def __init__(self, binding: Binding, training: bool) -> None:
        self._fetches = [_Fetch(binding, name, values, training) for name, values in binding.plan.fetches]

    def collect(self, return_numpy: bool, merged: bool) -> tuple[list[Any], list[Call]]:
        """The results of a step that has been speculated, and what the commit has to fill in.

        Args:
            merged: join the devices' values along dimension 0; else a list with one value per device (X-43).

        Raises:
            InvalidArgument: values that do not join. PreconditionNotMet: a value nobody has given.
        """
        fills: list[Call] = []
        results = []
        for fetch in self._fetches:
            result = fetch.joined(fills) if merged else fetch.apart(fills)
            if not return_numpy:
                result = LoDTensor(result) if merged else [LoDTensor(one) for one in result]
            results.append(result)
        return results, fills

    def preallocated(self) -> list[tuple[Merger, list[Any]]] | None:
        """How the results are made, if after a first step that is known before the next one: none comes of a commit."""
        arrays_of = [(fetch.merger, fetch.arrays) for fetch in self._fetches if not fetch.late]
        known = [(merger, arrays) for merger, arrays in arrays_of if merger is not None and arrays is not None]
        return known if len(known) == len(self._fetches) else None


class _Fetch:
    """One fetched variable: where each device has it."""

    def __init__(self, binding: Binding, name: str, values: Sequence[Value], training: bool) -> None:
        self.binding, self.name, self.values, self.training = binding, name, values, training
        self.places = binding.plan.graph.places
        self.late = any(_is_late(binding, value) for value in values)
        known = [self._known(value) for value in values]
        self.arrays = known if all(array is not None for array in known) else None
        self.merger: Merger | None = None

    def _known(self, value: Value) -> Any:
        """The array the value is always in, None if it has none."""
        if _is_late(self.binding, value):
            tensor = self.binding.replicas.find(value.name, value.place)
            return None if tensor is None else tensor.array
        return self.binding.array(value) if value in self.binding.plan.refs else None

    def joined(self, fills: list[Call]) -> Any:
        """The devices' values in one array."""
        if self.arrays is None:
            return merge(self.name, [self._now(value) for value in self.values], self.training, self.places)
        if self.merger is None:
            self.merger = self._merger_of(self.arrays)
        return self._fill(self.merger, self.arrays, fills)

    def apart(self, fills: list[Call]) -> list[Any]:
        """One array per device."""
        if self.arrays is None:
            return [merge(self.name, [self._now(value)], self.training) for value in self.values]
        return [self._fill(self._merger_of([array]), [array], fills) for array in self.arrays]

    def _merger_of(self, arrays: Sequence[Any]) -> Merger:
        return Merger(self.name, [a.shape for a in arrays], arrays[0].dtype, self.training, self.places)

    def _fill(self, merger: Merger, arrays: Sequence[Any], fills: list[Call]) -> Any:
        out = merger.allocate()
        if self.late:
            fills += merger.filling(out, arrays)
        else:
            merger.fill(out, arrays)
        return out

    def _now(self, value: Value) -> Any:
        """What a value that travels as an object is in this step."""
        content = self._known(value)
        if content is None:
            content = self.binding.values.cell(value).value
        if content is None and value.spec.kind == STACK:
            raise InvalidArgument(KEPT_FOR_GRADIENT)  # kernels keep it in memory of their own
        if content is None:
            raise PreconditionNotMet(
                f"fetch {self.name!r}: nothing gave the variable a value on {self.places[value.place]}"
            )
        return content


def _is_late(binding: Binding, value: Value) -> bool:
    """Whether the commit gives the value, or another device's update of the same storage does."""
    return value.persistable and (value not in binding.writes.aside or value in binding.plan.patched)
