"""`train`: the one training loop."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from workbench.data.loader import DataLoader
from workbench.errors import InvalidArgument, InvalidType, Unavailable
from workbench.executors.compiled import CompiledProgram
from workbench.executors.parallel import ParallelExecutor
from workbench.experiments import recorder
from workbench.experiments.checkpoints import Position, read_checkpoint, write_checkpoint
from workbench.experiments.progress import show_progress
from workbench.experiments.run import Run
from workbench.experiments.runners import Runner, runner_of
from workbench.experiments.runs_file import RunsFile
from workbench.experiments.settings import settings_of
from workbench.framework.notice import tell
from workbench.framework.program import Program
from workbench.framework.variable import Variable
from workbench.optimizer.lr import ReduceOnPlateau
from workbench.runtime.scope import Scope

_numbers = itertools.count(1)


def train(
    program: Program,
    loader: Iterable[Any],
    steps: int | None = None,
    epochs: int | None = None,
    fetch: Sequence[Variable | str] | Mapping[str, Variable | str] = (),
    startup: Program | None = None,
    executor: Runner | ParallelExecutor | CompiledProgram | None = None,
    scope: Scope | None = None,
    on_step: Callable[[Run], None] | None = None,
    lr_step: Literal["step", "epoch", "never"] = "step",
    progress: bool | None = None,
    name: str | None = None,
    record: bool | str | os.PathLike[str] = True,
    settings: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    paused: bool = False,
) -> Run:
    """Train a program on a background thread; returns at once.

    The run is recorded: see `runs()`. Where that is not possible one notice says why, and training goes on.

    Args:
        program: the main program, with its update ops.
        loader: gives batches and can be iterated over once per epoch: dicts {feed: array}, or lists in the order in
            which the program declared its feeds.
        steps: how many steps; epochs: how many passes over the loader. One pass if neither is given.
        fetch: what to record of every step: Variables or names, or {label: Variable}.
        startup: gives the variables it initialises, where they have no value yet, their first one.
        executor: `Executor(CPUPlace())` by default; a ParallelExecutor or a CompiledProgram of
            the program trains on several devices.
        scope: where the parameters are; that executor's own, or `global_scope()` of the caller by default.
        on_step: called with the run, on the training thread, after every step.
        lr_step: when the program's learning-rate schedulers take a step. `ReduceOnPlateau` is given the first
            variable in `fetch`: its value in this step, or its mean over the epoch ("epoch", which it is meant for).
        progress: a progress bar always, never, or (None) in a terminal or notebook.
        name: what the bar and `runs()` call the run.
        record: False records nothing; a path is the file to record in, the user's own by default.
        settings: more settings to record, of your own: JSON types.
        checkpoint: what `Run.save` wrote: go on from there, bit for bit, up to the same `steps` or `epochs`.
        paused: wait before the first step for `run.resume()`, or `run.advance()`.

    Returns:
        the running Run; `run.wait()` waits for its end.

    Raises:
        InvalidType, InvalidArgument: an argument is wrong, the checkpoint is of something else. What fails later is
            raised by `run.wait()`.
    """
    if not isinstance(program, Program):
        raise InvalidType(f"train takes a Program, got {program!r}")
    for what, count in (("steps", steps), ("epochs", epochs)):
        if count is not None and (not isinstance(count, int) or count < 0):
            raise InvalidArgument(f"train takes a number >= 0 as {what}, got {count!r}")
    if lr_step not in ("step", "epoch", "never"):
        raise InvalidArgument(f"train takes 'step', 'epoch' or 'never' as lr_step, got {lr_step!r}")
    file = _file(record)
    runner, scope = runner_of(executor, program, scope)
    loop = Loop(program, loader, _labels(fetch), runner, scope, lr_step)
    _check_metric(program, loop.labels, lr_step)
    _check_batches(loader, loop.executor)
    loop.passes = epochs if epochs is not None else (1 if steps is None else None)
    run = Run(name or program.name or f"run {next(_numbers)}", lambda run: loop.work(), _total(loader, steps, epochs))
    run.write_checkpoint = lambda path: write_checkpoint(loop, loop.position(run), path)
    if on_step is not None:
        run.subscribe(on_step)
    restorable = None if checkpoint is None else read_checkpoint(loop, checkpoint)
    if startup is not None:
        loop.initialise(startup)
    if restorable is not None:
        restorable.apply()
        loop.go_on(run, restorable.position)
    show_progress(run, progress)
    if file is not None:
        asked = {"steps": steps, "epochs": epochs, "fetch": list(loop.labels), "lr_step": lr_step}
        recorder.record(run, settings_of(program, loader, runner, scope, asked, own=settings or {}), file)
    run.executor, run.program, run.loader, run.fetch = executor or runner, program, loader, dict(loop.labels)
    if paused:
        run.pause()
    return run.start()


def _file(record: bool | str | os.PathLike[str]) -> RunsFile | None:
    """The file to record in; None if nothing is to be, or, with a notice, if there can be none."""
    if record is False:
        return None
    try:
        return RunsFile(None if isinstance(record, bool) else record)
    except Unavailable as error:
        tell(f"training goes on and cannot be recorded: {error}")
        return None


def length_of(loader: Iterable[Any]) -> int | None:
    """Number of batches of one pass, None if the loader does not tell."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


def _total(loader: Iterable[Any], steps: int | None, epochs: int | None) -> int | None:
    """Number of steps, None if the loader does not tell its length."""
    per_pass = length_of(loader)
    if per_pass is None:
        return steps
    by_epochs = per_pass * (epochs if epochs is not None else 1)
    if steps is None:
        return by_epochs
    return steps if epochs is None else min(steps, by_epochs)


