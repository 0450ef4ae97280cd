"""Which gradients travel together (rules D-6, D-7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

MIB = 1024 * 1024


class Travelling(NamedTuple):
    """A gradient as it counts for buckets. `is_sparse`: it holds only some rows of a table."""

    dtype: Any
    nbytes: int
    is_sparse: bool


def bucket_members(
    gradients: Sequence[Travelling], order: Sequence[int], first_limit: int, limit: int
) -> list[list[int]]:
    """The buckets in the order in which they are exchanged; of each, its gradients' numbers.

    In the given order, gradients of one dtype fill a bucket until it has reached its limit. The first bucket of a dtype
    has the small limit: it is the last to be exchanged, when nothing else is left to be computed meanwhile.

    Args:
        order: the numbers of the gradients, that of the earliest layers first.
        first_limit, limit: bytes; a bucket is closed as soon as it has as many.
    """
    closed: list[list[int]] = []
    open_buckets: dict[Any, list[int]] = {}
    begun: set[Any] = set()
    for number in order:
        one = gradients[number]
        if one.is_sparse:
            closed.append([number])
            continue
        bucket = open_buckets.setdefault(one.dtype, [])
        bucket.append(number)
        size = sum(gradients[n].nbytes for n in bucket)
        if size >= (limit if one.dtype in begun else first_limit):
            closed.append(open_buckets.pop(one.dtype))
            begun.add(one.dtype)
    closed += open_buckets.values()
    place = {number: at for at, number in enumerate(order)}
    return sorted(closed, key=lambda bucket: place[bucket[0]], reverse=True)
