"""A program that a cluster trains, as an executor that `train` takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from workbench.checkpoint.files import write_tensors
from workbench.checkpoint.parts import checksum, claimed, dealt, part_of, write_manifest
from workbench.checkpoint.program_files import document_of, snapshot
from workbench.errors import InvalidArgument
from workbench.executors.api.executor import Executor
from workbench.executors.feeding.split import split_sizes
from workbench.framework.program.program import Program
from workbench.framework.values.random import process_entropy, program_seed
from workbench.parallel.cluster import rank_programs
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.engines import Asked
from workbench.parallel.cluster.rank_errors import RankLost, cause_of
from workbench.runtime.storage.scope import Scope
from workbench.runtime.undisturbed import undisturbed

Arrays: TypeAlias = Mapping[str, np.ndarray]  # of a batch

_keys = itertools.count(1)


class ClusterExecutor:
    """Runs a program's steps in the ranks of a cluster; any other program here.

    The program and the values of its variables are sent once, when a run begins. Batches are sent many at a time,
    ahead of the steps they are for; each is divided over the ranks as over devices. The parameters come back when they
    are asked for (`settle`), which a run does for evaluations, for checkpoints and at its end. Learning rate schedules
    stay here, and their rates are sent.

    Args:
        cluster: the ranks. program: what is trained.
    """

    def __init__(self, cluster: Cluster, program: Program) -> None:
        self.cluster, self.program = cluster, program
        self._key = f"{program.name or 'program'} {next(_keys)}"
        self._other = Executor()
        self._begun = 0  # steps that were sent
        self._watcher: list[str] = []
        self._hearers: list[Callable[[list[Any]], None]] = []
        self._is_sampled = False
        self._is_stale = False  # the scope here: the ranks have made steps it does not know
        self._is_here = False  # the ranks hold the program and its values

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
            self._is_here = True
            try:
                yield
            except RankLost:
                raise
            except BaseException:
                self.settle(scope)
                raise
            finally:
                self._is_here = False
            self.settle(scope)

    def begin(self, scope: Scope) -> None:
        """Send the ranks the program and the values in a scope."""
        seed = program_seed(0, self.program.random_seed) or process_entropy()
        document = {**document_of(self.program), "random_seed": seed}  # of this process, if the program has none
        self.cluster.ask(rank_programs.open_program, self._key, document, self.cluster.devices)
        values, _ = snapshot(self.program, scope)
        self.cluster.ask(rank_programs.take_values, self._key, values, self.rates())
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._begun, self._is_stale = 0, False

    def settle(self, scope: Scope) -> None:
        """Have the scope hold what the ranks' steps have made of the values."""
        if not self._is_stale:
            return
        first, *_ = self.cluster.ask(rank_programs.values_of, self._key)
        with scope.in_use():
            undisturbed(partial(_adopt, scope, first))
        self._is_stale = False

    def write(self, folder: Path, tensors: Mapping[str, np.ndarray], document: Any) -> None:
        """Write a checkpoint: every rank a part of what all hold alike, this process the rest, and the manifest last.

        Raises:
            RankLost: a rank is gone; the checkpoint before is still the one that counts.
        """
        folder = folder.absolute()
        size = self.cluster.size if self._is_here else 0
        sums = self.cluster.ask(rank_programs.checksums, self._key) if size else [{}]
        replicated = {n: t.nbytes for n, t in tensors.items() if {checksum(t)} == {own.get(n, -1) for own in sums}}
        owners = {**dict.fromkeys(tensors, size), **(dealt(replicated, size) if size else {})}
        parts = [[name for name in tensors if owners[name] == rank] for rank in range(size + 1)]
        with claimed(folder) as number:
            if size:
                given = [(self._key, str(part_of(folder, number, rank)), parts[rank]) for rank in range(size)]
                self.cluster.ask_each(rank_programs.write_part, given)
            write_tensors(part_of(folder, number, size), {name: tensors[name] for name in parts[size]})
            write_manifest(folder, number, size + 1, document, owners)

    def run(self, program: Any, *, feed: Any, fetch_list: Any, scope: Any) -> list[Any]:
        """A step of the program on all ranks; what is fetched of all devices, joined along dimension 0."""
        if program is not self.program:
            return self._other.run(program, feed=feed, fetch_list=fetch_list, scope=scope)
        outcome = self.receive(self.send([(self.prepared(feed), self.rates())], fetch_list))
        if outcome.error is not None:
            raise outcome.error
        return outcome.values[0]

    def prepared(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """A batch as arrays that can be divided over all devices.

        Raises:
            InvalidArgument: a feed without rows, feeds of different numbers of rows, or fewer rows than devices.
        """
        arrays = {name: np.asarray(value) for name, value in feed.items()}
        require_rows(arrays, self.device_count)
        return arrays

    def send(self, steps: Sequence[tuple[Arrays, Mapping[str, float]]], fetched: Sequence[str]) -> Sent:
        """Have the ranks make steps, behind those that were sent before; do not wait.

        Args:
            steps: what each is fed, see `prepared`, and its learning rates.

        Raises:
            RankLost: a rank is gone.
        """
        names = steps[0][1]
        rates = {name: np.array([rates[name] for _, rates in steps]) for name in names}
        stretches = [divided(batches, self.device_count) for batches in by_signature([feed for feed, _ in steps])]
        each, watcher = self.cluster.devices, self._watcher
        is_sampled, self._is_sampled = self._is_sampled, False
        given = [
            (
                self._key,
                self._begun,
                [one.of(i * each, each) for one in stretches],
                list(fetched),
                rates,
                watcher,
                is_sampled,
            )
            for i in range(self.cluster.size)
        ]
        self._is_stale = True
        asked = self.cluster.send_each(rank_programs.run_steps, given)
        self._begun += len(steps)
        return Sent(len(steps), asked)

    def receive(self, sent: Sent) -> Outcome:
        """Wait for what has become of steps that were sent.

        Raises:
            RankLost, TimeoutError: see `Cluster.ask`.
        """
        told = self.cluster.answers(sent.asked, self.cluster.timeout)
        count = min(one["steps"] for one in told)
        failed = {rank: one["error"] for rank, one in enumerate(told) if one["error"] is not None}
        of_ranks = [one["fetched"] for one in told]
        if all(one["told"] is not None for one in told):
            for hear in self._hearers:
                hear([one["told"] for one in told])
        values = [_joined(of_ranks, step) for step in range(count)]
        return Outcome(values, max(one["seconds"] for one in told), cause_of(failed) if failed else None)

    def watch(self, watcher: Callable[..., Any], hear: Callable[[list[Any]], None]) -> Callable[[], None]:
        """Have the ranks watched while they make steps; several may hear of it.

        Args:
            watcher: a function of a module, which makes a `Watcher` of an `Inspection` in every rank; the same for all.
            hear: is called with what the watchers tell, by rank, on the thread that makes the steps.

        Returns:
            what ends that.
        """
        self._watcher, self._is_sampled = [watcher.__module__, watcher.__qualname__], True
        self._hearers = [*self._hearers, hear]

        def end() -> None:
            self._hearers = [other for other in self._hearers if other is not hear]
            if not self._hearers:
                self._watcher = []

        return end

    @property
    def sent(self) -> int:
        """How many steps of this run the ranks were sent."""
        return self._begun

    def told_at_rest(self) -> list[Any] | None:
        """What the watchers tell while no step is made, by rank; None if the ranks have nothing of this run any more.

        Raises:
            RankLost, TimeoutError: see `Cluster.ask`.
        """
        if not self._begun or not self._watcher or not self.cluster.is_free_for(self._key):
            return None
        told = self.cluster.ask(rank_programs.told_at_rest, self._key, self._watcher)
        return None if any(one is None for one in told) else told

    def look(self) -> None:
        """Have the next step that is sent looked at by the watchers."""
        self._is_sampled = True

    def drop_temporaries(self) -> int:
        """Give the memory for temporaries of all ranks back, behind the steps that were sent; how many bytes."""
        return sum(self.cluster.ask(rank_programs.drop_temporaries, self._key))

    def rates(self) -> dict[str, float]:
        """The learning rates that schedules give now."""
        return {name: float(schedule()) for name, schedule in self.program.lr_schedulers.items()}


def _adopt(scope: Scope, values: Mapping[str, np.ndarray]) -> None:
    for name, value in values.items():
        scope.root.var(name).tensor.take(value)


class Sent(NamedTuple):
    """Steps that were sent: how many, and what is to come of each rank."""

    steps: int
    asked: Asked


class Outcome(NamedTuple):
    """What has become of them: what those fetched that were applied, how long the ranks took, what went wrong."""

    values: list[list[np.ndarray]]
    seconds: float
    error: BaseException | None


def _joined(of_ranks: Sequence[Sequence[Any]], step: int) -> list[np.ndarray]:
    """What was fetched of all devices in a step."""
    return [np.concatenate([np.atleast_1d(name[step]) for name in names]) for names in zip(*of_ranks, strict=True)]


class Divided(NamedTuple):
    """Batches of the same shapes, one after the other, by device: `{name: [batches, rows, …]}`."""

    batches: int
    devices: list[dict[str, np.ndarray]]

    def of(self, first: int, devices: int) -> dict[str, Any]:
        """What the devices of a rank get."""
        return {"count": self.batches, "feeds": self.devices[first : first + devices]}


def by_signature(feeds: Sequence[Arrays]) -> Iterator[list[Arrays]]:
    """The batches that follow each other and have the same names, shapes and dtypes together."""
    for _, batches in itertools.groupby(feeds, lambda feed: [(n, a.shape, a.dtype) for n, a in feed.items()]):
        yield list(batches)


def require_rows(arrays: Arrays, devices: int) -> None:
    """Refuse a batch whose rows cannot be divided over so many devices.

    Raises:
        InvalidArgument: a feed without rows, feeds of different numbers of rows, or fewer rows than devices.
    """
    flat = [name for name, array in arrays.items() if array.ndim == 0]
    if flat:
        raise InvalidArgument(f"a cluster divides batches by their rows; feed {flat[0]!r} has none, it is a number")
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise InvalidArgument(f"the feeds of a batch have different numbers of rows: {counts}")
    rows = next(iter(counts.values()), 0)
    if rows < devices:
        raise InvalidArgument(f"a batch of {rows} rows cannot be divided over {devices} devices")


def divided(batches: Sequence[Arrays], devices: int) -> Divided:
    """The rows of batches of the same shapes by device, as one process divides them over so many."""
    together = {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
    rows = next(iter(together.values())).shape[1]
    ends = list(itertools.accumulate(split_sizes(rows, devices), initial=0))
    parts = [{n: array[:, start:end] for n, array in together.items()} for start, end in itertools.pairwise(ends)]
    return Divided(len(batches), parts)
