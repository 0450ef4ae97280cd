"""A program that a cluster trains, as an executor that `train` takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from workbench.checkpoint.program_files import document_of, snapshot
from workbench.errors import InvalidArgument
from workbench.executors.api.executor import Executor
from workbench.executors.feeding.split import split_sizes
from workbench.framework.program.program import Program
from workbench.framework.values.random import process_entropy, program_seed
from workbench.parallel.cluster import rank_programs
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.rank_errors import RankLost
from workbench.runtime.scope import Scope
from workbench.runtime.undisturbed import undisturbed

_keys = itertools.count(1)


class ClusterExecutor:
    """Runs a program's steps in the ranks of a cluster; any other program here.

    The program and the values of its variables are sent once, when a run begins. Every batch is divided over the
    ranks as over devices; the parameters come back when they are asked for (`settle`), which a run does for
    evaluations, for checkpoints and at its end. Learning rate schedules stay here, and their rates are sent.

    Args:
        cluster: the ranks. program: what is trained.
    """

    def __init__(self, cluster: Cluster, program: Program) -> None:
        self.cluster, self.program = cluster, program
        self._key = f"{program.name or 'program'} {next(_keys)}"
        self._other = Executor()
        self._is_ahead = False  # the ranks have made steps that the scope here does not know

    @property
    def device_count(self) -> int:
        """How many devices a batch is split over, those of all ranks."""
        return self.cluster.size * self.cluster.devices

    @contextmanager
    def working(self, scope: Scope) -> Iterator[None]:
        """Begin with the values of a scope, and have it hold what was made of them in the end, also after a failure.

        What ranks have done that are lost is lost.

        Raises:
            PreconditionNotMet: the ranks are in the middle of another run.
        """
        with self.cluster.held_by(self._key):
            self.begin(scope)
            try:
                yield
            except RankLost:
                raise
            except BaseException:
                self.settle(scope)
                raise
            self.settle(scope)

    def begin(self, scope: Scope) -> None:
        """Send the ranks the program and the values in a scope."""
        seed = program_seed(0, self.program.random_seed) or process_entropy()
        document = {**document_of(self.program), "random_seed": seed}  # of this process, if the program has none
        self.cluster.ask(rank_programs.open_program, self._key, document, self.cluster.devices)
        values, _ = snapshot(self.program, scope)
        self.cluster.ask(rank_programs.take_values, self._key, values, self._rates())
        self._is_ahead = False

    def settle(self, scope: Scope) -> None:
        """Have the scope hold what the ranks' steps have made of the values."""
        if not self._is_ahead:
            return
        first, *_ = self.cluster.ask(rank_programs.values_of, self._key)
        with scope.in_use():
            undisturbed(partial(_adopt, scope, first))
        self._is_ahead = False

    def run(self, program: Any, *, feed: Any, fetch_list: Any, scope: Any) -> list[Any]:
        """A step of the program on all ranks; what is fetched of all devices, joined along dimension 0."""
        if program is not self.program:
            return self._other.run(program, feed=feed, fetch_list=fetch_list, scope=scope)
        rates = self._rates()
        feeds = divided(feed, self.device_count)
        each, fetched = self.cluster.devices, list(fetch_list)
        self._is_ahead = True
        told = self.cluster.ask_each(
            rank_programs.run_step,
            [(self._key, feeds[i : i + each], fetched, rates) for i in range(0, len(feeds), each)],
        )
        return [np.concatenate([np.atleast_1d(value) for value in values]) for values in zip(*told, strict=True)]

    def _rates(self) -> dict[str, float]:
        return {name: float(schedule()) for name, schedule in self.program.lr_schedulers.items()}


def _adopt(scope: Scope, values: Mapping[str, np.ndarray]) -> None:
    for name, value in values.items():
        scope.root.var(name).tensor.take(value)


def divided(feed: Mapping[str, Any], devices: int) -> list[dict[str, np.ndarray]]:
    """The rows of a batch by device, as one process divides them over so many.

    Raises:
        InvalidArgument: a feed without rows, feeds of different numbers of rows, or fewer rows than devices.
    """
    arrays = {name: np.asarray(value) for name, value in feed.items()}
    flat = [name for name, array in arrays.items() if array.ndim == 0]
    if flat:
        raise InvalidArgument(f"a cluster divides batches by their rows; feed {flat[0]!r} has none, it is a number")
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise InvalidArgument(f"the feeds of a batch have different numbers of rows: {counts}")
    rows = next(iter(counts.values()), 0)
    if rows < devices:
        raise InvalidArgument(f"a batch of {rows} rows cannot be divided over {devices} devices")
    ends = list(itertools.accumulate(split_sizes(rows, devices), initial=0))
    return [{name: array[start:end] for name, array in arrays.items()} for start, end in itertools.pairwise(ends)]
