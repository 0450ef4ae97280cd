"""Programs, settings and graphs the tests of `graph` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import workbench as wb
from workbench.framework.names import guard
from workbench.framework.program.guard import static_mode
from workbench.framework.text.parser import parse_program
from workbench.framework.values.place import CPUPlace
from workbench.graph.build import build_graph
from workbench.graph.check import check_graph
from workbench.graph.passes import Pass
from workbench.graph.printer import graph_text
from workbench.graph.ssa import Graph, Node
from workbench.graph.strategy import BuildStrategy

REDUCE = BuildStrategy.ReduceStrategy.Reduce
SCALE = BuildStrategy.GradientScaleStrategy


@contextmanager
def building() -> Any:
    """A fresh pair of programs in static mode, with names counted from 0."""
    main, startup = wb.static.Program(), wb.static.Program()
    with static_mode(), guard(), wb.static.program_guard(main, startup):
        yield main


def regression(
    sizes: Iterable[int] = (1,), width: int = 2, optimizer: Any = None, activation: str | None = None
) -> wb.static.Program:
    """fc layers of the given sizes, mean, an optimizer (SGD unless given)."""
    with building() as main:
        hidden = wb.static.data("x", [None, width], "float32")
        for size in sizes:
            hidden = wb.static.nn.fc(hidden, size, activation=activation)
        (optimizer or wb.optimizer.SGD(0.1)).minimize(wb.mean(hidden))
    return main


def settings(devices: int = 2, **fields: Any) -> Any:
    """What a BuildStrategy with these fields is resolved to."""
    strategy = BuildStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy.resolved(devices, process_group=True)


def build(program: Any, devices: int = 2, fetches: Sequence[str] = (), **fields: Any) -> Graph:
    """The checked graph of a program (or of its text) on CPU devices, before any pass."""
    program = parse_program(program) if isinstance(program, str) else program
    graph = build_graph(program, [CPUPlace(i) for i in range(devices)], settings(devices, **fields), fetches)
    check_graph(graph)
    return graph


def apply(graph: Graph, *passes: Pass) -> list[bool]:
    """Run passes, checking the graph after each; returns what they returned."""
    changes = []
    for one in passes:
        changes.append(one(graph))
        check_graph(graph)
    return changes


def lines(graph: Graph, which: Callable[[Node], Any] = lambda node: True) -> str:
    """The text of the nodes for which `which` holds, without the header."""
    shown = graph_text(graph).splitlines()[1:]
    return "\n".join(text for text, node in zip(shown, graph.nodes, strict=True) if which(node))


def types(graph: Graph) -> dict[str, int]:
    """How many nodes there are of each type."""
    counts: dict[str, int] = {}
    for node in graph.nodes:
        counts[node.type] = counts.get(node.type, 0) + 1
    return counts
