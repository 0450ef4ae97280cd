"""The persistable values of a binding: what it reads of the scopes, and what its commit changes there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.executors.planning.plan import Plan
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.replicas.replicated_values import ReplicatedValues, changed_together
from workbench.framework.program.failures import require_agreement, uninitialised
from workbench.framework.values.spec import spec_of
from workbench.graph.ssa import Value, is_update
from workbench.runtime.storage.tensor import LoDTensor, moves


class Held(NamedTuple):
    """A persistable variable on a device, and the storage it was bound to."""

    name: str
    place: int
    tensor: LoDTensor
    array: Any


class ScopeReads:
    """The storage a plan reads or updates in place, each checked against what the program declares.

    Args:
        given: the values that come with the feed instead.

    Attributes:
        plan: whose storage it is. since: what `moves.count` was before anything was looked up.
        held: all of it; arrays: of what has memory, by value; objects: of what travels as an object.

    Raises:
        PreconditionNotMet: a variable has no value. InvalidArgument, InvalidType: it is not what the program declares.
    """

    def __init__(self, plan: Plan, replicas: Replicas, given: Collection[Value]) -> None:
        self.plan, self._find = plan, replicas.find
        self._block = plan.graph.program.global_block()
        self._several, self._places = plan.graph.devices > 1, plan.graph.places
        self._known: dict[tuple[str, int], Held] = {}
        self.since = moves.count
        self.arrays: dict[Value, np.ndarray] = {}
        self.objects: dict[Value, np.ndarray] = {}
        for value in plan.feeds:
            if value.persistable and value not in given:
                (self.arrays if value in plan.refs else self.objects)[value] = self._held(value).array
        updated = [v for node in plan.updates for v in node.writes]
        self.arrays.update((v, self._held(v).array) for v in updated)
        aside = [v for row in plan.rows if is_update(row.node) for v in row.node.writes if v.persistable]
        self._require_apart([*updated, *aside])
        self.held = list(self._known.values())

    def _require_apart(self, updated: Sequence[Value]) -> None:
        """Devices that update one and the same tensor would do so twice."""
        first: dict[int, Value] = {}
        for value in updated:
            tensor = self._find(value.name, value.place)
            if tensor is None:  # its value comes with the feed: a step of the past that is run again
                continue
            other = first.setdefault(id(tensor), value)
            if other.place != value.place:
                raise PreconditionNotMet(
                    f"{self._places[value.place]} has no {value.name!r} of its own to update: it sees that of "
                    f"{self._places[other.place]}; the executor given as share_vars_from does not know the variable"
                )

    def _held(self, value: Value) -> Held:
        key = value.name, value.place
        held = self._known.get(key)
        if held is None:
            tensor = self._checked(value)
            held = self._known[key] = Held(*key, tensor, tensor.array)
        return held

    def _checked(self, value: Value) -> LoDTensor:
        variable = self._block.var(value.name)
        tensor = self._find(value.name, value.place)
        where = f" {self._places[value.place]}" if self._several else ""
        if tensor is None:
            reader = next(n for n in self.plan.graph.nodes if value in n.reads or value in n.writes)
            raise uninitialised(value.name, variable, where and f" on{where}", reader.type, reader.site)
        require_agreement(variable, spec_of(tensor.array), where and f" of{where}")
        return tensor


class ScopeWrites:
    """What a commit changes; variables that are not there are made, without a value.

    Args:
        given: the values that come with the feed, in the order of the feeds.
        place_of: the array of a value, or its cell.

    Attributes:
        changed: what is updated in place, as it is counted.
        copied: values made aside, and what was fed for variables nothing in the step writes; staged: where each of them
            is, and its tensor; aside: the values alone.
    """

    def __init__(
        self,
        plan: Plan,
        replicas: Replicas,
        given: Sequence[Value],
        replicated: ReplicatedValues,
        place_of: Callable[[Value], Any],
    ) -> None:
        updated = _distinct([replicas.make(v.name, v.place) for node in plan.updates for v in node.writes])
        self.changed = changed_together(updated, replicated, plan.graph.devices)
        self.copied = _to_copy(plan, replicas, given, updated)
        self.aside = frozenset(value for value, _ in self.copied)
        self._stage(place_of)

    def _stage(self, place_of: Callable[[Value], Any]) -> None:
        self.staged = [(place_of(value), tensor) for value, tensor in self.copied]

    def of_other_places(self, place_of: Callable[[Value], Any]) -> ScopeWrites:
        """The same of a plan that was filled in: its values are elsewhere, the scopes have not changed."""
        other = ScopeWrites.__new__(ScopeWrites)
        other.changed, other.copied, other.aside = self.changed, self.copied, self.aside
        other._stage(place_of)
        return other


def _to_copy(
    plan: Plan, replicas: Replicas, given: Sequence[Value], updated: Sequence[LoDTensor]
) -> list[tuple[Value, LoDTensor]]:
    staged = [(v, replicas.make(v.name, v.place)) for v in plan.staged]
    written = {id(tensor) for tensor in (*updated, *(tensor for _, tensor in staged))}
    fed = [(v, replicas.make(v.name, v.place)) for v in given]
    return staged + [(v, tensor) for v, tensor in fed if id(tensor) not in written]


def _distinct(tensors: Sequence[LoDTensor]) -> list[LoDTensor]:
    return list({id(t): t for t in tensors}.values())


class ScopeStorage:
    """Whether the scopes still hold the storage a plan was bound to; costs one comparison while nothing moved."""

    __slots__ = ("_copied", "_held", "_moves", "_reads", "_replicas", "_replicated")

    def __init__(
        self, replicas: Replicas, replicated: ReplicatedValues, reads: ScopeReads, writes: ScopeWrites
    ) -> None:
        self._reads = reads
        self._replicas, self._replicated = replicas, replicated if replicated.watched else None
        self._held, self._copied, self._moves = reads.held, writes.copied, reads.since

    def is_current(self) -> bool:
        """Whether they do, and the replicas that were the same still are."""
        count = moves.count  # before looking: what moves meanwhile is seen the next time
        if self._replicated is not None and not self._replicated.still_holds():
            return False
        if self._moves == count:
            return True
        if not self._is_there():
            return False
        self._moves = count
        return True

    def _is_there(self) -> bool:
        find = self._replicas.find
        if not self._replicas.is_whole():
            return False
        for name, place, tensor, array in self._held:
            if find(name, place) is not tensor or self._stored(tensor) is not array:
                return False
        return all(find(v.name, v.place) is tensor or not tensor.initialized for v, tensor in self._copied)

    def _stored(self, tensor: LoDTensor) -> object:
        """The array of a tensor; a device that holds newer values brings them there."""
        return tensor.array

    def tensors(self) -> list[tuple[str, int, LoDTensor]]:
        """What is read of the scopes and what the commit copies there, as (name, device, tensor)."""
        read = [(name, place, tensor) for name, place, tensor, _ in self._held]
        return [*read, *((v.name, v.place, tensor) for v, tensor in self._copied)]
