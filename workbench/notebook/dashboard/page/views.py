"""What `%ssa`, `%scopes` and `%feeds` show: single panels as pictures with text."""

from __future__ import annotations

from workbench.errors import InvalidArgument, InvalidType, described
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.parallel import ParallelExecutor
from workbench.executors.planning.shapes import Shapes
from workbench.framework.program.program import Program
from workbench.graph.ssa import Graph
from workbench.jit.recorded_function import RecordedFunction, recording_of
from workbench.jit.recorded_step import RecordedStep
from workbench.layers.layer import Layer
from workbench.notebook.dashboard.model.subject import Target
from workbench.notebook.dashboard.page.dashboard import dashboard
from workbench.notebook.dashboard.page.view import PanelView
from workbench.notebook.dashboard.watching.graph_message import graph_message
from workbench.notebook.dashboard.watching.previewed import graph_of, graph_of_program


class GraphView(PanelView):
    """An SSA graph.

    Attributes:
        graph: to be printed and read.
    """

    def __init__(self, title: str, graph: Graph) -> None:
        super().__init__("graph", {"graph": graph_message(1, title, graph, Shapes(graph, {}))})
        self.graph = graph


def ssa(
    target: Program | ParallelExecutor | CompiledProgram | RecordedFunction | Layer,
    devices: int = 2,
    reduce: bool = False,
) -> GraphView:
    """The SSA graph of a step, with its collectives.

    Args:
        target: a Program is shown as it would run on so many CPU devices, or, if a transpiler has given it operators
            that exchange values with other processes, as it is written, on one. An executor is shown as it runs, and
            so is what was recorded of a function by `jit.capture` or `jit.to_static`, or of a layer.
        devices, reduce: of a Program: how many, and Reduce instead of AllReduce.

    Raises:
        InvalidArgument: devices below 1. InvalidType: something else. PreconditionNotMet: nothing was recorded yet.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> graph = wb.ssa(static.default_main_program(), devices=3)
        >>> graph.save("graph.svg")
    """
    if isinstance(target, Program):
        if not isinstance(devices, int) or devices < 1:
            raise InvalidArgument(f"ssa takes a number of devices of at least 1, got {devices!r}")
        return GraphView(target.name or "program", graph_of_program(target, devices, (), reduce))
    runs = recording_of(target) if isinstance(target, RecordedFunction | Layer) else target
    if not isinstance(runs, ParallelExecutor | CompiledProgram | RecordedStep):
        raise InvalidType(
            "ssa takes a Program, a ParallelExecutor, a CompiledProgram, a captured step or a Layer, "
            f"got {described(target)}"
        )
    engine = runs.inspection
    graph = engine.last.plan.graph if engine.last is not None else graph_of(engine, [])
    return GraphView(engine.program.name or "program", graph)


def scopes(target: Target | None = None) -> PanelView:
    """Memory for temporaries per device over the steps, with scope drops; what lives, and what Reduce would change.

    Args:
        target: as of `dashboard`, which it listens through from the first call on.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> view = wb.scopes(static.default_main_program())
    """
    return _of_dashboard("scopes", target)


def feeds(target: Target | None = None) -> PanelView:
    """What each device was fed in the newest step that was looked at: rows, shapes, bytes, previews.

    Args:
        target: as of `dashboard`, which it listens through from the first call on.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> view = wb.feeds(static.default_main_program())
    """
    return _of_dashboard("feeds", target)


def _of_dashboard(panel: str, target: Target | None) -> PanelView:
    return dashboard(target).panel(panel)
