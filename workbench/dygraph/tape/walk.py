"""The walk back: from outputs to what they were computed from, newest op first.

    walk = BackwardWalk(on_arrays)
    walk.start(loss source, ones)
    walk.run()
    walk.leaves          every leaf that was reached, with its gradient

Nothing that users see changes before the walk has ended, so an error in the middle leaves all gradients as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any, NoReturn, Protocol

from workbench.dygraph.overwrites import RepeatedWrites, Write, clock, write_since
from workbench.dygraph.tape.node import TapeNode, TapeOutput
from workbench.dygraph.tape.packing import PackedArrays
from workbench.dygraph.tape.rewrites import earliest, require_own_history
from workbench.errors import EnforceNotMet, ExecutionError, PreconditionNotMet, add_line
from workbench.framework.outside import is_from_outside


class GradientMath(Protocol):
    """What gradients are while they are walked back: arrays, or tensors that are recorded in turn."""

    def add(self, first: Any, second: Any) -> Any:
        """The sum of two gradients of one value; neither is changed."""

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        """Gradients of the node's edges."""

    def through(self, hook: Any, gradient: Any) -> Any:
        """What a hook makes of a gradient: what it returns, or the gradient if that is None."""

    def keep(self, tensor: Any, gradient: Any) -> None:
        """Give a tensor that retains it its gradient, once the walk has ended well."""


class BackwardWalk:
    """One walk back.

    Args:
        math: how gradients are computed.
        retain: values stay for another walk.
        goals: the sources and leaves whose gradients are wanted; None for every leaf.
        blocked: sources and leaves no gradient flows through.

    Attributes:
        leaves: `{id: (leaf, its gradient)}` of the leaves that were reached.
        goal_grads: `{id: gradient}` of the goals that were reached.
    """

    def __init__(
        self, math: GradientMath, retain: bool, goals: Iterable[Any] | None = None, blocked: Iterable[Any] = ()
    ) -> None:
        self.math, self.retain = math, retain
        self._goals = None if goals is None else {_key(g) for g in goals}
        self._blocked = {_key(b) for b in blocked}
        self._pending: dict[TapeNode, Any] = {}
        self._retained: list[tuple[Any, Any]] = []
        self.leaves: dict[int, tuple[Any, Any]] = {}
        self.goal_grads: dict[Any, Any] = {}

    def start(self, source: Any, gradient: Any) -> None:
        """Begin at a source (or a leaf) with the gradient given there."""
        if self._goals is None or type(source) is TapeNode or type(source) is TapeOutput or _key(source) in self._goals:
            self._arrive(source, gradient)

    def run(self) -> None:
        """Walk back.

        Raises:
            PreconditionNotMet: values a gradient needs were freed, or overwritten since.
            EnforceNotMet: an op's gradient failed; the message names the op and its line.
        """
        nodes = _reached(self._pending)
        leading = None if self._goals is None else self._leading(nodes)
        for node in self._one_by_one(nodes):
            gradients = self._pending.pop(node, None)
            if gradients is None:
                continue
            if node.hooks is not None or node.retained is not None:
                gradients = self._seen_by_others(node, gradients)
            if self._goals:
                self._note_goals(node, gradients)
                assert leading is not None
                if node not in leading:
                    continue
            self._pass_on(node, gradients, leading)

    def _one_by_one(self, nodes: Sequence[TapeNode]) -> Iterable[TapeNode]:
        """The nodes to go through; whoever wants to know what has been done overrides it."""
        return nodes

    def _pass_on(self, node: TapeNode, gradients: Any, leading: Collection[TapeNode] | None) -> None:
        edges = node.edges
        if leading is None and not self._blocked:
            wanted: Sequence[bool] = [edge is not None for edge in edges]
        else:
            wanted = [edge is not None and self._is_wanted(edge, leading) for edge in edges]
            if True not in wanted:
                return
        if node.arrays is None:
            raise _freed(node)
        packed = node.arrays if type(node.arrays) is PackedArrays else None
        if packed is not None:
            node.arrays = packed.unpacked()
        if node.time != clock.now:
            _require_untouched(node)
        if node.time >= earliest.time:
            require_own_history(node, wanted)
        try:
            results = self.math.backward(node, gradients, wanted)
        except Exception as error:
            if is_from_outside(error) or (isinstance(error, EnforceNotMet) and error.located):
                raise
            _fail(node, error)
        if not self.retain and node.call.saves:
            node.arrays = None
        elif packed is not None:
            node.arrays = packed
        for edge, keep, result in zip(edges, wanted, results):
            if keep and result is not None:
                self._arrive(edge, result)

    def _arrive(self, target: Any, gradient: Any) -> None:
        """Add to the gradient of a source or leaf."""
        if type(target) is TapeNode:
            before = self._pending.get(target)
            self._pending[target] = gradient if before is None else self.math.add(before, gradient)
        elif type(target) is TapeOutput:
            parts = self._pending.get(target.node)
            if parts is None:
                parts = self._pending[target.node] = [None] * target.node.call.outputs
            before = parts[target.index]
            parts[target.index] = gradient if before is None else self.math.add(before, gradient)
        else:
            leaf = self.leaves.get(id(target))
            total = gradient if leaf is None else self.math.add(leaf[1], gradient)
            self.leaves[id(target)] = target, total

    def _is_wanted(self, edge: Any, leading: Collection[TapeNode] | None) -> bool:
        key = _key(edge)
        if key in self._blocked:
            return False
        if self._goals is None or leading is None or key in self._goals:
            return True
        if type(edge) is TapeNode:
            return edge in leading
        return type(edge) is TapeOutput and edge.node in leading

    def _leading(self, nodes: Sequence[TapeNode]) -> set[TapeNode]:
        """The nodes something that is wanted lies behind."""
        leading: set[TapeNode] = set()
        for node in reversed(nodes):
            if any(edge is not None and self._is_wanted(edge, leading) for edge in node.edges):
                leading.add(node)
        return leading

    def _note_goals(self, node: TapeNode, gradients: Any) -> None:
        assert self._goals is not None
        parts = [gradients] if node.call.is_single else gradients
        for index, part in enumerate(parts):
            if part is not None and (id(node), index) in self._goals:
                self.goal_grads[id(node), index] = part

    def _seen_by_others(self, node: TapeNode, gradients: Any) -> Any:
        """The gradients of the outputs once hooks had them; tensors that retain theirs are noted."""
        parts = [gradients] if node.call.is_single else gradients
        for index, hooks in (node.hooks or {}).items():
            for hook in list(hooks.values()):
                if parts[index] is not None:
                    parts[index] = self.math.through(hook, parts[index])
        for index, kept in (node.retained or {}).items():
            tensor = kept()
            if tensor is not None and parts[index] is not None:
                self._retained.append((tensor, parts[index]))
        return parts[0] if node.call.is_single else parts

    def finish(self) -> None:
        """Give tensors that retain it their gradient; to be called once nothing can fail any more."""
        for tensor, gradient in self._retained:
            self.math.keep(tensor, gradient)


