"""The first NaN of what is followed: noted in a loop of the user's own, and told to the page."""

from __future__ import annotations

from collections.abc import Callable

from workbench.executors.inspection.inspection import Inspection
from workbench.executors.running.watching.moment import Moment
from workbench.experiments.first_nan import FirstNaN
from workbench.graph.ssa import Graph, Node
from workbench.notebook.messages import Message

_APART = 50  # steps without a NaN after which another one is news


class LoopNaN:
    """Notes the first NaN in the steps of an engine that no run makes; see `Engine.guard`.

    Attributes:
        first: the first step with a NaN, None if there was none. Of an executor that has made many good steps since,
            because its parameters were set anew, the first one after these.
    """

    def __init__(self, engine: Inspection) -> None:
        self.engine = engine
        self.first: FirstNaN | None = None
        self._last = 0

    def __call__(self, take: Callable[[], Moment]) -> None:
        """On the thread of the step: nothing but a copy, and only of the first."""
        step = self.engine.steps + 1
        if self.first is None or step - self._last > _APART:
            self.first = FirstNaN(step, take())
        self._last = step


def nan_message(nan: FirstNaN, graph: Graph) -> Message:
    """`nan` of the message `state`; see assets/src/README.md."""
    nan.find()  # says the rest
    return {
        "step": nan.step,
        "title": nan.title,
        "reason": nan.reason,
        "op": nan.op,
        "device": nan.device,
        "site": str(nan.site) if nan.site is not None else None,
        "node": None if nan.node is None else number_in(graph, nan.node),
    }


def number_in(graph: Graph, node: Node) -> int | None:
    """The number of the node that does in a graph what one of the observed graph does; None if there is none."""
    written = {(value.name, value.place) for value in node.writes}
    ops = {id(op) for op in node.origins}
    fused = None
    for number, other in enumerate(graph.nodes):
        if written & {(value.name, value.place) for value in other.writes}:
            return number
        if fused is None and other.places == node.places and not ops.isdisjoint(map(id, other.origins)):
            fused = number  # fused: what the op makes has no name there
    return fused
