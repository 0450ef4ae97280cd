"""Who has to run before whom: edges, hazards (G-17), a topological order and levels.

A node comes after those whose values it reads (*data*), after those in its `after` list (*order*), and a node that
writes a new version of a variable comes after all readers of the version before (a *hazard*: both may share memory).
`add_hazard_edges` makes hazards ordering edges, so that after it data and order say everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.errors import InvalidArgument
from workbench.graph.ssa import Graph, Node, Value, values_of

DATA, ORDER = "data", "order"
Edge = tuple[Node, Node, str]
Pair = tuple[Node, Node]


def edges(graph: Graph) -> Iterator[Edge]:
    """Every (earlier node, later node, kind), each once, in the order of the later ones; see `DATA` and `ORDER`."""
    writer = writers(graph.nodes)
    for node in graph.nodes:
        for before in _writers_of(node, writer):
            yield before, node, DATA
        for before in dict.fromkeys(node.after):
            yield before, node, ORDER


def writers(nodes: Iterable[Node]) -> dict[Value, Node]:
    """Who writes every value that is written."""
    return {value: node for node in nodes for value in values_of(node.outputs)}


def _writers_of(node: Node, writer: dict[Value, Node]) -> Iterable[Node]:
    writers = {writer[value]: None for value in values_of(node.inputs) if value in writer}
    writers.pop(node, None)
    return writers


def hazards(graph: Graph) -> Iterator[Pair]:
    """(reader of a version, writer of the next one), where no value the reader writes and the writer reads orders them.

    A version nobody reads is told with its writer: two writes of one variable keep their order too.
    """
    rewritten = {v.name for node in graph.nodes for v in values_of(node.outputs) if v.version}
    readers: dict[Value, list[Node]] = {}
    writer: dict[Value, Node] = {}
    for node in graph.nodes:
        for value in values_of(node.inputs):
            if value.name in rewritten:
                readers.setdefault(value, []).append(node)
        for value in values_of(node.outputs):
            writer[value] = node
    involved = dict.fromkeys([*readers, *(v for v in writer if v.name in rewritten)])
    direct: dict[Node, set[Node | None]] = {}
    for value, following in _consecutive(involved):
        overwriter = writer.get(following)
        before = readers.get(value) or ([writer[value]] if value in writer else [])
        if overwriter is None or before == [overwriter]:
            continue
        if overwriter not in direct:
            direct[overwriter] = {writer.get(v) for v in values_of(overwriter.inputs)}
        for node in dict.fromkeys(before):
            if node is not overwriter and node not in direct[overwriter]:
                yield node, overwriter


def _consecutive(values: Iterable[Value]) -> Iterator[tuple[Value, Value]]:
    """Every version of a variable on a device with the next one that there is."""
    last: dict[tuple[str, int], Value] = {}
    for value in sorted(values, key=_version):
        key = value.name, value.place
        if key in last:
            yield last[key], value
        last[key] = value


def _version(value: Value) -> int:
    return value.version


def add_hazard_edges(graph: Graph) -> None:
    """Put every hazard into the `after` list of the node that writes (G-17); what is there already stays."""
    known: dict[Node, set[Node]] = {}
    for before, node in hazards(graph):
        there = known.get(node)
        if there is None:
            there = known[node] = set(node.after)
        if before not in there:
            there.add(before)
            node.after.append(before)


def predecessors(graph: Graph) -> dict[Node, list[Node]]:
    """The nodes every node has to wait for: data, order and hazards."""
    before_of: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for before, node, _ in edges(graph):
        before_of[node].append(before)
    for before, node in hazards(graph):
        before_of[node].append(before)
    return before_of


def topological(graph: Graph) -> list[Node]:
    """The nodes in an order in which they may run, as close to the present one as edges and hazards allow.

    Raises:
        InvalidArgument: some nodes wait for each other, or for one that is not in the graph.
    """
    before = predecessors(graph)
    done: set[Node] = set()
    order: list[Node] = []
    for node in graph.nodes:
        if node not in done:
            _visit(node, before, done, order)
    return order


def _visit(root: Node, before: dict[Node, list[Node]], done: set[Node], order: list[Node]) -> None:
    """Append `root`, everything it waits for first."""
    path: list[tuple[Node, Iterator[Node]]] = [(root, _waits_for(root, before))]
    open_nodes = {root}
    while path:
        node, rest = path[-1]
        following = next((n for n in rest if n not in done), None)
        if following is None:
            path.pop()
            open_nodes.discard(node)
            done.add(node)
            order.append(node)
        elif following in open_nodes:
            raise _cycle([n for n, _ in path], following)
        else:
            path.append((following, _waits_for(following, before)))
            open_nodes.add(following)


def _waits_for(node: Node, before: dict[Node, list[Node]]) -> Iterator[Node]:
    if node not in before:
        raise InvalidArgument(f"a node comes after {node!r}, which is not in the graph")
    return iter(before[node])


def _cycle(path: list[Node], again: Node) -> InvalidArgument:
    circle = path[path.index(again) :]
    text = ", which waits for ".join(map(repr, circle))
    return InvalidArgument(f"nodes of the graph wait for each other: {text}, which waits for the first one")


def levels(graph: Graph) -> dict[Node, int]:
    """How many nodes, at least, have to run one after the other before each (0: none), by data and order edges.

    The nodes have to stand in an order in which they may run.
    """
    writer = writers(graph.nodes)
    level_of: dict[Node, int] = {}
    for node in graph.nodes:
        level = max((level_of[n] for n in node.after), default=-1)
        for value in values_of(node.inputs):
            if value in writer:
                level = max(level, level_of[writer[value]])
        level_of[node] = level + 1
    return level_of
