"""`%profile_step`."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from workbench.magics.arguments import parse
from workbench.notebook.profiling import SHOWN, StepProfile, profile_step
from workbench.notebook.session import Session


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
    @line_magic
    def profile_step(self, line: str) -> StepProfile:
        """Run one step and show which ops took longest, on which device, and the lines that built them.

        It is a step like any other: a training program is trained by it. The result holds the profile:
        `found = %profile_step exe feed`, then `found.profile.export_chrome_trace("step.json")`.
        """
        __tracebackhide__ = True
        args = parse(self.profile_step, line)
        return profile_step(self.session.own(), args.executor, args.feed, args.n)
