"""A binding with what its steps need beside it: what is fetched, the step as one call, what observers look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.fetching.collect import Collector
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.operands import Declined
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.running.team_trial import TeamTrial, TeamTrials
from workbench.executors.running.transaction import explain
from workbench.executors.running.watching.telltales import Telltales
from workbench.executors.running.watching.watch import Watching
from workbench.executors.running.whole_step import WholeStep, whole_step
from workbench.framework.outside import is_from_outside
from workbench.framework.quiet import quiet_context
from workbench.runtime.blas import one_blas_thread
from workbench.runtime.ending import require_time, the_end

_task_of = attrgetter("task")


class LedPrograms(NamedTuple):
    """What is run of a binding where nobody helps its threads."""

    speculative: Sequence[ThreadProgram]
    commit: Sequence[ThreadProgram]


class BoundStep:
    """The steps of certain fetches and shapes: what an engine keeps of them.

    Args:
        training: the devices depend on each other. loss: the variable that is trained, None to look at all fetches.
        trials: of the teams of an engine's steps.

    Attributes:
        collector: of the fetches. watching: what observers have prepared.
        has_run: whether a first step has run in parts, and the next is no team's; whole: the step as one call, where
            there is such from then on.
        is_open: whether a speculation has begun and did not come to its end: flags may be up.
        wanting: seconds a step is estimated to take, if another plan is expected to be quicker; else 0.
        team: whether threads that share nodes are of use, None where there are none; alone: what is run without them.
    """

    def __init__(
        self, binding: Binding, training: bool, loss: str | None, trials: TeamTrials, wanting: float = 0.0
    ) -> None:
        self.binding, self._loss, self.wanting = binding, loss, wanting
        self.collector = Collector(binding, training)
        self.watching = Watching(binding)
        self.whole: WholeStep | None = None
        self.has_run = self.is_open = False
        self.team = TeamTrial(trials) if binding.has_team else None
        self.alone = LedPrograms(binding.led(binding.speculative), binding.led(binding.commit))
        self._is_native = all(program.is_native for program in binding.speculative)
        run = binding.pool.run
        self._run: Callable[..., Any] = partial(one_blas_thread.run, run) if binding.calls_blas else run

    @cached_property
    def telltales(self) -> Telltales:
        """What is looked at for NaN and Inf."""
        return Telltales(self.binding, self._loss)

    def speculate(self, programs: Sequence[ThreadProgram]) -> None:
        """Run everything but the commit.

        Args:
            programs: the binding's, plain or watched.

        Raises:
            Declined: a device has left rows to the host.
            EnforceNotMet: an op failed; it names device, op, inputs and the line that built it.
            Unavailable: a thread has not come to an end in time; names it and the op it is at. Or the process ends.
        """
        if the_end.has_come:
            require_time()
        self.is_open = True
        try:
            own = programs is self.binding.speculative or programs is self.alone.speculative
            tasks = list(map(_task_of, programs))
            if own and self._is_native:
                self._run(tasks)
            else:
                one_blas_thread.run(quiet_context().run, self.binding.pool.run, tasks)
            self.is_open = False
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, Declined) or is_from_outside(error):
                self.reset()
                raise
            explained = explain(self.binding, programs, error)
            self.reset()
            if explained is error:
                raise
            raise explained from error

    def join(self, counter: np.ndarray, ballot: np.ndarray | None) -> None:
        """From the next step on run it as one call where that is possible, and unless a team does.

        Args:
            counter: one int64 that counts the steps that have been applied. ballot: see `WholeStep`.
        """
        self.has_run, self.whole = True, whole_step(self.binding, self.collector, counter, ballot)

    def part(self) -> None:
        """What it is joined for is not so any more: the next step runs in parts, and is looked at again."""
        self.whole, self.has_run = None, False

    def reset(self) -> None:
        """After a step that failed: no thread is at it, no flag up, no object kept."""
        self.binding.reset()
        self.watching.rewind()
        if self.whole is not None:
            self.whole.close()
        self.is_open = False
