"""Replicas that hold the same numbers: where they do, each device does a shard of an update for all of them.

In AllReduce mode every device has its own value of parameters and state, and all apply the same gradients to it. As
long as the values are equal, so are their updates, and it is enough to compute each element once. That they are equal
is looked up when a plan is bound, and stays true while nobody writes a single one of the tensors, and no device has a
learning rate of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import setitem
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.planning.plan import Plan
from workbench.framework.op.record import find_op
from workbench.graph.replicated import own_variables
from workbench.graph.ssa import Node, update_of
from workbench.runtime.storage.bucket import Bucket
from workbench.runtime.storage.tensor import LoDTensor
from workbench.runtime.undisturbed import Call

Shards = tuple[Node, ...]


class ReplicatedValues:
    """The updates of one binding whose replicas hold the same numbers.

    Args:
        find: the tensor of a variable on a device.
        in_kernels: whether updates run there; only those are shared.

    Attributes:
        shards: of an update, the same update on all devices, in device order; only where the replicas hold the same.
    """

    def __init__(self, plan: Plan, find: Callable[[str, int], LoDTensor | None], in_kernels: bool) -> None:
        self._find = find
        self._groups = groups_of(plan) if in_kernels else []
        self.shards, self._seen = self._find_shards()

    def _find_shards(self) -> tuple[dict[Node, Shards], list[tuple[Bucket, int, int]]]:
        """The shards, and the state of all buckets looked at: the numbers of their writes, and of their steps."""
        shards: dict[Node, Shards] = {}
        seen = []
        for group in self._groups:
            buckets = [self.buckets(node) for node in group]
            seen += [(b, b.writes, b.steps) for own in buckets if own is not None for b in own.values()]
            powers = update_of(group[0]).powers
            if _hold_the_same(buckets, powers):
                shards.update(dict.fromkeys(group, group))
        return shards, seen

    def buckets(self, node: Node) -> dict[str, Bucket] | None:
        """What an update changes, by slot; None if some slot does not lie together."""
        buckets: dict[str, Bucket] = {}
        for slot, names in changed_slots(node):
            tensors = [self._find(name, node.place) for name in names]
            bucket = tensors[0].bucket if tensors[0] is not None else None
            if bucket is None or not bucket.is_of(tensors) or not bucket.is_intact():
                return None
            buckets[slot] = bucket
        return buckets

    def diverge(self, node: Node) -> None:
        """Each device has done its whole update: they may have had rates of their own."""
        if node in self.shards:
            for bucket in (self.buckets(node) or {}).values():
                bucket.noting_write()()

    def writes_of(self, bucket: Bucket) -> int:
        """The number of the last write to a member of a bucket, as it was when devices were compared."""
        return next(written for other, written, _ in self._seen if other is bucket)

    @property
    def watched(self) -> set[int]:
        """The buckets, by id, whose devices are compared."""
        return {id(bucket) for bucket, _, _ in self._seen}

    def still_holds(self) -> bool:
        """Whether what was found is still so; looks at the numbers again only if some were written."""
        if not self._seen:
            return True
        first, _, begun = self._seen[0]
        steps = first.words[0] - begun
        for bucket, written, counted in self._seen:
            if bucket.written[0] != written or bucket.words[0] - counted != steps:
                shards, seen = self._find_shards()
                if shards != self.shards:
                    return False  # and so it stays: whoever asks is to be bound anew
                self._seen = seen
                return True
        return True


def changed_slots(node: Node) -> list[tuple[str, list[str]]]:
    """What an update changes: slots, and the names of their variables."""
    record = find_op(node.attrs["update"])
    slots = zip(record.inputs, node.inputs, strict=True)
    return [
        (slot.name, [v.name for v in values])
        for slot, values in slots
        if slot.name in record.aliases.values() and values and values[0] is not None
    ]


def groups_of(plan: Plan) -> list[Shards]:
    """Updates of the same parameters on all devices, where all gradients lie together and are the same everywhere."""
    if plan.graph.devices == 1 or not plan.flats:
        return []
    own = own_variables(plan.graph)
    groups: dict[Any, list[Node]] = {}
    for node, ref in plan.flats.items():
        if ref is not None and own.isdisjoint(v.name for v in node.writes):
            key = node.attrs["update"], tuple(None if v is None else tuple(x.name for x in v) for v in node.outputs)
            groups.setdefault(key, []).append(node)
    everywhere = [sorted(nodes, key=lambda n: n.place) for nodes in groups.values()]
    places = list(range(plan.graph.devices))
    return [tuple(nodes) for nodes in everywhere if [n.place for n in nodes] == places]


def _hold_the_same(buckets: Sequence[Mapping[str, Bucket] | None], powers: Collection[str]) -> bool:
    first, *others = buckets
    if first is None or any(other is None for other in others):
        return False
    for slot, bucket in first.items():
        if slot in powers and not _is_one_number(bucket):
            return False
        if not all(other is not None and _same_bits(bucket, other[slot]) for other in others):
            return False
    return True


def _is_one_number(bucket: Bucket) -> bool:
    """Whether all members, of one element each, hold the same."""
    return len({view.tobytes() for view in bucket.views}) == 1


def _same_bits(a: Bucket, b: Bucket) -> bool:
    if a.array.shape != b.array.shape or a.array.dtype != b.array.dtype or a is b:
        return False
    if a.common is not None and a.common is b.common:
        return True
    views = zip(a.views, b.views, strict=True)
    return all(np.array_equal(x.view(np.uint8), y.view(np.uint8)) for x, y in (_flat(*pair) for pair in views))


def _flat(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.reshape(-1), y.reshape(-1)


class Changed(NamedTuple):
    """What a commit changes: whole buckets, which are counted together, and single tensors."""

    buckets: list[Bucket]
    tensors: list[LoDTensor]

    def counting(self) -> list[Call]:
        """What tells of one change more, as C functions."""
        calls: list[Call] = []
        for bucket in self.buckets:
            calls.append(partial(setitem, bucket.words, 0, bucket.words[0] + 1))
        for tensor in self.tensors:
            calls += tensor.counting()
        return calls


def changed_together(tensors: Sequence[LoDTensor], replicated: ReplicatedValues, devices: int) -> Changed:
    """The tensors of a commit by bucket; one by one those of buckets that are changed in part.

    So are those of buckets that several devices change while nobody compares what they do.
    """
    among = {id(t) for t in tensors}
    buckets = {id(t.bucket): t.bucket for t in tensors if t.bucket is not None}  # each of them is looked at once
    known = set(buckets) if devices == 1 else replicated.watched
    whole = {
        key: b for key, b in buckets.items()
        if key in known and b.is_intact() and all(id(t) in among for t in b.tensors)
    }  # fmt: skip
    single = [t for t in tensors if t.bucket is None or id(t.bucket) not in whole]
    return Changed(list(whole.values()), single)
