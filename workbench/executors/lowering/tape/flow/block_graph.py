"""The operators of a block as a graph on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.graph.ssa import FETCH, Graph, Node, Slot, Value


class BlockGraph:
    """The graph of a block on one device. What it reads and does not make is given.

    Attributes:
        graph: it. newest: the last version of every variable.
    """

    def __init__(self, block: Block, place: int, graph: Graph) -> None:
        self._block, self._place, self.graph = block, place, graph
        self.newest: dict[str, Value] = {}
        for op in block.ops:
            inputs = [self._slot(op.operands.get(s.name), s.is_list, self.read) for s in op.record.inputs]
            outputs = [self._slot(op.outputs.get(s.name), s.is_list, self._write) for s in op.record.outputs]
            graph.nodes.append(Node(op.type, (place,), inputs, outputs, op.call_attrs(), op.role, (op,)))
        graph.newest = {(name, place): value for name, value in self.newest.items()}

    def fetch(self, names: Sequence[str]) -> None:
        """See to it that these are there at the end."""
        for name in dict.fromkeys(names):
            node = Node(FETCH, (self._place,), [[self.read(name)]], [], {"name": name}, 0)
            self.graph.nodes.append(node)

    def read(self, name: str) -> Value:
        """The value that a variable has at the end of what there is so far."""
        return self.newest.get(name) or self._new(name, 0)

    def _slot(self, names: list[str] | None, is_list: bool, get: Any) -> Slot:
        if not names:
            return None
        values = [None if name == EMPTY else get(name) for name in names]
        return values if is_list else values[0]

    def _write(self, name: str) -> Value:
        before = self.newest.get(name)
        return self._new(name, 0 if before is None else before.version + 1)

    def _new(self, name: str, version: int) -> Value:
        self.newest[name] = Value(name, self._place, version, self._block.var_recursive(name).spec)
        return self.newest[name]
