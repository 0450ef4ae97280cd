"""The steps of a training run, one after the other, and the evaluations between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from workbench.data.loader import DataLoader
from workbench.errors import InvalidArgument
from workbench.experiments.run import Run
from workbench.experiments.run_state import Evaluated
from workbench.experiments.runners import Runner, guarded, settle, working
from workbench.experiments.training.loops.batches import batches_of, close, feed_names, feed_of, length_of
from workbench.experiments.training.loops.kept import KeptFiles
from workbench.experiments.training.loops.position import Position
from workbench.experiments.training.loops.validation import Validation
from workbench.framework.program.program import Program
from workbench.optimizer.lr import ReduceOnPlateau
from workbench.runtime.storage.scope import Scope

if TYPE_CHECKING:
    from workbench.experiments.first_nan import NaNGuard


class Resumable(Protocol):
    """An observer that keeps checkpoints and goes on with a resumed run."""

    def state(self) -> KeptFiles:
        """What goes into a checkpoint, so that the run that goes on from it keeps the same ones."""

    def go_on(self, state: KeptFiles | None, run: Run) -> None:
        """Go on from what a checkpoint held of `state`."""

    def may_look(self, step: int, ends_pass: bool) -> bool:
        """Whether it may have to save behind a step."""


class Parts(NamedTuple):
    """What a loop is made of, see `TrainingLoop`."""

    program: Program
    loader: Iterable[Any]
    labels: dict[str, str]
    executor: Runner
    scope: Scope
    validation: Validation | None


class TrainingLoop:
    """The steps of a run, one after the other.

    Attributes:
        passes: how many over the loader at most, None for any number.
        validation: evaluated after every pass and the last step, or after `valid_every` steps; None for never.
        keeper: of checkpoints, None if none are kept.
        guard: is told of steps with a NaN or an Inf, None if nobody is.
        done, batches: passes done, and batches taken in the one that has begun.
        is_adrift: batches and schedules are ahead of the steps that are known, for good: the run has failed there.
        metric: sum and number of the first fetches since the schedulers took a step, where one follows them.
    """

    def __init__(
        self,
        program: Program,
        loader: Iterable[Any],
        labels: dict[str, str],
        executor: Runner,
        scope: Scope,
        lr_step: str,
        passes: int | None,
        validation: Validation | None,
        valid_every: int | None,
    ) -> None:
        self.program, self.loader, self.labels = program, loader, labels
        self.executor, self.scope, self.lr_step = executor, scope, lr_step
        self.passes, self.validation, self.valid_every = passes, validation, valid_every
        self.keeper: Resumable | None = None
        self.guard: NaNGuard | None = None
        self.done = self.batches = 0
        self.is_adrift = False
        self.metric = (0.0, 0)
        schedulers = program.lr_schedulers.values()
        self._is_followed = lr_step != "never" and any(isinstance(s, ReduceOnPlateau) for s in schedulers)
        self._feeds = feed_names(program)

    def attend(self, guard: NaNGuard, keeper: Resumable | None) -> None:
        """Have these look at the run that works here; before it begins."""
        self.guard, self.keeper = guard, keeper

    @property
    def length(self) -> int | None:
        """Number of batches of one pass, None if the loader does not tell."""
        return length_of(self.loader)

    def position(self, run: Run) -> Position:
        """Where the run is, between two steps."""
        kept = None if self.keeper is None else self.keeper.state()
        return Position(
            run.step, self.done, self.batches, self.metric, run.history, run.validated, run.val_labels, kept
        )

    @property
    def val_labels(self) -> tuple[str, ...]:
        """What evaluations give is recorded as."""
        return () if self.validation is None else tuple(self.validation.labels)

    def go_on(self, run: Run, at: Position) -> None:
        """Begin there, instead of at the beginning."""
        self.done, self.batches, self.metric = at.passes, at.batches, at.metric
        run.begin_at(at.step, at.passes, at.history, at.validated, at.val_labels)
        if self.keeper is not None:
            self.keeper.go_on(at.kept, run)

    def work(self, run: Run) -> Iterator[dict[str, float]]:
        """Run steps; yields what was fetched after each, and what evaluations found."""
        dismiss = guarded(self.executor, self.guard) if self.guard is not None else None
        if run.early is not None:
            run.early.begin()
        try:
            with working(self.executor, self.scope):
                yield from self._evaluate(run)  # a checkpoint may stand between a step and its evaluation
                yield from self._steps(run)
        finally:
            if dismiss is not None:
                dismiss()

    def _steps(self, run: Run) -> Iterator[dict[str, float]]:
        """All of them, with the evaluations between them."""
        while not self._ends(run):
            yield from self._epoch(run)

    def _ends(self, run: Run) -> bool:
        """Whether no further step is wanted; an evaluation may have ended since the run is to stop."""
        return run.is_stopping or self._is_over(run, run.step, self.done)

    def _is_over(self, run: Run, step: int, done: int) -> bool:
        is_enough = run.steps is not None and step >= run.steps
        return is_enough or (self.passes is not None and done >= self.passes)

    def _epoch(self, run: Run) -> Iterator[dict[str, float]]:
        length, before = self.length, self.batches
        batches, count = batches_of(self.loader), before
        try:
            for count, batch in enumerate(self._left_of(batches, before), before + 1):
                metrics = self._step(batch)
                self.batches = count
                if count == length:
                    self._end_of_pass(run)
                yield metrics
                if self.validation is not None:
                    yield from self._evaluate(run)
                if self._ends(run):
                    return
        finally:
            close(batches)
        if count == 0:
            raise nothing_given()
        if length is None or count < length:
            self._end_of_pass(run)
            yield from self._evaluate(run)

    def _left_of(self, batches: Iterator[Any], taken: int) -> Iterator[Any]:
        """What is left of a pass; a DataLoader goes on by itself."""
        return batches if isinstance(self.loader, DataLoader) else itertools.islice(batches, taken, None)

    def _end_of_pass(self, run: Run) -> None:
        self._count_pass(run)
        self._advance("epoch")

    def _count_pass(self, run: Run) -> None:
        self.done, self.batches = self.done + 1, 0
        run.complete_epoch()

    def _evaluate(self, run: Run) -> Iterator[Evaluated]:
        if not self._is_due(run, run.step, self.batches == 0, self.done):
            return
        assert self.validation is not None
        settle(self.executor, self.scope)
        means = self.validation.evaluate(lambda: run.is_stopping)
        if means is not None:
            yield Evaluated(means)

    def _is_due(self, run: Run, step: int, ends_pass: bool, done: int) -> bool:
        """Whether there is a step to evaluate after, which has not been."""
        if self.validation is None or step == 0 or run.validated[-1:] == [step]:
            return False
        is_due = ends_pass if self.valid_every is None else step % self.valid_every == 0
        return is_due or self._is_over(run, step, done)

    def _step(self, batch: Any) -> dict[str, float]:
        values = self.executor.run(
            self.program, feed=feed_of(batch, self._feeds), fetch_list=list(self.labels.values()), scope=self.scope
        )
        metrics = self._means(values)
        self._advance("step")
        return metrics

    def _means(self, values: Sequence[Any]) -> dict[str, float]:
        """What is recorded of a step, of what was fetched."""
        metrics = {label: float(np.mean(value)) for label, value in zip(self.labels, values, strict=True)}
        if self._is_followed:
            total, count = self.metric
            self.metric = total + next(iter(metrics.values())), count + 1
        return metrics

    def _advance(self, when: str) -> None:
        if self.lr_step != when:
            return
        for scheduler in self.program.lr_schedulers.values():
            if isinstance(scheduler, ReduceOnPlateau):
                total, count = self.metric
                scheduler.step(total / count)
            else:
                scheduler.step()
        self.metric = (0.0, 0)


def nothing_given() -> InvalidArgument:
    """Of a loader without a batch."""
    return InvalidArgument(
        "the loader gave no batch; a generator is used up after one pass - train takes something that can be "
        "iterated over again, such as a DataLoader or a list"
    )
