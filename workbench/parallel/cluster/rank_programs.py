"""What a rank does for the kernel: a program is sent to it once, then batches, many at a time, and it makes the steps.

These functions run in the ranks. The kernel calls them by name, with plain values and arrays; no code travels, but for
the step functions of a user's own, by `cluster.train`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from workbench.checkpoint.files import write_tensors
from workbench.checkpoint.parts import checksum
from workbench.errors import NotFound
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.profiling.sampled_steps import EarlyStep
from workbench.framework.text.deserialize import program_from_dict
from workbench.graph.loss import loss_of
from workbench.graph.strategy import BuildStrategy
from workbench.optimizer.lr.schedule import ConstantRate
from workbench.parallel.cluster.rank_steps import RankSteps
from workbench.parallel.cluster.rank_work import Feeds, RankWork, Watcher
from workbench.runtime.comm.mpi.world import world
from workbench.runtime.devices import cpu_places
from workbench.runtime.storage.scope import Scope


class RankProgram(RankWork):
    """A program that trains on this rank and the others together.

    Args:
        document: the program, as `program_to_dict` writes it.
        devices: how many CPU devices each rank has.

    Attributes:
        early: samples one of the first steps. newest: number, from 0, and feeds of the newest one.
    """

    def __init__(self, document: Mapping[str, Any], devices: int) -> None:
        group = world()
        self.scope = Scope()
        self.program = program_from_dict(document)
        super().__init__(self.program.name or "", devices)
        strategy = BuildStrategy()
        strategy.num_trainers, strategy.trainer_id = group.size, group.rank
        compiled = CompiledProgram(self.program)
        self.executor = compiled.with_data_parallel(loss_of(self.program), strategy, places=cpu_places(devices))
        self.executor.bind(self.scope)
        self.early = EarlyStep(self.executor.inspection)
        self.early.begin()
        self.newest: tuple[int, Feeds] | None = None

    def take(self, values: Mapping[str, np.ndarray], rates: Mapping[str, float]) -> None:
        """Have the persistable variables hold these values; schedules stay with the kernel, which sends their rates."""
        for name, value in values.items():
            self.scope.var(name).tensor.take(np.array(value))
        self.program.lr_schedulers.update({name: ConstantRate(rate) for name, rate in rates.items()})

    def make_step(self, feeds: Feeds, fetched: Sequence[str], rates: Mapping[str, float]) -> list[np.ndarray]:
        """See `RankWork.make_step`."""
        for name, rate in rates.items():
            self.program.lr_schedulers[name].last_lr = rate
        self.newest = self.step, feeds
        values: list[np.ndarray] = self.executor.run_step(feeds, list(fetched))
        return values

    def values(self) -> dict[str, np.ndarray]:
        """What the persistable variables hold."""
        holders = {v.name: self.scope.find_var(v.name) for v in self.program.persistables()}
        return {n: np.array(h.tensor.array) for n, h in holders.items() if h is not None and h.tensor.initialized}

    def watched_by(self, watcher: Sequence[str]) -> Watcher:
        """See `RankWork.watched_by`."""
        module, name = watcher
        watching: Watcher = getattr(import_module(module), name)(self)
        return watching

    def drop_temporaries(self) -> int:
        """Give the memory for temporaries back; how many bytes that were."""
        return self.executor.drop_temporaries()


_work: dict[str, RankWork] = {}


def open_program(key: str, document: Mapping[str, Any], devices: int) -> None:
    """Take a program to train. It replaces what was there before: a rank trains one thing at a time."""
    _clear()
    _work[key] = RankProgram(document, devices)


def open_steps(key: str, title: str, code: np.ndarray) -> None:
    """Take a step function to train with, see `RankSteps`; it replaces what was there before."""
    _clear()
    _work[key] = RankSteps(title, code.tobytes())


def _clear() -> None:
    _work.clear()
    world().reset()  # a step function may have left it aborted


def take_values(key: str, values: Mapping[str, np.ndarray], rates: Mapping[str, float]) -> None:
    """See `RankProgram.take`."""
    program = _working(key)
    assert isinstance(program, RankProgram)
    program.take(values, rates)


def run_steps(
    key: str,
    first: int,
    stretches: Sequence[Mapping[str, Any]],
    fetched: Sequence[str],
    rates: Mapping[str, Any],
    watcher: Sequence[str],
    is_sampled: bool,
) -> dict[str, Any]:
    """See `RankWork.run_all`."""
    return _working(key).run_all(first, stretches, fetched, rates, watcher, is_sampled)


def told_at_rest(key: str, watcher: Sequence[str]) -> dict[str, Any] | None:
    """See `RankWork.told_at_rest`; None if something else was sent to this rank since."""
    work = _work.get(key)
    return None if work is None else work.told_at_rest(watcher)


def evaluate(key: str, fields: Mapping[str, np.ndarray], fetched: Sequence[str]) -> list[float]:
    """See `RankSteps.evaluate`."""
    steps = _working(key)
    assert isinstance(steps, RankSteps)
    return steps.evaluate(fields, fetched)


def drop_temporaries(key: str) -> int:
    """See `RankProgram.drop_temporaries`."""
    program = _working(key)
    return program.drop_temporaries() if isinstance(program, RankProgram) else 0


def values_of(key: str) -> dict[str, np.ndarray]:
    """See `RankWork.values`."""
    return _working(key).values()


def checksums(key: str) -> dict[str, int]:
    """Of every value, see `checkpoint.parts.checksum`."""
    return {name: checksum(array) for name, array in values_of(key).items()}


def write_part(key: str, path: str, names: Sequence[str]) -> None:
    """Write some of the values: this rank's part of a checkpoint."""
    values = values_of(key)
    write_tensors(path, {name: values[name] for name in names})


def standing() -> dict[str, Any]:
    """Which rank this is, where it runs, and how far its program is."""
    group = world()
    held = next(iter(_work.values()), None)
    return {
        "rank": group.rank,
        "ranks": group.size,
        "host": platform.node(),
        "pid": os.getpid(),
        "devices": 0 if held is None else held.devices,
        "step": 0 if held is None else held.step,
        "state": "waiting" if held is None else "training",
        "program": "" if held is None else held.title,
    }


def _working(key: str) -> RankWork:
    try:
        return _work[key]
    except KeyError:
        raise NotFound(f"this rank has no {key!r}: something else was sent to it since") from None
