"""`%profile_step` and `%step`."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from workbench.magics.arguments import parse
from workbench.notebook.programs.session import Session
from workbench.notebook.steps.profiling import REPEAT, SHOWN, WARM_UP, StepProfile, profile_step
from workbench.notebook.steps.stepping import Stepped, advance, begin, going_on, require_count


@magics_class
class StepMagics(Magics):
    """The magics that look into a step."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @no_var_expand
    @magic_arguments()
    @argument("executor", help="the ParallelExecutor, or the CompiledProgram, to run")
    @argument("feed", help="the name of what to feed: a dict, or a list with a dict per device")
    @argument("-n", type=int, default=SHOWN, help=f"how many ops to show; default: {SHOWN}")
    @argument("--warm-up", type=int, default=WARM_UP, metavar="STEPS", help=f"before the first; default: {WARM_UP}")
    @argument("--repeat", type=int, default=REPEAT, metavar="STEPS", help=f"that are looked at; default: {REPEAT}")
    @line_magic
    def profile_step(self, line: str) -> StepProfile:
        """Run a step again and again, and show which ops, op types and layers take longest: medians, and their spread.

        They are steps like any other: a training program is trained by them, and by those to warm up and between
        (`--warm-up 0 --repeat 1` makes a single one). The result holds the profile: `found = %profile_step exe feed`,
        then `found.profile.export_chrome_trace("step.json")`.
        """
        __tracebackhide__ = True
        args = parse(self.profile_step, line)
        return profile_step(self.session.own(), args.executor, args.feed, args.n, args.warm_up, args.repeat)

    @no_var_expand
    @magic_arguments()
    @argument("executor", nargs="?", help="begin a step of this ParallelExecutor or CompiledProgram; else go on")
    @argument("feed", nargs="?", help="the name of what to feed: a dict, or a list with a dict per device")
    @argument("--until", metavar="WHAT", help="run up to this op type, variable or number of a node")
    @argument("--device", type=int, metavar="N", help="with --until: on this device")
    @argument("-n", type=int, default=1, help="how many nodes to run; default: 1")
    @argument("--all", action="store_true", help="run all nodes that are left")
    @argument("--as", dest="name", metavar="NAME", default="stepper", help="what the step is called; default: stepper")
    @line_magic
    def step(self, line: str) -> Stepped:
        """Run a step node by node, and show the nodes that have run.

        `%step exe feed` begins a step, `%step` goes on with it. Nothing is applied before `stepper.finish()`;
        `stepper.value(name, device)` shows any value, `stepper.where()` the position, `stepper.abort()` ends the step.
        """
        __tracebackhide__ = True
        args = parse(self.step, line)
        require_count(args.n)
        names = self.session.own()
        if args.executor is not None:
            names[args.name] = self.session.namespace[args.name] = begin(names, args.executor, args.feed, args.name)
        return advance(going_on(names, args.name), args.name, args.until, args.device, None if args.all else args.n)
