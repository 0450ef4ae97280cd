"""Run: training on a background thread that can be paused, resumed, stopped and waited for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from workbench import between
from workbench.errors import InvalidArgument, NotFound, PreconditionNotMet, add_line, did_you_mean
from workbench.executors.profiling.sampled_steps import EarlyStep
from workbench.experiments.first_nan import FirstNaN
from workbench.experiments.run_state import FINISHED, Evaluated, State, Underway
from workbench.experiments.steered import POLL_S, Steered, seconds_of
from workbench.framework.paths import path_text
from workbench.framework.text.printable import printable
from workbench.parallel.cluster.rank_errors import RankLost
from workbench.runtime.ending import the_end


class Run(Steered):
    """A training run.

    Attributes:
        name: what progress displays call it.
        state: `ready`, `running`, `paused`, `stopped`, `done` or `failed`.
        step: steps completed; steps: steps asked for, None for as many as the loader gives.
        epoch: passes over the loader completed; epochs: passes asked for, None if only steps count.
        history: {fetched name: [value of every step]}; values are floats, the mean where a fetch has several elements.
        validated: the steps after which validation data were evaluated; val_labels: the names in `history` that have
            one value for each of these instead of one for every step.
        error: the exception that ended the run, None if none did.
        first_nan: the first step with a NaN or an Inf in its loss or its gradients, None if there was none.
        seconds: time spent running, pauses left out.
        early: samples one of the first steps, for whoever looks at the run later; None where nothing is told of steps.
        checkpoints: (step, path) of those that were written and are kept, in the order of writing.
        best_model_path, best_model_score, last_model_path: of the checkpoints that `train` was told to keep.
        executor: what runs the steps, where `train` was told; setup: the `Setup` it was started from, if any.
        target, loader, fetch: what `train` was given, fetch as {label: variable name}. program: that runs: the target,
            or what was recorded of it; None if nothing could be. scope: where its values are.
        again: trains the same once more, with options of `train` that are changed; None of what `train` did not begin.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Run], Iterator[dict[str, float]]],
        steps: int | None,
        epochs: int | None = None,
    ) -> None:
        super().__init__()
        self.name, self.steps = name, steps
        self.epoch = 0
        self.epochs = epochs
        self.history: dict[str, list[float]] = {}
        self.validated: list[int] = []
        self.val_labels: tuple[str, ...] = ()
        self.error: BaseException | None = None
        self.first_nan: FirstNaN | None = None
        self.early: EarlyStep | None = None
        self.seconds = 0.0
        self.write_checkpoint: Callable[[str | os.PathLike[str]], None] | None = None
        self._is_of_several = False
        self.checkpoints: list[tuple[int, str]] = []
        self.best_model_path: str | None = None
        self.best_model_score: float | None = None
        self.last_model_path: str | None = None
        self.setup: Any = None
        self.executor: Any = None
        self.program: Any = None
        self.loader: Any = None
        self.target: Any = None
        self.fetch: dict[str, str] = {}
        self.scope: Any = None
        self.again: Callable[..., Run] | None = None
        self._first = 0  # steps that another run had made, from whose checkpoint this one goes on
        self._work = work
        self._observers: list[Callable[[Run], None]] = []
        self._is_underway = False  # what was yielded last has steps behind it that have been begun
        self._lookers = 0  # of them those that want the run at rest
        self._enough = False
        self._outcome: State | None = None
        self._ended = False
        self._is_elsewhere = False
        self._seen = False
        self._thread = threading.Thread(target=self._main, name=f"workbench run {name}", daemon=True)

    @property
    def state(self) -> State:
        """Where the run stands. One thread writes each flag behind it, so it is never left between two."""
        if self._outcome is not None:
            return self._outcome
        if not self._started:
            return State.READY
        return State.PAUSED if self._holds and not (self._stopping or self._is_underway) else State.RUNNING

    @property
    def is_looked_at(self) -> bool:
        """Whether somebody looks at what every step leaves behind; see `subscribe`."""
        return self._lookers > 0

    def trains(
        self, program: Any, loader: Any, fetch: dict[str, str], executor: Any, target: Any, scope: Any = None
    ) -> None:
        """Note what it is a run of."""
        self.program, self.loader, self.fetch, self.executor = program, loader, dict(fetch), executor
        self.target, self.scope = target, scope

    def goes_on_by(self, again: Callable[..., Run]) -> None:
        """Note what trains the same once more."""
        self.again = again

    def saves_by(self, write: Callable[[str | os.PathLike[str]], None], is_of_several: bool = False) -> None:
        """Have checkpoints written by `write(path)`, which several processes may call together."""
        self.write_checkpoint, self._is_of_several = write, is_of_several

    def begin_at(
        self, step: int, epoch: int, history: dict[str, list[float]], validated: list[int], val_labels: tuple[str, ...]
    ) -> None:
        """Be where another run was, before the beginning; the values are as in the attributes."""
        self.step, self.epoch, self.history, self._first = step, epoch, history, step
        self.validated, self.val_labels = validated, val_labels

    def complete_epoch(self) -> None:
        """Note that another pass over the loader is complete."""
        self.epoch += 1

    def start(self) -> Run:
        """Begin; returns the run itself.

        Raises:
            PreconditionNotMet: it was started before.
        """
        if self._started:
            raise PreconditionNotMet(f"run {self.name!r} was started before; it is {self.state}")
        self._started = True
        the_end.ends_loop(self)
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C, or no more threads: a thread that comes up nevertheless makes no step
            self._stopping = True
            if self._thread.ident is None:
                self._outcome, self._ended = State.STOPPED, True
            raise
        return self

    def end(self, seconds: float) -> None:
        """The process ends: stop, and wait at most so long for the step in flight."""
        self.stop()
        deadline = time.monotonic() + seconds
        while not self._ended and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def stay_behind(self) -> None:
        """This is a child process, to which the thread of the run has not come along: here no further step is made."""
        if not self._ended:
            self._is_elsewhere = True
            self._outcome, self._ended = State.STOPPED, True

    def _require_here(self, what: str) -> None:
        if self._is_elsewhere:
            raise PreconditionNotMet(
                f"run {self.name!r} goes on in the process this one was forked from, and cannot be {what} here; do "
                "that there, or start another run"
            )

    def save(self, path: str | os.PathLike[str] | None = None, timeout: float = 60.0) -> str:
        """Write a checkpoint at the next step boundary, from which `resume` goes on bit for bit.

        Of several trainers all save at the same step, in `on_step` or behind `wait()`, into one folder.

        Args:
            path: is replaced whole; `{step}` in it stands for the number of the step. By default the name of the run
                and the step, in the current folder.
            timeout: seconds to wait for the boundary.

        Returns:
            the path.

        Raises:
            PreconditionNotMet: it was not started by `train`, or this process was forked from the one in which it goes
                on, or several trainers are in the middle of it. TimeoutError: the step in flight takes longer.
            InvalidArgument: the trainers save different steps, or into different folders.
            OSError: it cannot be written; a file that was there is unchanged, and the run goes on.
        """
        if self.write_checkpoint is None:
            raise PreconditionNotMet(f"run {self.name!r} was not started by train and cannot be saved")
        self._require_here("saved")
        self._require_together()
        template = _file_name(self.name) if path is None else path_text(path)
        deadline, saver = time.monotonic() + seconds_of("timeout", timeout), object()
        try:
            if not (self.is_here() or self._is_let_in(saver, deadline) or not self._started):
                raise TimeoutError(f"run {self.name!r} did not come to a step boundary within {timeout:g} s")
            written = template.replace("{step}", str(self.step))
            self.write_checkpoint(written)
            self.add_checkpoint(self.step, written)
            return written
        finally:
            self._savers[:] = [other for other in self._savers if other is not saver]

    def _require_together(self) -> None:
        if self._is_of_several and self._started and not (self.is_here() or self._ended):
            raise PreconditionNotMet(
                f"run {self.name!r} is made by several trainers, which are not all at one step here; save on all of "
                "them in on_step, at the same step, or behind wait(), or have train keep checkpoints="
            )

    def add_checkpoint(self, step: int, path: str) -> None:
        """Note a checkpoint that has been written; what was in that file before is not there any more."""
        self.checkpoints = [*(known for known in self.checkpoints if known[1] != path), (step, path)]

    def drop_checkpoint(self, path: str) -> None:
        """Note that a checkpoint is not kept."""
        self.checkpoints = [known for known in self.checkpoints if known[1] != path]

    def keeps(self, best: tuple[float, str] | None, last: str | None) -> None:
        """Note which of the checkpoints that `train` was told to keep is the best, (score, path), and the last."""
        self.best_model_score, self.best_model_path = best or (None, None)
        self.last_model_path = last

    def curve(self, label: str) -> tuple[list[int], list[float]]:
        """The steps that have a value of this name in `history`, and the values.

        Raises:
            NotFound: there is none.
        """
        if label not in self.history:
            raise NotFound(f"run {self.name!r} has no values of {label!r}.{did_you_mean(label, self.history)}")
        values = list(self.history[label])
        steps = list(self.validated) if label in self.val_labels else list(range(1, len(values) + 1))
        count = min(len(steps), len(values))
        return steps[:count], values[:count]

    def stop_early(self) -> None:
        """End at the next step boundary as `done`: nothing more is wanted of it."""
        self._enough = True
        self.stop()

    def wait(self, timeout: float | None = None) -> Run:
        """Wait until the run has ended.

        Ctrl-C, or interrupting the cell, stops the run at a step boundary and is then raised, so that what follows does
        not go on with half a training; the run keeps what it has, and `resume` goes on from its `save()`.

        Args:
            timeout: seconds; None waits as long as it takes.

        Returns:
            the run.

        Raises:
            TimeoutError: it is still going on (it continues).
            KeyboardInterrupt: of Ctrl-C, after the step in flight; at once if it comes a second time.
            PreconditionNotMet: it was not started, an observer waits for its own run, or this process was forked from
                the one in which it goes on.
            Exception: what made the run fail, raised here once with its own traceback.
        """
        if not self._started:
            raise PreconditionNotMet(f"run {self.name!r} was not started")
        self._require_here("waited for")
        if self.is_here():
            raise PreconditionNotMet(f"run {self.name!r} cannot wait for itself; call wait() outside its observers")
        deadline = None if timeout is None else time.monotonic() + seconds_of("timeout", timeout)
        try:
            while not self._ended:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"run {self.name!r} is {self.state} at step {self.step} after {timeout} s")
                between.rest(POLL_S)
        except KeyboardInterrupt as interrupt:
            self.stop()
            while not self._ended:  # a second Ctrl-C leaves here; the step in flight applies whole or not at all
                between.rest(POLL_S)
            interrupt.args = (f"run {self.name!r} was stopped after step {self.step}",)
            raise
        if self.error is not None and not self._seen:
            self._seen = True
            raise self.error
        return self

    def _way_on(self) -> str:
        """What to type when the processes that made the steps are gone."""
        if self.checkpoints:
            step, path = self.checkpoints[-1]
            return f"then the same call with checkpoint={path!r} goes on from step {step:,}"
        return (
            "then the same call begins again where this run began, for no checkpoint of it had been written; "
            "checkpoints='FOLDER' has train write them"
        )

    @property
    def finished(self) -> bool:
        """Whether no further step will come."""
        return self.state in FINISHED

    def is_here(self) -> bool:
        """Whether the caller is on the thread of this run."""
        return threading.current_thread() is self._thread

    @property
    def last(self) -> dict[str, float]:
        """The newest value of everything fetched."""
        return {name: values[-1] for name, values in self.history.items() if values}

    @property
    def steps_per_second(self) -> float:
        """Completed steps by time spent running."""
        return (self.step - self._first) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long it takes to make the steps that are left, as fast as those so far; None where that is not known."""
        if self.steps is None or not self.steps_per_second:
            return None
        return max(self.steps - self.step, 0) / self.steps_per_second

    def subscribe(self, observer: Callable[[Run], None], at_rest: bool = True) -> None:
        """Have `observer(run)` called on the training thread after every step, after every evaluation of validation
        data, then with the same `step` once more, and at the end.

        Args:
            at_rest: no other step has been begun when it is called, so that it may save and stop there. A cluster then
                makes one step at a time; False is for what only counts and draws, and lets it go ahead.

        An exception in an observer fails the run at that step boundary.
        """
        if not callable(observer):
            raise InvalidArgument(f"subscribe takes a function of the run, got {observer!r}")
        self._lookers += at_rest
        self._observers.append(observer)

    def _main(self) -> None:
        try:
            for values in self._timed(self._work(self)):
                if isinstance(values, Evaluated):
                    self.validated.append(self.step)
                    self.val_labels = tuple(dict.fromkeys((*self.val_labels, *values)))
                else:
                    self.step += 1
                for name, value in values.items():
                    self.history.setdefault(name, []).append(value)
                self._notify()
            is_cut = self._stopping and self.step != self.steps and not self._enough
            self._outcome = State.STOPPED if is_cut else State.DONE
        except BaseException as error:  # handed to wait(); a thread has nobody else to tell
            if isinstance(error, RankLost):
                add_line(error, self._way_on())
            self.error, self._outcome = error, State.FAILED
        finally:
            self._end()
            self._ended = True

    def _timed(self, work: Iterator[dict[str, float]]) -> Iterator[dict[str, float]]:
        """The steps of `work`, asked for only while the run may go on."""
        try:
            while self._is_underway or self._may_go_on():
                start = time.perf_counter()
                values = next(work, None)
                self._is_underway = isinstance(values, Underway)
                self.seconds += time.perf_counter() - start
                if values is None:
                    return
                yield values
        finally:
            close = getattr(work, "close", None)
            if close is not None:
                close()

    def _notify(self) -> None:
        for observer in tuple(self._observers):
            observer(self)

    def _end(self) -> None:
        """Tell every observer, also if one of them fails."""
        if self.early is not None:
            self.early.close()
        for observer in tuple(self._observers):
            try:
                observer(self)
            except BaseException as error:
                if self.error is None:
                    self.error, self._outcome = error, State.FAILED

    def __repr__(self) -> str:
        of = f" of {self.steps}" if self.steps is not None else ""
        shown = ", ".join(f"{k} {v:.4g}" for k, v in self.last.items())
        nan = f", {self.first_nan.title}" if self.first_nan is not None else ""
        return f"Run({self.name!r}: {self.state}, step {self.step}{of}{printable(', ' + shown) if shown else ''}{nan})"


def _file_name(name: str) -> str:
    """What the checkpoint of a run is called, without the characters that no file name has."""
    return "".join("-" if c in '/\\:*?"<>|{}' or ord(c) < 32 else c for c in name) + "-step-{step}.checkpoint"
