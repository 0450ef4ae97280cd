"""`sweep`: a run for every combination of settings, which can be taken up again after a crash."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.experiments.launch.setup import SETTINGS, Setup, setup
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.records.recorder import record_of
from workbench.experiments.records.runs_file import RunsFile
from workbench.experiments.run import Run
from workbench.experiments.run_state import State
from workbench.experiments.tables.run_table import Runs, runs
from workbench.experiments.training.loops.progress import new_bar
from workbench.experiments.training.loops.settings import program_hash
from workbench.framework.program.program import Program
from workbench.framework.text.printable import escape

KEY, TRIAL = "sweep", "trial"  # settings under which a run of a sweep is found again


class Sweep:
    """The trials of a sweep, in order.

    Attributes:
        key: the same for the same setup and grid, in any process; what makes trials be found again.
        trials: the combinations, each {setting: value}.
        done: {index of a trial: its recorded run}.
        failed: {index of a trial: what it failed with}.
    """

    def __init__(self, base: Setup, grid: Mapping[str, Sequence[Any]], file: RunsFile) -> None:
        self.base, self.file = base, file
        self.trials = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        self._setups = [base.with_(**trial) for trial in self.trials]  # before anything runs: every value fits
        self.key = _key(base, self.trials)
        self.done: dict[int, RecordedRun] = {}
        self.failed: dict[int, Exception] = {}

    def find_done(self) -> None:
        """Look up which trials an earlier sweep of this key has finished."""
        for run in reversed(list(runs(self.file.path))):
            trial = run.settings.get(TRIAL)
            if run.settings.get(KEY) == self.key and isinstance(trial, int) and run.state == State.DONE:
                self.done[trial] = run

    def left(self) -> list[int]:
        """Trials that are not done."""
        return [i for i in range(len(self.trials)) if i not in self.done]

    def run_trial(self, index: int, early_stop: Callable[[Run], bool] | None = None) -> Run:
        """Run a trial to its end, and record it.

        Raises:
            Exception: what it failed with. KeyboardInterrupt: of Ctrl-C; the step in flight has been applied whole.
        """

        def look(run: Run) -> None:
            if early_stop is not None and not run.finished and early_stop(run):
                run.stop_early()

        setup = self._setups[index]
        label = ", ".join(f"{name}={_word(value)}" for name, value in self.trials[index].items())
        run = setup.with_(name=f"{setup.name or 'sweep'}: {label}").start(
            look, progress=False, record=self.file.path, settings={KEY: self.key, TRIAL: index}
        )
        run.wait()
        if run.state == State.STOPPED:  # by a button
            raise KeyboardInterrupt(f"the sweep was stopped with run {run.name!r}")
        record = record_of(run)
        if record is not None and record.number is not None:
            self.done[index] = runs(self.file.path)[record.number]
        return run

    @property
    def runs(self) -> Runs:
        """The table of all trials that are done, in the order of the grid."""
        return Runs([self.done[i] for i in sorted(self.done)], self.file)

    @property
    def best(self) -> RecordedRun:
        """The trial with the lowest newest value of what was fetched first; `runs.best(by, mode)` takes another one.

        Raises:
            NotFound: no trial has a value that is a number.
        """
        return self.runs.best()

    def __repr__(self) -> str:
        state = f"{len(self.done)} of {len(self.trials)} trials done"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Sweep {self.key}: {state}{failed}\n{self.runs!r}"

    def _repr_html_(self) -> str:
        from workbench.experiments.charts.parallel_chart import parallel_chart
        from workbench.experiments.charts.pictures import as_image

        head, _, _ = repr(self).partition("\n")
        runs = self.runs
        value = next((name for run in runs for name in run.last), "")
        varied = [name for name in dict.fromkeys(n for trial in self.trials for n in trial) if name in runs.columns]
        chart = parallel_chart(runs, value, varied, as_image)
        return f"<p>{escape(head)}</p>{chart}{runs._repr_html_()}"


def sweep(
    program: Program | Setup,
    grid: Mapping[str, Sequence[Any]],
    data: Any = None,
    startup: Program | None = None,
    early_stop: Callable[[Run], bool] | None = None,
    progress: bool = True,
    record: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Sweep:
    """Train with every combination of settings, one after the other; returns when all are done.

    The same call takes up a sweep that was interrupted, or whose process died: trials that are recorded as done are not
    run again. A trial that fails is told and the others go on.

    Args:
        program: with `data` and `startup`, as `setup` takes them; or a Setup.
        grid: {setting: values}; settings as in `Setup.with_`.
        early_stop: called after every step of a trial; True ends it there, and it counts as done.
        progress: whether a bar shows how far the sweep is.
        record: the file of runs; the user's own by default.
        settings: of all trials.

    Raises:
        InvalidArgument, InvalidType: a setting no setup has, a value it does not take, an empty grid; nothing has run.
        Unavailable: the file of runs cannot be read, so that it is not known which trials are done.
        KeyboardInterrupt: of Ctrl-C, at a step boundary.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> data = wb.io.TensorDataset([np.ones((8, 4), np.float32)])
        >>> loader = wb.io.DataLoader(data, batch_size=4)
        >>> net, net_startup = static.default_main_program(), static.default_startup_program()
        >>> found = wb.sweep(net, {"learning_rate": [0.1, 0.01]}, loader, net_startup, steps=2,
        ...                  fetch={"loss": loss}, progress=False)
        >>> [run.steps for run in found.runs]
        [2, 2]
        >>> found.best.steps
        2
    """
    trials = Sweep(_base(program, data, startup, settings), _checked_grid(grid), RunsFile(record))
    trials.find_done()
    options = {"desc": "sweep", "unit": "trial", "disable": not progress}
    with new_bar(total=len(trials.trials), initial=len(trials.done), **options) as bar:
        for index in trials.left():
            try:
                trials.run_trial(index, early_stop)
            except Exception as error:
                trials.failed[index] = error
                bar.write(f"trial {index} {trials.trials[index]} failed: {error}")
            bar.update(1)
    return trials


def _base(program: Any, data: Any, startup: Any, settings: Mapping[str, Any]) -> Setup:
    if isinstance(program, Setup):
        if data is not None or startup is not None:
            raise InvalidArgument("a Setup has its data and its startup program; leave them out")
        return program.with_(**settings)
    return setup(program, data, startup, **settings)


def _checked_grid(grid: Any) -> dict[str, list[Any]]:
    if not isinstance(grid, Mapping) or not grid:
        raise InvalidType(f"sweep takes a dict of setting to values, got {grid!r}")
    lists = {}
    for name, values in grid.items():
        if not isinstance(name, str):
            raise InvalidType(f"sweep takes names of settings in its grid, got {name!r}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InvalidType(f"sweep takes a list of values for {name!r}, got {values!r}")
        lists[name] = list(values)
    return lists


def _key(base: Setup, trials: Sequence[Mapping[str, Any]]) -> str:
    own = {name: getattr(base, name) for name in SETTINGS}
    told = [program_hash(base.program), own, base.build, base.execution, trials]
    return hashlib.sha256(json.dumps(told, default=_word, sort_keys=True).encode()).hexdigest()[:12]


def _word(value: Any) -> str:
    return value.name if isinstance(value, Enum) else str(value)
