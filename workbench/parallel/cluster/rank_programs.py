"""What a rank does for the kernel: a program is sent to it once, then every step is asked of it.

These functions run in the ranks. The kernel calls them by name, with plain values and arrays; no code travels.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import NotFound
from workbench.executors.api.compiled import CompiledProgram
from workbench.framework.text.deserialize import program_from_dict
from workbench.graph.loss import loss_of
from workbench.graph.strategy import BuildStrategy
from workbench.optimizer.lr.schedule import ConstantRate
from workbench.runtime.comm.mpi.group import world
from workbench.runtime.devices import cpu_places
from workbench.runtime.scope import Scope


class RankProgram:
    """A program that trains on this rank and the others together.

    Args:
        document: the program, as `program_to_dict` writes it.
        devices: how many CPU devices each rank has.

    Attributes:
        step: steps made since the program came here.
    """

    def __init__(self, document: Mapping[str, Any], devices: int) -> None:
        group = world()
        self.devices, self.step = devices, 0
        self.scope = Scope()
        self.program = program_from_dict(document)
        strategy = BuildStrategy()
        strategy.num_trainers, strategy.trainer_id = group.size, group.rank
        compiled = CompiledProgram(self.program)
        self.executor = compiled.with_data_parallel(loss_of(self.program), strategy, places=cpu_places(devices))
        self.executor.bind(self.scope)

    def take(self, values: Mapping[str, np.ndarray], rates: Mapping[str, float]) -> None:
        """Have the persistable variables hold these values; schedules stay with the kernel, which sends their rates."""
        for name, value in values.items():
            self.scope.var(name).tensor.take(np.array(value))
        self.program.lr_schedulers.update({name: ConstantRate(rate) for name, rate in rates.items()})

    def run(
        self, feeds: Sequence[Mapping[str, np.ndarray]], fetched: Sequence[str], rates: Mapping[str, float]
    ) -> list[np.ndarray]:
        """One step, each device fed its own; what is fetched of this rank's devices."""
        for name, rate in rates.items():
            self.program.lr_schedulers[name].last_lr = rate
        values = self.executor.run_step([dict(feed) for feed in feeds], list(fetched))
        self.step += 1
        return values

    def values(self) -> dict[str, np.ndarray]:
        """What the persistable variables hold."""
        holders = {v.name: self.scope.find_var(v.name) for v in self.program.persistables()}
        return {n: np.array(h.tensor.array) for n, h in holders.items() if h is not None and h.tensor.initialized}


_programs: dict[str, RankProgram] = {}


def open_program(key: str, document: Mapping[str, Any], devices: int) -> None:
    """Take a program to train. It replaces the one before: a rank trains one program at a time."""
    _programs.clear()
    _programs[key] = RankProgram(document, devices)


def take_values(key: str, values: Mapping[str, np.ndarray], rates: Mapping[str, float]) -> None:
    """See `RankProgram.take`."""
    _program(key).take(values, rates)


def run_step(
    key: str, feeds: Sequence[Mapping[str, np.ndarray]], fetched: Sequence[str], rates: Mapping[str, float]
) -> list[np.ndarray]:
    """See `RankProgram.run`."""
    return _program(key).run(feeds, fetched, rates)


def values_of(key: str) -> dict[str, np.ndarray]:
    """See `RankProgram.values`."""
    return _program(key).values()


def standing() -> dict[str, Any]:
    """Which rank this is, where it runs, and how far its program is."""
    group = world()
    held = next(iter(_programs.values()), None)
    return {
        "rank": group.rank,
        "ranks": group.size,
        "host": platform.node(),
        "pid": os.getpid(),
        "devices": 0 if held is None else held.devices,
        "step": 0 if held is None else held.step,
        "state": "waiting" if held is None else "training",
        "program": "" if held is None else held.program.name or "",
    }


def _program(key: str) -> RankProgram:
    try:
        return _programs[key]
    except KeyError:
        raise NotFound(f"this rank has no program {key!r}: another one was sent to it since") from None