def _key(source: Any) -> Any:
    """What tells sources and leaves apart: a tensor may be found through any of its handles."""
    if type(source) is TapeNode:
        return id(source), 0
    if type(source) is TapeOutput:
        return id(source.node), source.index
    return id(source)


def _reached(starts: Iterable[TapeNode]) -> list[TapeNode]:
    """The nodes that starts were computed from, newest first: every one stands before those it came from."""
    reached = set(starts)
    todo = list(reached)
    while todo:
        for edge in todo.pop().edges:
            if type(edge) is TapeOutput:
                edge = edge.node
            if type(edge) is TapeNode and edge not in reached:
                reached.add(edge)
                todo.append(edge)
    return sorted(reached, key=attrgetter("number"), reverse=True)


def _freed(node: TapeNode) -> PreconditionNotMet:
    return PreconditionNotMet(
        f"backward a second time through op {node.call.name!r}, whose values were freed by the first; "
        f"call the first one with retain_graph=True\n  at {node.site}"
    )


def _require_untouched(node: TapeNode) -> None:
    """The values a node saved are those it was computed with.

    Raises:
        PreconditionNotMet: one was overwritten; naming both lines.
    """
    for array in node.arrays:
        for one in array if isinstance(array, list) else (array,):
            write = None if one is None else write_since(one, node.time)
            if write is not None:
                raise _overwritten(node, write)


def _overwritten(node: TapeNode, write: Write | RepeatedWrites) -> PreconditionNotMet:
    return PreconditionNotMet(
        f"the gradient of op {node.call.name!r} needs a value that {write.by} has overwritten since\n"
        f"  op applied at {node.site}\n  overwritten at {write.spot.site}\n"
        "  overwrite a clone() instead, or call backward first"
    )


def _fail(node: TapeNode, error: Exception) -> NoReturn:
    if node.call.is_users:
        raise error
    line = f"in the gradient of op {node.call.name!r}, applied at {node.site}"
    if isinstance(error, EnforceNotMet):
        add_line(error, line)
        error.located = True
        raise error
    failed = ExecutionError(f"{type(error).__name__}: {error}\n  {line}")
    failed.located = True
    raise failed from error
