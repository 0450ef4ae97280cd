"""TapeNode: one applied op that gradients can pass through.

A tensor holds the node it came from, a node the nodes of its inputs; nothing points the other way, so a graph goes as
soon as its last tensor does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from types import CodeType
from typing import Any, Protocol
from weakref import ref

from workbench.dygraph.overwrites import site_of
from workbench.framework.site import Site

next_number = count(1).__next__


class RecordedCall(Protocol):
    """What was applied: it knows how to go back.

    Attributes:
        name: of the op, for messages. outputs: how many there are. is_single: one output, that is no list.
        saves: it needs values it was given, so that it cannot go back once they are freed.
        is_users: its gradient is code of the user's, whose errors are theirs as they are.
    """

    name: str
    outputs: int
    is_single: bool
    saves: bool
    is_users: bool

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        """Gradients of `node.edges`, None for those not wanted, given that of the output (`is_single`) or a list of
        those of the outputs, None for one that nothing depends on."""


class TapeNode:
    """One recorded op.

    Attributes:
        call: what was applied.
        arrays: the values the gradient needs; None once they are freed.
        edges: where gradients go, one per input that can get one: a node, a `TapeOutput`, a leaf tensor or None.
        number: later nodes have larger ones.
        time: of the clock of writes, when it was recorded.
        code, lasti: the user's line.
        hooks: functions gradients of the outputs pass through, `{output: {handle: function}}`.
        retained: tensors that keep their gradient, `{output: weak reference}`.
        is_view: the only output lies in the memory of the first input.
        rewrites: recorded writes to the outputs, `{output: [Rewrite]}`, see `tape.rewrites`.
    """

    __slots__ = (
        "arrays", "call", "code", "edges", "hooks", "is_view", "lasti", "number", "retained", "rewrites", "time",
    )  # fmt: skip

    call: RecordedCall
    arrays: Any
    edges: tuple[Any, ...]
    number: int
    time: int
    code: CodeType
    lasti: int
    hooks: dict[int, dict[int, Callable[[Any], Any]]] | None
    retained: dict[int, ref[Any]] | None
    is_view: bool
    rewrites: dict[int, list[Any]] | None

    @property
    def site(self) -> Site:
        """Where it was applied."""
        return site_of(self.code, self.lasti)


class TapeOutput:
    """One of several outputs of a node."""

    __slots__ = ("index", "node")

    def __init__(self, node: TapeNode, index: int) -> None:
        self.node, self.index = node, index


def node_and_index(source: Any) -> tuple[TapeNode, int]:
    """The node a tensor came from, and which of its outputs it is."""
    return (source.node, source.index) if type(source) is TapeOutput else (source, 0)