def _labels(fetch: Any) -> dict[str, str]:
    """{label: variable name}."""
    if isinstance(fetch, Variable | str):
        fetch = [fetch]
    if not isinstance(fetch, Mapping | Iterable):
        raise InvalidType(f"train takes a list or dict of Variables or names as fetch, got {fetch!r}")
    items = fetch.items() if isinstance(fetch, Mapping) else [(None, f) for f in fetch]
    found = {}
    for label, value in items:
        if not isinstance(value, Variable | str):
            raise InvalidType(f"train takes Variables or names in fetch, got {value!r}")
        variable = value if isinstance(value, str) else value.name
        found[label or variable] = variable
    return found


def _check_metric(program: Program, labels: dict[str, str], lr_step: str) -> None:
    for name, scheduler in program.lr_schedulers.items():
        if isinstance(scheduler, ReduceOnPlateau) and not labels and lr_step != "never":
            raise InvalidArgument(
                f"the learning rate {name!r} is a ReduceOnPlateau, which follows a metric: name it first in fetch, as "
                "in fetch=[loss]; or pass lr_step='never' and call its step(metric) yourself"
            )


def _check_batches(loader: Any, executor: Any) -> None:
    """Refuse, before anything runs, a loader whose batches are too small for the executor's devices."""
    check = getattr(loader, "check_devices", None)
    if check is not None:
        check(getattr(executor, "device_count", 1))


class Loop:
    """The steps of a run, one after the other."""

    def __init__(
        self,
        program: Program,
        loader: Iterable[Any],
        labels: dict[str, str],
        executor: Runner,
        scope: Scope,
        lr_step: str,
    ) -> None:
        self.program, self.loader, self.labels = program, loader, labels
        self.executor, self.scope, self.lr_step = executor, scope, lr_step
        self.passes: int | None = None
        self.done = self.batches = 0  # passes, and batches of the one that has begun
        schedulers = program.lr_schedulers.values()
        self._is_followed = lr_step != "never" and any(isinstance(s, ReduceOnPlateau) for s in schedulers)
        self.metric = (0.0, 0)  # sum and number of the first fetches since the schedulers took a step, if one follows
        self.feeds = [v.name for v in program.global_block().vars.values() if v.is_data]

    @property
    def length(self) -> int | None:
        """Number of batches of one pass, None if the loader does not tell."""
        return length_of(self.loader)

    def initialise(self, startup: Program) -> None:
        """Give what the startup program sets, and has no value yet, its first value; the rest keeps its own."""
        names = [v.name for v in startup.persistables()]
        missing = [n for n in names if not self._has_value(n)]
        if not missing:
            return
        fresh = Scope()
        self.executor.run(startup, feed=None, fetch_list=None, scope=fresh)
        with self.scope.exclusive():
            for made in (fresh.vars[name] for name in missing if name in fresh.vars):
                target = self.scope.find_var(made.name) or self.scope.root.var(made.name)
                target.tensor.take(made.tensor.array)
                target.owner = made.owner

    def _has_value(self, name: str) -> bool:
        found = self.scope.find_var(name)
        return found is not None and found.tensor.initialized

    def position(self, run: Run) -> Position:
        """Where the run is, between two steps."""
        return Position(run.step, self.done, self.batches, self.metric, run.history)

    def go_on(self, run: Run, at: Position) -> None:
        """Begin there, instead of at the beginning; what was not recorded so far is NaN in the steps before."""
        self.done, self.batches, self.metric = at.passes, at.batches, at.metric
        run.step, run.history = at.step, at.history
        for label in self.labels:
            values = run.history.setdefault(label, [])
            values += [math.nan] * (at.step - len(values))

    def work(self) -> Iterator[dict[str, float]]:
        """Run steps; yields what was fetched after each."""
        while self.passes is None or self.done < self.passes:
            yield from self._epoch()

    def _epoch(self) -> Iterator[dict[str, float]]:
        length, before = self.length, self.batches
        batches, count = iter(self.loader), before
        try:
            left = batches if isinstance(self.loader, DataLoader) else itertools.islice(batches, before, None)
            for count, batch in enumerate(left, before + 1):
                found = self._step(batch)
                self.batches = count
                if count == length:  # a run that ends with this step does not come back here
                    self._end_of_pass()
                yield found
        finally:
            _close(batches)
        if count == 0:
            raise InvalidArgument(
                "the loader gave no batch; a generator is used up after one pass - train takes something that can be "
                "iterated over again, such as a DataLoader or a list"
            )
        if length is None or count < length:
            self._end_of_pass()

    def _end_of_pass(self) -> None:
        self.done, self.batches = self.done + 1, 0
        self._advance("epoch")

    def _step(self, batch: Any) -> dict[str, float]:
        values = self.executor.run(
            self.program, feed=self._feed(batch), fetch_list=list(self.labels.values()), scope=self.scope
        )
        found = {label: float(np.mean(value)) for label, value in zip(self.labels, values, strict=True)}
        if self._is_followed:
            total, count = self.metric
            self.metric = total + next(iter(found.values())), count + 1
        self._advance("step")
        return found

    def _feed(self, batch: Any) -> Mapping[str, Any]:
        if isinstance(batch, Mapping):
            return batch
        if not isinstance(batch, list | tuple):
            raise InvalidType(f"the loader must give dicts or lists of arrays, got {type(batch).__name__}")
        if len(batch) != len(self.feeds):
            raise InvalidArgument(
                f"the loader gave {len(batch)} arrays for the {len(self.feeds)} feeds of the program: "
                f"{', '.join(self.feeds)}"
            )
        return dict(zip(self.feeds, batch, strict=True))

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


def _close(batches: Iterator[Any]) -> None:
    """End the prefetch thread of an epoch that is left early."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()
