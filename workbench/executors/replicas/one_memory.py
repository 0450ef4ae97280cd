"""Replicas in one memory: where devices do shards of an update for all of them, one copy of the values is enough.

Parameters and state of such an update lie in device 0's memory, and each device writes its shard there. Powers of beta
stay with every device, which counts them on by itself. All devices have to use one learning rate: one that a schedule
gives, or a variable whose replicas lie in one memory, too, so that whoever gives one device another rate parts them.

What a plan writes in any other way has memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from workbench.executors.planning.plan import Plan, rate_of
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.replicas.replicated_values import ReplicatedValues, Shards, changed_slots, groups_of
from workbench.graph.ssa import update_of
from workbench.runtime.storage.bucket import Bucket
from workbench.runtime.storage.common_memory import may_share, share_memory
from workbench.runtime.storage.tensor import LoDTensor

Together = list[tuple[Sequence[Bucket], Sequence[int]]]
"""Buckets of all devices, in device order, that are to lie in one memory; writes to each when they were compared."""


def begin_together(plan: Plan, replicas: Replicas) -> None:
    """Give the other devices what all update alike in the memory of device 0: a copy of it would be dropped again."""
    for first, *_ in groups_of(plan) if replicas.are_new else ():
        powers = update_of(first).powers
        for slot, names in changed_slots(first):
            if slot not in powers:
                replicas.distribute_together(names)


def arrange_replicas(plan: Plan, replicas: Replicas, replicated: ReplicatedValues, given: Collection[str]) -> bool:
    """Have the replicas a plan keeps equal lie in one memory, and others that it writes in memory of their own.

    Args:
        given: persistable variables that somebody feeds.

    Returns:
        whether all of it was done; where one was written meanwhile, some of them lie together and others do not.
    """
    written = _written(plan, replicas)
    numbers = set(map(id, written))
    together: Together = []
    for group in dict.fromkeys(replicated.shards.values()):
        state = _state(group, replicated)
        if state is None:
            return False
        may_lie_so = all(may_share(buckets) for buckets, _ in state)
        rates = _rates(plan, group, replicas, given, numbers) if may_lie_so else None
        if rates is not None:
            together += [*state, *rates]
    kept = {id(tensor) for buckets, _ in together for bucket in buckets for tensor in bucket.tensors}
    for tensor in written:
        if id(tensor) not in kept:
            tensor.part()
    return all(share_memory(buckets, writes) for buckets, writes in together)


def _written(plan: Plan, replicas: Replicas) -> list[LoDTensor]:
    """What the commit changes."""
    values = [*(v for node in plan.updates for v in node.writes), *plan.staged]
    keys = dict.fromkeys([*((v.name, v.place) for v in values), *sorted(plan.memory.request.fed)])
    tensors = [replicas.find(*key) for key in keys]
    return [tensor for tensor in tensors if tensor is not None]


def _state(group: Shards, replicated: ReplicatedValues) -> Together | None:
    """What all devices update alike; None if a tensor has left since they were compared."""
    held = [buckets for node in group if (buckets := replicated.buckets(node)) is not None]
    if len(held) < len(group):
        return None
    powers = update_of(group[0]).powers
    slots = [[own[slot] for own in held] for slot in held[0] if slot not in powers]
    return [(buckets, list(map(replicated.writes_of, buckets))) for buckets in slots]


def _rates(
    plan: Plan, group: Shards, replicas: Replicas, given: Collection[str], written: Collection[int]
) -> Together | None:  # fmt: skip
    """The learning rates, where they are variables; None if the devices may come to have several."""
    values = [rate_of(node) for node in group]
    if values[0].name in plan.graph.program.lr_schedulers:
        return [] if values[0].name not in given else None
    if not all(map(plan.memory.request.lies_in_scope, values)):
        return None
    tensors = [t for v in values if (t := replicas.find(v.name, v.place)) is not None and id(t) not in written]
    if len(tensors) < len(group) or not _are_equal(tensors):
        return None
    buckets = [bucket for tensor in tensors if (bucket := replicas.bucket_of([tensor])) is not None]
    writes = [bucket.writes for bucket in buckets]
    may_lie_so = len(buckets) == len(group) and may_share(buckets) and _are_equal(tensors)
    return [(buckets, writes)] if may_lie_so else None


def _are_equal(tensors: Sequence[LoDTensor]) -> bool:
    return len({t.array.tobytes() for t in tensors}) == 1
