"""What there is to show of a program that nothing runs on devices: its graph."""

from __future__ import annotations

from workbench import events
from workbench.errors import PreconditionNotMet
from workbench.executors.planning.shapes import Shapes
from workbench.graph.ssa import Graph
from workbench.notebook.dashboard.watching.graph_message import graph_message
from workbench.notebook.dashboard.watching.samples import Samples
from workbench.notebook.messages import Message


class Unwatched:
    """Stands where a `Watch` is when something runs.

    Args:
        graph: that it would have; number: of the graph, for the page.
    """

    error: events.Error | None = None
    nan = None
    strategy = "AllReduce"
    unseen: str | None = None  # why there will be no feeds, memory and timeline

    def __init__(self, title: str, graph: Graph, number: int = 1) -> None:
        self.title, self.graph, self.graph_number = title, graph, number
        self.shapes, self.samples = Shapes(graph, {}), Samples()
        self.devices = [str(place) for place in graph.places]

    def what(self) -> str:
        """`1 device`."""
        return f"{len(self.devices)} device{'s' * (len(self.devices) != 1)}"

    def close(self) -> None:
        """Nothing is listened to."""

    def follow(self, goes_on: bool) -> tuple[bool, bool]:
        """Nothing changes."""
        return False, False

    def sample_next(self) -> None:
        """There is no step to sample."""

    def steps(self) -> int:
        """None has been run."""
        return 0

    def can_drop(self) -> bool:
        """There is nothing to drop."""
        return False

    def drop(self) -> int:
        """Refused."""
        raise PreconditionNotMet("there are no temporaries before the first step")

    def prepare(self) -> None:
        """There is nothing to work out."""

    def memory_changed(self) -> bool:
        """It never does."""
        return False

    def sample_at(self, step: int) -> Message | None:
        """No step has been looked at."""
        return None

    def events_of(self, step: int | None = None) -> list[events.Event]:
        """What was told of a step; see `Samples.events_of`."""
        return self.samples.events_of(step)

    def newest_fed(self) -> Message | None:
        """Nobody knows what was fed."""
        return None

    def news_of_fed(self) -> Message | None:
        """Nobody knows what was fed."""
        return None

    def sampled(self) -> list[Message]:
        """No step has been looked at."""
        return []

    def typical(self) -> Message | None:
        """No step has been looked at."""
        return None

    def graph_message(self) -> Message:
        """The message `graph`."""
        return graph_message(self.graph_number, self.title, self.graph, self.shapes)

    def scopes_message(self) -> Message:
        """The message `scopes`, with nothing in it."""
        none: Message = {"step": [], "bytes": [], "cause": [], "total": 0, "since": 0}
        return {
            "type": "scopes", "devices": self.devices, "strategy": self.strategy,
            "memory": {"step": [], "bytes": []}, "drops": none, "feeds": {"step": [], "rows": []},
            "live": [], "live_total": {"count": 0, "bytes": 0, "kept": 0, "shared": 0}, "totals": [],
        }  # fmt: skip
