"""A step that the ranks of a cluster made, as the events that one process would have told of it."""

from __future__ import annotations

from workbench import events
from workbench.executors.planning.shapes import Shapes
from workbench.framework.program.roles import role_text
from workbench.graph.columns import layer_of
from workbench.graph.ssa import Graph, Node
from workbench.notebook.dashboard.watching.graph_message import nbytes
from workbench.notebook.messages import Message


def events_of_ranks(sample: Message, title: str, graph: Graph, shapes: Shapes) -> list[events.Event]:
    """The events of a message `sample` of a cluster, each of the executor of its rank; the step comes last.

    Args:
        graph, shapes: of the devices of all ranks.
    """
    spans, step = sample["spans"], sample["step"] - 1
    columns = (spans[name].tolist() for name in ("process", "device", "thread", "label", "node", "collective", "wait"))
    starts, ends = ((spans[name].astype("float64") * 1e3).astype("int64").tolist() for name in ("start", "end"))
    told: list[events.Event] = []
    for process, device, thread, label, number, together, waits, start, end in zip(*columns, starts, ends, strict=True):
        executor, text = f"{title} rank {process}", sample["labels"][label]
        node = graph.nodes[number] if number >= 0 else None
        if together:
            told.append(_collective(executor, step, text, node, graph, shapes, process, thread, start, end))
        elif waits:
            told.append(events.Wait(executor, step, graph.places[device], thread, start, end, (text,)))
        else:
            role, layer = ("Forward", "") if node is None else (role_text(node.role), layer_of(node) or "")
            site = None if node is None else node.site
            op = events.OpInfo(number, text, graph.places[device], role, site, layer=layer)
            told.append(events.OpRun(executor, step, op, thread, start, end))
    rows: list[int] = next(iter(sample["feeds"].get("rows", {}).values()), [])
    return [*told, events.Step(title, step, 0, int(sample["seconds"] * 1e9), tuple(graph.places), tuple(rows))]


def _collective(
    executor: str,
    step: int,
    kind: str,
    node: Node | None,
    graph: Graph,
    shapes: Shapes,
    process: int,
    thread: int,
    start: int,
    end: int,
) -> events.Collective:
    """What one rank has told of a collective."""
    places = tuple(place for place in graph.places if getattr(place, "rank", 0) == process)
    if node is None:
        return events.Collective(executor, step, kind, (), 0, places, thread, start, end)
    names = tuple(node.attrs.get("names") or (node.attrs["name"],))
    size = sum(nbytes(value, shapes) for value in node.reads) // max(1, len(node.places))
    return events.Collective(executor, step, kind, names, size, places, thread, start, end)
