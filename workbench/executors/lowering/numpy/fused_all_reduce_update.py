"""Sums over the devices that updates take themselves.

Where every device does a shard of an update for all of them, and nobody else reads the gradients, an all-reduce before
it would only write to all devices what the update reads again a moment later. It is left out: the update reads the
contributions of all devices and adds them up, in device order, as it goes. They are still there when it runs, for they
are made where their sums would be, and that memory is the gradients' until the end of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.executors.planning.plan import Plan, gradients_of
from workbench.graph.ssa import ALL_REDUCE, FUSED_ALL_REDUCE, Node, Uses, Value

Shards = Mapping[Node, Sequence[Node]]
_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class FusedReductions:
    """What is left to updates.

    Attributes:
        collectives: the all-reduces that do nothing; updates: those that do it.
        contributions: of every sum, in device order; each of them is where the sum on its device would be.
    """

    collectives: frozenset[Node] = frozenset()
    updates: frozenset[Node] = frozenset()
    contributions: Mapping[Value, Sequence[Value]] = field(default_factory=dict)


def sum_in_order(contributions: Sequence[np.ndarray]) -> np.ndarray:
    """What an all-reduce gives."""
    total = contributions[0]
    for contribution in contributions[1:]:
        total = total + contribution
    return total


def fused_reductions(plan: Plan, shards: Shards) -> FusedReductions:
    """The all-reduces of which all results go to updates that can take all of their sums themselves.

    Args:
        shards: of an update, the same one on all devices, each of which does a shard of it for all.
    """
    uses = Uses(plan.graph.nodes)
    place_of = {v: (shards[node], k) for node in shards for k, v in enumerate(gradients_of(node))}
    nodes = plan.graph.nodes if shards else []
    left = {n for n in nodes if n.type in (ALL_REDUCE, FUSED_ALL_REDUCE) and _can_be_fused(n, plan, place_of)}
    while True:
        updates = {node for node in shards if all(uses.writer.get(v) in left for v in gradients_of(node))}
        still = {node for node in left if all(r in updates for v in node.writes for r in uses.readers_of(v))}
        if still == left:
            break
        left = still
    members = [pair for node in left for pair in zip(node.inputs, node.outputs, strict=True)]
    contributions = {v: tuple(contributions) for contributions, results in members for v in results}
    return FusedReductions(frozenset(left), frozenset(updates), contributions)


def _can_be_fused(node: Node, plan: Plan, place_of: Mapping[Value, tuple[Sequence[Node], int]]) -> bool:
    """Whether every result of an all-reduce is the same gradient of shards, and lies over its contribution."""
    for contributions, results in zip(node.inputs, node.outputs, strict=True):
        shards, k = place_of.get(results[0], ((), 0))
        if [gradients_of(shard)[k] for shard in shards] != results:
            return False
        for contribution, result in zip(contributions, results, strict=True):
            ref = plan.refs.get(result)
            if ref is None or ref.dtype != _FLOAT or plan.refs.get(contribution) is not ref or result.persistable:
                return False
    return True
