"""Values that lie one after the other: an update reads the gradients of all its parameters as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.executors.planning.memory.refs import ALIGN
from workbench.executors.planning.memory.request import MemoryRequest, nbytes_of
from workbench.executors.planning.shapes import is_static
from workbench.graph.ssa import ALL_REDUCE, FUSED_ALL_REDUCE, Node, Value


@dataclass(frozen=True, eq=False)
class GradientBucket:
    """Values in one piece of memory.

    Attributes:
        members: in the order in which they lie. offsets: in bytes; each begins at a cache line.
        nbytes: of all, with what is left free between them.
    """

    members: tuple[Value, ...]
    offsets: tuple[int, ...]
    nbytes: int
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class GradientBuckets:
    """What lies one after the other.

    Attributes:
        buckets: one per group that was asked for, None where its members could not be put together.
        spots: of every value in a bucket: number of the bucket and offset. Of the contributions to sums over devices,
            too, that are computed where the sum will be.
    """

    buckets: tuple[GradientBucket | None, ...] = ()
    spots: Mapping[Value, tuple[int, int]] = field(default_factory=dict)


def make_buckets(request: MemoryRequest) -> GradientBuckets:
    """Put together the groups of a request."""
    buckets: list[GradientBucket | None] = []
    spots: dict[Value, tuple[int, int]] = {}
    for number, members in enumerate(request.flat):
        bucket = _bucket(request, members, spots)
        buckets.append(bucket)
        for value, offset in zip(members, bucket.offsets, strict=True) if bucket is not None else ():
            spots[value] = number, offset
            contribution = _contribution(request, value)
            if contribution is not None:
                spots[contribution] = number, offset
    return GradientBuckets(tuple(buckets), spots)


def _bucket(request: MemoryRequest, members: Sequence[Value], taken: Mapping[Value, Any]) -> GradientBucket | None:
    specs = [request.specs[v] for v in members]
    usable = all(is_static(s) and v in request.uses.writer for s, v in zip(specs, members, strict=True))
    if not usable or any(v in taken for v in members) or len(set(members)) < len(members):
        return None
    offsets, total = flat_offsets([nbytes_of(spec) for spec in specs])
    return GradientBucket(tuple(members), tuple(offsets), total, specs[0].dtype.numpy)


def _contribution(request: MemoryRequest, value: Value) -> Value | None:
    """The gradient that can be computed where its sum over the devices will be, for nothing else reads it."""
    node = request.uses.writer[value]
    if not request.in_place or node.type not in (ALL_REDUCE, FUSED_ALL_REDUCE):
        return None
    part = part_of(node, node.writes.index(value))
    return part if request.readers.get(part) == [node] and part in request.uses.writer else None


def part_of(node: Node, k: int) -> Value:
    """The part of a collective that its k-th result stands for on the same device."""
    return node.reads[k]


def flat_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Byte offsets of arrays one after the other, each aligned, and the bytes of all."""
    offsets, total = [], 0
    for nbytes in sizes:
        offsets.append(total)
        total += -(-nbytes // ALIGN) * ALIGN
    return offsets, total
