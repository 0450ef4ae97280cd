"""Capture and replay: what a stream is given while it is captured, and the work that a graph is when it is launched.

A capture takes in streams that wait for its events, and refuses what CUDA refuses: to be waited for by the host, to mix
with work outside of it, to end on another stream than it began on or before all its streams have come back.

A replay does what was recorded, with the addresses that were recorded, in any order that the graph's edges allow.
Whoever gives memory back that a graph would touch is told so then, and not at the replay that would write into it.

No hardware has confirmed which of CUDA's codes goes with which refusal; they are those of its documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from workbench.cuda.driver import CudaError
from workbench.cuda.simulated.accesses import DeviceBlock
from workbench.cuda.simulated.streams import SimulatedEvent, SimulatedStream, StreamTask, StreamWork, Timeline


class CaptureRefused(CudaError):
    """A call that may not be made while a stream is captured, or with what was recorded then."""


@dataclass(eq=False)
class GraphNode:
    """A recorded task and the nodes that come before it."""

    task: StreamTask
    needs: tuple[GraphNode, ...]
    addresses: tuple[int, ...]


@dataclass(eq=False)
class Capture:
    """What is being recorded: from `origin`, and from the streams that have joined."""

    origin: SimulatedStream
    site: str
    thread: int
    streams: list[SimulatedStream] = field(default_factory=list)
    nodes: list[GraphNode] = field(default_factory=list)
    refused: str = ""
    ended: bool = False

    def record(self, task: StreamTask, frontier: Sequence[GraphNode]) -> GraphNode:
        """Add a task after those at which a stream stands."""
        addresses = (*(span.address for span in task.spans), *task.addresses)
        node = GraphNode(task, tuple(frontier), addresses)
        self.nodes.append(node)
        return node

    def join(self, stream: SimulatedStream) -> None:
        """Take a stream in; what it was given before stays outside."""
        stream.outside, stream.frontier, stream.capture = stream.frontier, [], self
        self.streams.append(stream)

    def spoil(self, reason: str) -> None:
        """From now on this capture can only end, and gives no graph."""
        self.refused = self.refused or reason

    def end(self) -> None:
        """Let its streams go on as they were."""
        self.ended = True
        for stream in self.streams:
            stream.frontier, stream.outside, stream.capture = stream.outside, [], None

    def left_behind(self) -> list[GraphNode]:
        """Nodes for which the origin has not waited when the capture ends."""
        reached: set[GraphNode] = set()
        stack = list(self.origin.frontier)
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                stack += node.needs
        return [node for node in self.nodes if node not in reached]


@dataclass(eq=False)
class RecordedGraph:
    """A graph; instantiated or not."""

    nodes: tuple[GraphNode, ...]
    device: int
    site: str
    running: StreamWork | None = None

    def needs(self, block: DeviceBlock) -> GraphNode | None:
        """A node that touches an allocation, as far as its arguments say."""
        stop = block.address + block.nbytes
        return next((node for node in self.nodes if any(block.address <= at < stop for at in node.addresses)), None)


def begin(stream: SimulatedStream, site: str, thread: int) -> Capture:
    """Start a capture.

    Raises:
        CaptureRefused: the stream is captured already.
    """
    if stream.capture is not None:
        raise CaptureRefused(
            f"{site} begins a capture of a stream that {stream.capture.site} is capturing", "cudaErrorIllegalState"
        )
    capture = Capture(stream, site, thread)
    capture.join(stream)
    return capture


def end(stream: SimulatedStream, site: str) -> RecordedGraph:
    """End a capture where it began.

    Raises:
        CaptureRefused: it is another's, something in it was refused, or a stream has not come back.
    """
    capture: Capture | None = stream.capture
    if capture is None:
        raise CaptureRefused(f"{site} ends a capture that has not begun", "cudaErrorIllegalState")
    if capture.origin is not stream:
        raise CaptureRefused(
            f"{site} ends the capture on a stream that joined it; it began at {capture.site} on another one",
            "cudaErrorStreamCaptureUnmatched",
        )
    alone = capture.left_behind()
    capture.end()
    if capture.refused:
        raise CaptureRefused(
            f"the capture that began at {capture.site} is spoiled: {capture.refused}",
            "cudaErrorStreamCaptureInvalidated",
        )
    if alone:
        raise CaptureRefused(
            f"the capture that began at {capture.site} ends before its stream has waited for {alone[-1].task.label}, "
            f"given to another stream at {alone[-1].task.site}",
            "cudaErrorStreamCaptureUnjoined",
        )
    return RecordedGraph(tuple(capture.nodes), stream.device, capture.site)


def record_event(event: SimulatedEvent, stream: SimulatedStream) -> None:
    """Let an event stand for what a stream was given, in a capture or not."""
    event.frontier, event.capture, event.recorded = list(stream.frontier), stream.capture, True


def wait_event(stream: SimulatedStream, event: SimulatedEvent, site: str) -> None:
    """Let a stream wait for an event; one of a capture takes the stream in.

    Raises:
        CaptureRefused: the two belong to different captures, or one to none.
    """
    if not event.recorded:
        return
    if event.capture is not None and event.capture.ended:
        raise CaptureRefused(
            f"{site} waits for an event that was recorded in the capture of {event.capture.site}, which has ended",
            "cudaErrorCapturedEvent",
        )
    if stream.capture is None and event.capture is not None:
        event.capture.join(stream)
    elif stream.capture is not event.capture:
        _refuse_mixture(stream, event, site)
    stream.frontier = list(dict.fromkeys([*stream.frontier, *event.frontier]))


def _refuse_mixture(stream: SimulatedStream, event: SimulatedEvent, site: str) -> None:
    if event.capture is None:
        reason = f"{site} waits, in a capture, for an event that was recorded outside of it"
        stream.capture.spoil(reason)
        raise CaptureRefused(reason, "cudaErrorStreamCaptureIsolation")
    reason = f"{site} would join the captures of {stream.capture.site} and {event.capture.site}"
    stream.capture.spoil(reason)
    event.capture.spoil(reason)
    raise CaptureRefused(reason, "cudaErrorStreamCaptureMerge")


def launch(graph: RecordedGraph, stream: SimulatedStream, site: str, timeline: Timeline) -> None:
    """Give a graph to a stream: a piece of work for every node, and one that is done when all are.

    Raises:
        CaptureRefused: the stream is captured; a graph within a graph is not served.
    """
    if stream.capture is not None:
        stream.capture.spoil(f"{site} launches a graph into it")
        raise CaptureRefused(
            f"{site} launches a graph into a stream that is captured", "cudaErrorStreamCaptureUnsupported"
        )
    first: list[StreamWork] = [*stream.frontier, *([graph.running] if graph.running else [])]
    started: dict[GraphNode, StreamWork] = {}
    for node in graph.nodes:
        needs = [started[one] for one in node.needs] or first
        started[node] = timeline.start(node.task, needs)
    ends = _ends(graph.nodes)
    whole = StreamTask(f"the graph captured at {graph.site}", site, graph.device, lambda work: None)
    graph.running = timeline.start(whole, [started[node] for node in ends] or first)
    stream.frontier = [graph.running]
    timeline.advance()


def _ends(nodes: Iterable[GraphNode]) -> list[GraphNode]:
    needed = {one for node in nodes for one in node.needs}
    return [node for node in nodes if node not in needed]


def keeper(graphs: Iterable[RecordedGraph], block: DeviceBlock) -> tuple[RecordedGraph, GraphNode] | None:
    """A graph that touches an allocation, and the node that does."""
    for graph in graphs:
        node = graph.needs(block)
        if node is not None:
            return graph, node
    return None
