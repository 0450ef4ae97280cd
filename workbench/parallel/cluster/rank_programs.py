"""What a rank does for the kernel: a program is sent to it once, then batches, many at a time, and it makes the steps.

These functions run in the ranks. The kernel calls them by name, with plain values and arrays; no code travels.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from workbench.errors import NotFound, PreconditionNotMet
from workbench.executors.api.compiled import CompiledProgram
from workbench.framework.text.deserialize import program_from_dict
from workbench.graph.loss import loss_of
from workbench.graph.strategy import BuildStrategy
from workbench.optimizer.lr.schedule import ConstantRate
from workbench.runtime.comm.mpi.group import world
from workbench.runtime.devices import cpu_places
from workbench.runtime.scope import Scope


class Watcher(Protocol):
    """Who looks at the steps of this rank; made in it, by a function that the kernel names."""

    def look(self) -> None:
        """The next step is to be looked at."""

    def told(self) -> dict[str, Any]:
        """What there is to tell since the last time, as data."""

    def close(self) -> None:
        """Look no more."""


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
        self._watcher: Watcher | None = None

    def take(self, values: Mapping[str, np.ndarray], rates: Mapping[str, float]) -> None:
        """Have the persistable variables hold these values; schedules stay with the kernel, which sends their rates."""
        for name, value in values.items():
            self.scope.var(name).tensor.take(np.array(value))
        self.program.lr_schedulers.update({name: ConstantRate(rate) for name, rate in rates.items()})

    def run_all(
        self,
        first: int,
        stretches: Sequence[Mapping[str, Any]],
        fetched: Sequence[str],
        rates: Mapping[str, Any],
        watcher: Sequence[str],
        looks: bool,
    ) -> dict[str, Any]:
        """Step after step, as many as were sent together.

        Args:
            first: number of the first of them, from 0. Steps that come behind one that has failed are not made.
            stretches: steps fed with the same shapes: `count`, and `feeds`, `{name: [count, …]}` of every device.
            rates: of every learning rate, one for each step.
            watcher: module and name of what makes one that watches this rank; nothing for nobody. looks: whether it is
                to look at the first of these steps.

        Returns:
            `fetched`: of each name the values of this rank's devices, step by step; `seconds` it took; `error`: kind
            and text of what kept a step from being applied, None if nothing did; `told`: what the watcher has to say.
        """
        begun, made, error = time.perf_counter(), [], None
        try:
            if first != self.step:
                raise PreconditionNotMet(f"step {first} was sent, this rank is at step {self.step}")
            self._be_watched(watcher, looks)
            for feeds, number in _each_of(stretches):
                for name, values in rates.items():
                    self.program.lr_schedulers[name].last_lr = float(values[number])
                made.append(self.executor.run_step(feeds, list(fetched)))
                self.step += 1
        except BaseException as raised:
            error = [type(raised).__name__, str(raised)]
        seconds = time.perf_counter() - begun
        return {"fetched": [_stacked([step[i] for step in made]) for i in range(len(fetched))],
                "made": len(made), "seconds": seconds, "error": error,
                "told": None if self._watcher is None else self._watcher.told()}  # fmt: skip

    def _be_watched(self, watcher: Sequence[str], looks: bool) -> None:
        if self._watcher is None and watcher:
            module, name = watcher
            self._watcher = getattr(import_module(module), name)(self.executor.inspection)
        elif self._watcher is not None and not watcher:
            self._watcher.close()
            self._watcher = None
        if self._watcher is not None and looks:
            self._watcher.look()

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


def run_steps(
    key: str,
    first: int,
    stretches: Sequence[Mapping[str, Any]],
    fetched: Sequence[str],
    rates: Mapping[str, Any],
    watcher: Sequence[str],
    looks: bool,
) -> dict[str, Any]:
    """See `RankProgram.run_all`."""
    return _program(key).run_all(first, stretches, fetched, rates, watcher, looks)


def drop_temporaries(key: str) -> int:
    """Give the memory for temporaries of this rank back; how many bytes that were."""
    return _program(key).executor.drop_temporaries()


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


def _each_of(stretches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[list[dict[str, np.ndarray]], int]]:
    """What the devices are fed, and the number of the step among those that came together."""
    number = 0
    for stretch in stretches:
        for at in range(stretch["count"]):
            yield [{name: array[at] for name, array in device.items()} for device in stretch["feeds"]], number
            number += 1


def _stacked(values: list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """As one array, where all have one shape."""
    return np.stack(values) if values and len({value.shape for value in values}) == 1 else values


def _program(key: str) -> RankProgram:
    try:
        return _programs[key]
    except KeyError:
        raise NotFound(f"this rank has no program {key!r}: another one was sent to it since") from None
