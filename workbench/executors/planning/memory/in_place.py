"""Results that are written over an input nobody reads any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.executors.planning.memory.aliases import Aliases
from workbench.executors.planning.memory.buckets import GradientBuckets, part_of
from workbench.executors.planning.memory.request import END, MemoryRequest, nbytes_of
from workbench.framework.values.spec import Spec
from workbench.framework.values.views import row_major
from workbench.graph.ssa import ALL_REDUCE, FUSED_ALL_REDUCE, FUSED_ELEMENTWISE, Node, Value

Takeovers = Mapping[Value, Value]
"""Of results that are written over an input: that input."""


@dataclass(eq=False)
class _Content:
    """What is known of a piece of memory while the schedule is gone through.

    Attributes:
        nbytes: of the value it was made for.
        kept: until the end of the step, whoever reads it.
        read_from, read_until: positions of the first and last node that reads a value in it; readers: their threads.
        touched: threads that have read or written it so far. taken: position of the last node whose result is in it
            beside what was there.
    """

    nbytes: int
    kept: bool = False
    read_from: int = END
    read_until: int = -1
    readers: set[int] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)
    taken: int = -1


def find_takeovers(request: MemoryRequest, buckets: GradientBuckets, aliases: Aliases) -> Takeovers:
    """Which results are written over which inputs."""
    return _TakeoverWalk(request, buckets, aliases).takeovers() if request.in_place else {}


class _TakeoverWalk:
    """Goes through the schedule, node by node."""

    def __init__(self, request: MemoryRequest, buckets: GradientBuckets, aliases: Aliases) -> None:
        self.request, self.buckets, self.aliases = request, buckets, aliases
        self.contents: dict[Value, _Content] = {}  # of what lies in an arena and in no bucket

    def takeovers(self) -> dict[Value, Value]:
        request = self.request
        taken: dict[Value, Value] = {}
        for value in request.given:
            if not request.lies_in_scope(value):
                self._begin(value, request.is_fed_aside(value))
        results: dict[Node, list[Value]] = {}
        for node, value in request.produced:
            results.setdefault(node, []).append(value)
        for node in request.schedule.order:
            for value in results.get(node, ()):
                over = self._place(node, value)
                if over is not None:
                    taken[value] = over
            self._touch(node)
        return taken

    def _place(self, node: Node, value: Value) -> Value | None:
        """Note where a result goes; the input it is written over, if there is one."""
        if value in self.request.in_scope or value in self.buckets.spots:
            return None
        is_alias = value in self.aliases.aliases
        under = self.aliases.base_of(value) if is_alias else self._overwritten(node, value)
        if under is None:
            self._begin(value)
            return None
        content = self.contents.get(under)
        if content is not None:  # else what is shown lies in a bucket
            content.taken = self.request.position[node]
            self._hold(value, content)
        return None if is_alias else under

    def _begin(self, value: Value, kept: bool = False) -> None:
        self._hold(value, _Content(nbytes_of(self.request.specs[value]), kept))

    def _hold(self, value: Value, content: _Content) -> None:
        """A value is in this memory from now on."""
        self.contents[value] = content
        content.kept |= value in self.request.staged
        for reader in self.request.readers.get(value, ()):
            content.read_from = min(content.read_from, self.request.when(reader))
            content.read_until = max(content.read_until, self.request.until(reader))
            content.readers.add(self.request.schedule.thread[reader])

    def _touch(self, node: Node) -> None:
        for value in (*node.value_reads, *node.writes):
            content = self.contents.get(value)
            if content is not None:
                content.touched.add(self.request.schedule.thread[node])

    def _overwritten(self, node: Node, value: Value) -> Value | None:
        """The input whose memory a result may take over."""
        spec = self.request.specs[value]
        if node.type in (ALL_REDUCE, FUSED_ALL_REDUCE):
            part = part_of(node, node.writes.index(value))
            return part if self._is_free(node, part, spec, alone=True) else None
        one_by_one = node.is_op and node.record.is_elementwise
        if one_by_one or (node.type == FUSED_ELEMENTWISE and len(node.writes) == 1):
            return next((v for v in node.value_reads if self._is_free(node, v, spec)), None)
        return None

    def _is_free(self, node: Node, value: Value, spec: Spec, alone: bool = False) -> bool:
        """Whether a result as `spec` fits over an input that nobody needs after this node.

        Args:
            alone: the input has to have no other reader; then it does not matter on which threads they are.
        """
        content = self.contents.get(value)
        if content is None or content.kept or not self._fills(value, content, spec):
            return False
        position, thread = self.request.position[node], self.request.schedule.thread[node]
        if content.read_until > position or content.taken == position:
            return False
        if alone:
            return content.read_from == position
        return content.readers <= {thread} and content.touched <= {thread}

    def _fills(self, value: Value, content: _Content, spec: Spec) -> bool:
        """Whether a value is all of its memory, row by row, and the result is like it."""
        got, seen = self.request.specs[value], self.aliases.lies(value)
        like = got.shape == spec.shape and got.dtype is spec.dtype
        whole = seen.offset == 0 and nbytes_of(got) == content.nbytes
        return like and whole and seen.strides == row_major(seen.shape, seen.itemsize)
