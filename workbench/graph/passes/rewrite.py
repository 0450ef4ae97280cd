"""What passes share: how far a node may be moved back, joining nodes, and numbering versions anew."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from workbench.graph.ssa import Graph, Node, Slot, Value, values_of


class NodePositions:
    """Where nodes stand, and how far back some of them may be moved, as the graph is when this is made.

    Args:
        nodes: those that are to be moved.

    Attributes:
        position: index of every node.
        readers: indexes of the nodes that read a value which `nodes` read or write, ascending.
        overwriter: index of the node that writes the next version of a variable `nodes` read or write.
        follower: index of the first node with an ordering edge from another.
    """

    def __init__(self, graph: Graph, nodes: Iterable[Node]) -> None:
        self.position = {node: index for index, node in enumerate(graph.nodes)}
        self.readers: dict[Value, list[int]] = {}
        self.overwriter: dict[Value, int] = {}
        self.follower: dict[Node, int] = {}
        newest: dict[tuple[str, int], Value] = {}
        names = {value.name for node in nodes for value in values_of((*node.inputs, *node.outputs))}
        for index, node in enumerate(graph.nodes if names else ()):
            for before in node.after:
                self.follower.setdefault(before, index)
            for value in values_of(node.inputs):
                if value.name in names:
                    self.readers.setdefault(value, []).append(index)
                    newest[value.name, value.place] = value
            for value in values_of(node.outputs):
                if value.name in names:
                    replaced = newest.get((value.name, value.place))
                    if replaced is not None:
                        self.overwriter[replaced] = index
                    newest[value.name, value.place] = value

    def deadline(self, node: Node, among: Collection[Node] = ()) -> int:
        """The index of the first node that has to come after `node`, past the end if none has to.

        These are the readers of what it writes, whoever writes the next version of what it reads or writes, and
        those with an ordering edge; readers `among` some nodes do not count.
        """
        end, own = len(self.position), self.position[node]
        limit = self.follower.get(node, end)
        for value in values_of(node.inputs):
            overwritten = self.overwriter.get(value, end)
            if overwritten != own:
                limit = min(limit, overwritten)
        joined = {self.position[n] for n in among}
        for value in values_of(node.outputs):
            read = next((index for index in self.readers.get(value, ()) if index not in joined), end)
            limit = min(limit, read, self.overwriter.get(value, end))
        return limit

    def meet(self, nodes: Sequence[Node]) -> bool:
        """Whether nodes that only pass values on to each other may all be moved to the place of the last one."""
        last = max(self.position[node] for node in nodes)
        return all(self.deadline(node, nodes) > last for node in nodes)

    def runs(self, nodes: Iterable[Node]) -> list[list[Node]]:
        """Nodes in order, cut into runs whose members may all be moved to the place of the run's last."""
        runs: list[list[Node]] = []
        limit = -1
        for node in sorted(nodes, key=self.position.__getitem__):
            if runs and self.position[node] < limit:
                runs[-1].append(node)
                limit = min(limit, self.deadline(node))
            else:
                runs.append([node])
                limit = self.deadline(node)
        return runs


def join(graph: Graph, groups: Sequence[tuple[Sequence[Node], Node]]) -> bool:
    """Put one node where the last of several stood, for every (nodes in order, substitute); ordering edges follow.

    Returns:
        whether there was anything to join.
    """
    if not groups:
        return False
    instead = {node: joined for nodes, joined in groups for node in nodes}
    for nodes, joined in groups:
        joined.after = [before for node in nodes for before in node.after]
    for node in (*graph.nodes, *(joined for _, joined in groups)):
        if node.after:
            node.after = [n for n in dict.fromkeys(instead.get(n, n) for n in node.after) if n is not node]
    mapping = dict.fromkeys(instead, ()) | {nodes[-1]: (joined,) for nodes, joined in groups}
    graph.replace(mapping)
    return True


def read_instead(nodes: Iterable[Node], old: Value, new: Value) -> None:
    """Have nodes read another value wherever they read `old`."""
    for node in nodes:
        node.inputs = [_exchanged(slot, old, new) for slot in node.inputs]


def _exchanged(slot: Slot, old: Value, new: Value) -> Slot:
    if isinstance(slot, list):
        return [new if value is old else value for value in slot]
    return new if slot is old else slot


def renumber(graph: Graph) -> None:
    """Count the versions of every variable anew where nodes have gone, so that they are consecutive again."""
    newest: dict[tuple[str, int], Value] = {}
    known: set[Value] = set()
    for node in graph.nodes:
        for value in values_of(node.inputs):
            if value not in known:  # read before it is written: what the step begins with
                known.add(value)
                newest[value.name, value.place] = value
        for value in values_of(node.outputs):
            before = newest.get((value.name, value.place))
            first = 1 if value.version and (value.persistable or value.is_data) else 0
            value.version = before.version + 1 if before is not None else first
            known.add(value)
            newest[value.name, value.place] = value
    graph.newest = newest
