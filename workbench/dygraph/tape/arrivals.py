"""Gradients told to others as soon as they are complete, while the walk back still goes on.

Whoever trains in several processes has gradients exchanged meanwhile: a `GradientReceiver` that waits in `receivers`
gets those of its leaves from the next walk that reaches them, and says at the end what they are to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol
from weakref import ref

from workbench.dygraph.tape.node import TapeNode, TapeOutput
from workbench.dygraph.tape.walk import BackwardWalk, GradientMath
from workbench.errors import PreconditionNotMet

Total = Callable[[Any, Any], Any]


class GradientReceiver(Protocol):
    """Gets the gradients of some leaves from one walk.

    Attributes:
        leaves: by id.
    """

    leaves: Mapping[int, Any]

    def begin(self, reached: Collection[int]) -> None:
        """A walk begins that reaches the leaves with these ids."""

    def take(self, leaf: Any, total: Any) -> None:
        """What `grad` of a leaf would become, as an array; None if no gradient has come to it after all."""

    def go_on(self) -> None:
        """Another op has been walked through."""

    def finish(self) -> Mapping[int, tuple[Any, Any]]:
        """What `grad` of which leaf is to become, by id: leaf and array. Others keep what they have."""

    def give_up(self, error: BaseException) -> None:
        """The walk has failed."""


receivers: list[ref[Any]] = []
"""Those that wait for the next walk, the first that came first."""


def await_gradients(receiver: Any) -> None:
    """Have a receiver get gradients from the next walk that reaches its leaves."""
    if all(waiting() is not receiver for waiting in receivers):
        receivers.append(ref(receiver))


walks: list[ToldWalk] = []
"""Those under way, the outermost first."""


class ToldWalk(BackwardWalk):
    """A walk that tells receivers of gradients.

    Args:
        total: what `grad` of a leaf becomes with a gradient that has come to it.
    """

    def __init__(self, math: GradientMath, retain: bool, total: Total) -> None:
        super().__init__(math, retain)
        self._total = total
        self._left: Counter[int] = Counter()
        self._told: list[GradientReceiver] = []
        self._receiver_of: dict[int, GradientReceiver] = {}

    def run(self) -> None:
        walks.append(self)
        try:
            super().run()
        except BaseException as error:
            for receiver in self._told:
                receiver.give_up(error)
            raise
        finally:
            walks.remove(self)

    def totals(self) -> list[tuple[Any, Any]]:
        """Every leaf whose gradient changes, with what it becomes."""
        totals = {
            key: (leaf, self._total(leaf, gradient))
            for key, (leaf, gradient) in self.leaves.items()
            if key not in self._receiver_of
        }
        for receiver in self._told:
            totals.update(receiver.finish())
        return list(totals.values())

    def _one_by_one(self, nodes: Sequence[TapeNode]) -> Iterator[TapeNode]:
        self._begin(nodes)
        for node in nodes:
            yield node
            for receiver in self._told:
                receiver.go_on()
            for edge in node.edges:
                self._pass(edge)

    def _begin(self, nodes: Sequence[TapeNode]) -> None:
        waiting = [receiver for each in receivers if (receiver := each()) is not None]
        leaves = {key for receiver in waiting for key in receiver.leaves}
        self._left = Counter(id(edge) for node in nodes for edge in node.edges if id(edge) in leaves)
        for receiver in waiting:
            reached = self._left.keys() & receiver.leaves.keys()
            if reached:
                _require_outermost(self)
                self._told.append(receiver)
                self._receiver_of.update(dict.fromkeys(receiver.leaves, receiver))
                receiver.begin(reached)
        receivers[:] = [each for each in receivers if each() is not None and each() not in self._told]

    def _pass(self, edge: Any) -> None:
        """One op fewer from which a gradient may come."""
        if edge is None or type(edge) is TapeNode or type(edge) is TapeOutput:
            return
        key = id(edge)
        receiver = self._receiver_of.get(key)
        if receiver is None:
            return
        self._left[key] -= 1
        if self._left[key] == 0:
            leaf = self.leaves.get(key)
            receiver.take(edge, None if leaf is None else self._total(edge, leaf[1]))


def _require_outermost(walk: ToldWalk) -> None:
    """A receiver gets all its gradients from one walk.

    Raises:
        PreconditionNotMet: the walk is part of another.
    """
    if walks[0] is not walk:
        raise PreconditionNotMet(
            "a backward() within the backward of a PyLayer reaches parameters of a DataParallel model, whose gradients "
            "are exchanged in one walk only\n"
            "  run forward and backward in no_sync(), then fused_allreduce_gradients(parameters, None)"
        )
