"""`%dashboard`, `%ssa`, `%scopes`, `%feeds` and `%drop_scopes`."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from workbench.errors import did_you_mean, one_of
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.parallel import ParallelExecutor
from workbench.experiments import Run
from workbench.framework.program.program import Program
from workbench.jit.recorded_function import RecordedFunction
from workbench.layers.layer import Layer
from workbench.magics.arguments import parse
from workbench.notebook.dashboard.page.dashboard import Dashboard, dashboard
from workbench.notebook.dashboard.page.views import GraphView, PanelView, feeds, scopes, ssa
from workbench.notebook.programs.session import Session
from workbench.runtime.devices import MOST_CPUS

SHOWN = (ParallelExecutor, CompiledProgram, Program, Run, RecordedFunction, Layer)


@magics_class
class DashboardMagics(Magics):
    """The magics that show what goes on, and steer it."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @no_var_expand
    @magic_arguments()
    @argument(
        "target",
        nargs="?",
        help="executor, program, run, captured step or layer; default: the last dashboard",
    )
    @line_magic
    def dashboard(self, line: str) -> Dashboard:
        """Show the dashboard. The same from Python: `wb.dashboard(exe)`."""
        __tracebackhide__ = True
        return dashboard(self._target(parse(self.dashboard, line).target))

    @no_var_expand
    @magic_arguments()
    @argument("name", help="a program, an executor, a captured step or a layer")
    @argument("--devices", type=int, default=2, metavar="N", help="of a program: on so many devices; default: 2")
    @argument("--reduce", action="store_true", help="of a program: with Reduce instead of AllReduce")
    @line_magic
    def ssa(self, line: str) -> GraphView:
        """Show the SSA graph of a step as a picture. The same from Python: `wb.ssa(net, devices=2)`."""
        __tracebackhide__ = True
        args = parse(self.ssa, line)
        target = self._target(args.name)
        if isinstance(target, Run):
            raise UsageError(f"%ssa takes a program or an executor; {args.name!r} is a Run")
        if args.devices < 1:
            raise UsageError(f"--devices takes a number of at least 1, got {args.devices}")
        if args.devices > MOST_CPUS:
            raise UsageError(f"--devices takes a number of at most {MOST_CPUS:,}, got {args.devices}")
        return ssa(target, args.devices, args.reduce)

    @no_var_expand
    @magic_arguments()
    @argument("target", nargs="?", help="an executor or a run; default: that of the dashboard made last")
    @line_magic
    def scopes(self, line: str) -> PanelView:
        """Show memory for temporaries over the steps, and scope drops. The same from Python: `wb.scopes(exe)`."""
        __tracebackhide__ = True
        return scopes(self._target(parse(self.scopes, line).target))

    @no_var_expand
    @magic_arguments()
    @argument("target", nargs="?", help="an executor or a run; default: that of the dashboard made last")
    @line_magic
    def feeds(self, line: str) -> PanelView:
        """Show what each device was fed. The same from Python: `wb.feeds(exe)`."""
        __tracebackhide__ = True
        return feeds(self._target(parse(self.feeds, line).target))

    @no_var_expand
    @magic_arguments()
    @argument("target", nargs="?", help="an executor or a run; default: that of the dashboard made last")
    @line_magic
    def drop_scopes(self, line: str) -> None:
        """Give the memory of temporaries back. The same from Python: `wb.dashboard(exe).drop_scopes()`."""
        __tracebackhide__ = True
        dashboard(self._target(parse(self.drop_scopes, line).target)).drop_scopes()

    def _target(self, name: str | None) -> Any:
        """What a name stands for; None for none.

        Raises:
            UsageError: there is none of that name that could be shown.
        """
        if name is None:
            return None
        known = targets(self.session.own())
        if name in known:
            return self.session.namespace[name]
        value = self.session.namespace.get(name)
        what = "there is no such name" if value is None else f"it is of type {type(value).__name__}"
        hint = did_you_mean(name, known) or (f" There are {one_of(known)}." if known else "")
        raise UsageError(
            f"a dashboard shows executors, programs, runs, captured steps and layers; {name!r}: {what}.{hint}"
        )


def targets(names: dict[str, Any]) -> list[str]:
    """Names of what a dashboard can be made of."""
    return [name for name, value in names.items() if isinstance(value, SHOWN)]
