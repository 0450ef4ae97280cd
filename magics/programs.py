"""`%%static_program`, `%program` and `%train`."""

from __future__ import annotations

import keyword
import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from workbench.experiments import Run
from workbench.magics.arguments import parse
from workbench.notebook.programs.listing import Listing, Printed
from workbench.notebook.programs.session import Definition, Session
from workbench.notebook.steps.training import Asked, train


@magics_class
class ProgramMagics(Magics):
    """The magics of one shell."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @no_var_expand
    @magic_arguments("%static_program")  # help and errors print one more %
    @argument("name", help="the program is bound to this name; names made inside begin with NAME.")
    @argument("--startup", metavar="NAME", help="name of the startup program; default: NAME_startup")
    @argument("--test", metavar="NAME", help="also make a clone for testing, when the cell is done")
    @argument("--from", dest="source", metavar="NAME", help="extend a copy of this program, on the same parameters")
    @argument("--seed", type=int, help="random seed of both programs, for the same numbers every time")
    @argument("--quiet", action="store_true", help="show no summary")
    @cell_magic
    def static_program(self, line: str, cell: str) -> Any:
        """Build a static program from the cell, in static mode.

        Operators go to a new main program, initialisers to a new startup program. Running the cell again
        builds the same program anew, with the same names. If the cell raises, every name keeps its old value.
        With --from, names for variables of the original (or of other copies of it) come to mean the copy's.
        """
        __tracebackhide__ = True
        args = parse(self.static_program, line)
        startup = args.startup or f"{args.name}_startup"
        definition = Definition(args.name, startup, args.test, args.source, args.seed)
        self.session.check(definition)
        built = self.session.build(definition, f"%%static_program {line}".rstrip(), cell)
        if not args.quiet:
            display(built.summary)
        return None if built.ends_in_minimize else built.value  # the summary counts what minimize returns

    @no_var_expand
    @magic_arguments()
    @argument("name", nargs="?", help="the program to print; without it, the programs are listed")
    @argument("--details", action="store_true", help="with every attribute, and where each operator was built")
    @line_magic
    def program(self, line: str) -> None:
        """List the programs of this notebook, or print one as text."""
        __tracebackhide__ = True
        args = parse(self.program, line)
        if args.name is None:
            display(Listing.of(self.session.programs()))
        else:
            display(Printed.of(self.session.program(args.name), args.details))

    @no_var_expand
    @magic_arguments()
    @argument("name", help="a program; a Layer, with --loss and --optimizer; a step function, with --cluster")
    @argument("loader", help="what gives the batches: the name of a DataLoader or of another iterable")
    @argument("--steps", type=int, help="how many steps")
    @argument("--epochs", type=int, help="how many passes over the loader; 10 if neither is given")
    @argument("--devices", type=int, metavar="N", help="train on so many CPU devices")
    @argument(
        "--cluster", metavar="NAME", nargs="?", const="", help="train in a cluster: this one, or the one that runs"
    )
    @argument("--valid", metavar="NAME", help="what gives the batches of validation data, evaluated after every epoch")
    @argument("--valid-every", type=int, metavar="N", help="… or after so many steps")
    @argument("--checkpoints", metavar="FOLDER", help="where to keep the best checkpoint and the last one")
    @argument("--monitor", metavar="LABEL", help="what says which is best; default: the first value of the validation")
    @argument("--mode", choices=["min", "max"], help="whether its least or largest value is best; default: min")
    @argument("--fetch", nargs="+", metavar="VAR", default=[], help="what to record at every step; default: the loss")
    @argument("--loss", metavar="NAME", help="of a Layer: function of its output and the label, as in F.cross_entropy")
    @argument("--optimizer", metavar="NAME", help="of a Layer: the optimizer, made with its parameters")
    @argument("--stop-on-nan", action="store_true", help="end at the first NaN, in front of the step that makes it")
    @argument("--fresh", action="store_true", help="start over: every value anew, schedules at the first step")
    @argument(
        "--resume",
        metavar="RUN",
        nargs="?",
        const="",
        help="go on from the last checkpoint: of the newest run, or this one",
    )
    @argument("--quiet", action="store_true", help="show no progress")
    @line_magic
    def train(self, line: str) -> Run:
        """Train a program, or a Layer, and wait for the end.

        Interrupting stops it after the step in progress, and ends the cell. Parameters without a value are initialised
        first; of a program whose cell was changed and run again, what has another shape, initializer or optimizer is
        made anew, the rest goes on, and a line says which. The result is the run: `run = %train net loader`; with
        `%train run = net loader` the name is there while it trains, and after an interrupt. The steps
        of a Layer are recorded, as by jit.capture; --fetch takes functions of its output and the label. Of a step
        function --fetch names what it returns; for --valid it comes from a function that returns (step, layer,
        evaluate), see `cluster.train`.
        """
        __tracebackhide__ = True
        bound, line = _bound(line)
        args = parse(self.train, line)
        asked = Asked(
            args.steps, args.epochs, tuple(args.fetch), args.devices, args.valid, args.valid_every, args.checkpoints,
            args.monitor, args.mode, args.quiet, args.stop_on_nan, args.loss, args.optimizer, args.cluster,
            args.fresh, args.resume, bound, f"%train {_plain(line)}",
        )  # fmt: skip
        return train(self.session, args.name, args.loader, asked)


def _bound(line: str) -> tuple[str | None, str]:
    """The name in `name = net loader …`, None if there is none; and the rest.

    Raises:
        UsageError: it cannot be a name.
    """
    before, sign, rest = line.partition("=")
    if not sign or len(before.split()) != 1 or before.strip().startswith("-"):
        return None, line
    name = before.strip()
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot be the name of a run; use a Python name, as in %train run = net loader")
    return name, rest.strip()


def _plain(line: str) -> str:
    """A line without what holds for one time."""
    return re.sub(r"\s+--(fresh|resume(\s+[^\s-]\S*)?)(?=\s|$)", "", line).strip()
