"""Values that only show another one's memory: views, and what is handed through unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workbench.executors.failures import Explained
from workbench.executors.planning.memory.buckets import GradientBuckets
from workbench.executors.planning.memory.layout import Layouts
from workbench.executors.planning.memory.request import MemoryRequest
from workbench.framework.op.record import Op
from workbench.framework.op.traced import passes_through
from workbench.framework.values.spec import Spec
from workbench.framework.values.views import Strided, row_major
from workbench.graph.ssa import Node, Value


class Alias(NamedTuple):
    """What a value shows: the memory of `base`, whose first element is at byte 0."""

    base: Value
    seen: Strided


@dataclass(frozen=True, eq=False)
class Aliases:
    """Where values are that are no memory of their own.

    Attributes:
        aliases: what each of them shows; a base is no alias itself.
        own: of every other value with memory, how it lies there.
    """

    aliases: Mapping[Value, Alias]
    own: Mapping[Value, Strided]

    def base_of(self, value: Value) -> Value:
        """The value whose memory a value is in."""
        alias = self.aliases.get(value)
        return value if alias is None else alias.base

    def lies(self, value: Value) -> Strided:
        """How a value lies in the memory of its base."""
        alias = self.aliases.get(value)
        return self.own[value] if alias is None else alias.seen


def find_aliases(request: MemoryRequest, buckets: GradientBuckets, layouts: Layouts) -> Aliases:
    """All values that need no memory of their own, and how the others lie in theirs."""
    own: dict[Value, Strided] = {}
    aliases: dict[Value, Alias] = {}
    known = Aliases(aliases, own)
    for value in request.given:
        own[value] = _row_by_row(request.specs[value])
    for node, value in request.produced:
        spec = request.specs[value]
        placed = value in request.staged or value in request.in_scope or value in buckets.spots
        if request.in_place and node.is_op and not placed:
            with Explained(node, request.graph, request.specs):
                alias = _alias(request, known, node, value)
            if alias is not None:
                aliases[value] = alias
                continue
        strides = layouts.get(value)
        lies = _row_by_row(spec)
        own[value] = lies if strides is None else lies._replace(strides=strides)
    return known


def _row_by_row(spec: Spec) -> Strided:
    itemsize = spec.dtype.itemsize
    return Strided(0, spec.shape, row_major(spec.shape, itemsize), itemsize)


def _alias(request: MemoryRequest, known: Aliases, node: Node, value: Value) -> Alias | None:
    """Where a result is that already exists."""
    if node.record.is_view:
        return _view(request, known, node, request.specs[value])
    return _passed_on(request, known, node, value) if node.record.is_elementwise else None


def _view(request: MemoryRequest, known: Aliases, node: Node, spec: Spec) -> Alias | None:
    """Where an op that only looks at its input differently finds it."""
    record = node.record
    source = node.inputs[shown_input(record)]
    if record.view is None or not _may_be_shown(request, known, source):
        return None
    seen = record.view(known.lies(source), spec.shape, node.attrs)
    if seen is None or seen.shape != spec.shape:
        return None
    return Alias(known.base_of(source), seen)


def _passed_on(request: MemoryRequest, known: Aliases, node: Node, value: Value) -> Alias | None:
    """The memory of an input that is handed through unchanged, as the gradient of an addition is."""
    ins = [slot for slot in node.inputs if not isinstance(slot, list)]
    if len(ins) != len(node.inputs):
        return None
    dtypes = tuple(None if v is None else request.specs[v].dtype.numpy for v in ins)
    output = next(i for i, slot in enumerate(node.outputs) if slot is value)
    number = passes_through(node.record, dtypes, node.attrs).get(output)
    source = ins[number] if number is not None else None
    if source is None or not _may_be_shown(request, known, source):
        return None
    got, spec = request.specs[source], request.specs[value]
    if got.shape != spec.shape or got.dtype is not spec.dtype:
        return None
    return Alias(known.base_of(source), known.lies(source))


def _may_be_shown(request: MemoryRequest, known: Aliases, source: Value | None) -> bool:
    """Whether a value has memory, and not the scope's: the commit changes that."""
    if source is None or not (source in known.own or source in known.aliases):
        return False
    return not request.lies_in_scope(known.base_of(source))


def shown_input(record: Op) -> int:
    """Number of the input slot whose memory the result of a view op shows."""
    (shown,) = record.aliases.values()
    return next(i for i, slot in enumerate(record.inputs) if slot.name == shown)
