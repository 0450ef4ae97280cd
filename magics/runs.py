"""`%runs` and `%compare`."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from workbench.experiments import Comparison, Run, Runs, compare, runs
from workbench.magics.arguments import parse
from workbench.notebook.programs.session import Session


@magics_class
class RunMagics(Magics):
    """The magics that show recorded runs."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @no_var_expand
    @magic_arguments()
    @argument("--sort", metavar="COLUMN", help="by a column: name, seconds, a setting, a recorded value …")
    @argument("--descending", action="store_true", help="with --sort: the largest first")
    @argument("--tag", help="only the runs with this tag")
    @argument("--name", help="only the runs of this name")
    @argument("--columns", nargs="+", metavar="COLUMN", default=[], help="show these; default: what tells runs apart")
    @argument("-n", type=int, metavar="COUNT", help="only so many, the first ones; default: all")
    @line_magic
    def runs(self, line: str) -> Runs:
        """Show recorded runs, the newest first. The same from Python: `wb.runs()`.

        In a notebook the table can be sorted, filtered and grouped; runs that are selected are compared below it.
        `found = %runs --sort loss` keeps the table: `found[3]` is run 3, `found.to_csv("runs.csv")` exports it.
        """
        __tracebackhide__ = True
        args = parse(self.runs, line)
        shown = runs().filter(tag=args.tag)
        if args.name is not None:
            shown = shown.filter(lambda run: run.name == args.name)
        if args.sort is not None:
            shown = shown.sort(args.sort, args.descending)
        return (shown if args.n is None else shown[: max(args.n, 0)]).show(*args.columns)

    @no_var_expand
    @magic_arguments()
    @argument("runs", nargs="+", metavar="RUN", help="the number of a recorded run, or the name of a Run")
    @line_magic
    def compare(self, line: str) -> Comparison:
        """Show runs side by side: curves, and settings that differ. The same from Python: `wb.compare(a, b, c)`."""
        __tracebackhide__ = True
        args = parse(self.compare, line)
        return compare(*map(self._run, args.runs))

    def _run(self, text: str) -> Run | int:
        if text.isdecimal():
            return int(text)
        value = self.session.namespace.get(text)
        if isinstance(value, Run):
            return value
        what = "there is no such name" if value is None else f"it is of type {type(value).__name__}"
        raise UsageError(f"%compare takes numbers of runs, see %runs, or names of Runs; {text!r}: {what}")


def comparable(names: dict[str, Any]) -> list[str]:
    """What may stand behind %compare."""
    return [name for name, value in names.items() if isinstance(value, Run)] + [str(run.number) for run in runs()]
