"""Recorded writes through one tensor to memory that others show: these do not know any more how their value came about.

    y = x * 2
    v = y.reshape([4])      v shows the memory of y
    v.multiply_(three)      the history of v has the product, that of y has not
    y.sum()                 from here the gradient would be that of a value y does not have

Such a write is noted in the recorded ops whose outputs lie in that memory. What is applied to these outputs afterwards
has no right gradient, which the walk back says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.dygraph.overwrites import CodeSpot, clock, here
from workbench.dygraph.tape.node import TapeNode, TapeOutput, node_and_index
from workbench.errors import PreconditionNotMet

_EFFORT = 10_000  # to tell whether two views have an element in common


class Rewrite(NamedTuple):
    """A recorded write to what an op gave.

    Attributes:
        time: of the clock of writes. by: name of the op or method. spot: where.
        views: the recorded views that lie between the op and what was written to, the nearest to the op first.
    """

    time: int
    by: str
    spot: CodeSpot
    views: tuple[TapeNode, ...]


class _Earliest:
    """When the first recorded write was; what was recorded before needs no look."""

    time = math.inf


earliest = _Earliest()


def leaf_shown(source: Any) -> Any:
    """The leaf whose memory a tensor with this history shows, None if it is no view of a leaf."""
    while source is not None:
        node, _ = node_and_index(source)
        if not node.is_view:
            return None
        source = node.edges[0]
        if not isinstance(source, TapeNode | TapeOutput):
            return source
    return None


def note_rewrite(source: Any, by: str) -> None:
    """Note, after it was done, a recorded write to the memory of a tensor whose history was this one."""
    earliest.time = min(earliest.time, clock.now)
    spot = here()
    views: tuple[TapeNode, ...] = ()
    while True:
        node, index = node_and_index(source)
        node.rewrites = node.rewrites or {}
        node.rewrites.setdefault(index, []).append(Rewrite(clock.now, by, spot, views))
        if not node.is_view:
            return
        source, views = node.edges[0], (node, *views)


def require_own_history(node: TapeNode, wanted: Sequence[bool]) -> None:
    """What a recorded op was applied to has the history of the value it had.

    Raises:
        PreconditionNotMet: a value was written to through another tensor before; naming both lines.
    """
    for edge, keep in zip(node.edges, wanted, strict=False):
        if keep:
            _require_known(node, edge)


def _require_known(node: TapeNode, source: Any) -> None:
    views: tuple[TapeNode, ...] = ()
    while isinstance(source, TapeNode | TapeOutput):
        producer, index = node_and_index(source)
        for write in (producer.rewrites or {}).get(index, ()):
            if write.time <= node.time and _overlap(write.views, views):
                raise _stale(node, write)
        if not producer.is_view:
            return
        source, views = producer.edges[0], (producer, *views)


def _overlap(first: Sequence[TapeNode], second: Sequence[TapeNode]) -> bool:
    """Whether two views of one value have an element in common."""
    if not first or not second:
        return True
    call: Any = first[0].call
    whole = np.empty(call.input_kinds[0].shape, np.int8)  # nobody looks at what it holds
    effort: Any = _EFFORT
    try:
        return np.shares_memory(_shown(whole, first), _shown(whole, second), max_work=effort)
    except np.exceptions.TooHardError:
        return True


def _shown(array: Any, views: Sequence[TapeNode]) -> Any:
    for view in views:
        call: Any = view.call
        array = call.compute(array)
    return array


def _stale(node: TapeNode, write: Rewrite) -> PreconditionNotMet:
    return PreconditionNotMet(
        f"op {node.call.name!r} was applied to a value that {write.by} had written to through another tensor on the "
        "same memory: only that one knows the history of what it wrote\n"
        f"  op applied at {node.site}\n  written to at {write.spot.site}\n"
        "  go on with the tensor that was written to, or write to a clone()"
    )
