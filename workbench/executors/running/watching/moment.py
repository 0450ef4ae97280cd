"""A step as it was about to begin: what it is fed and what it stands on, copied while that is still there.

A step changes nothing before its commit. So when a NaN is found in front of the commit, the parameters of before are in
the scope, and the feed is the caller's: copying them then is all that it takes to run the very same step again later,
as often as one likes, and on the side. Steps that go well pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.spec import EngineSpec
from workbench.runtime.storage.tensor import LoDTensor

Arrays = dict[str, np.ndarray]
Guard = Callable[[Callable[[], "Moment"]], object]  # see `Engine.guard`


@dataclass(frozen=True)
class Moment:
    """What a step is made of.

    Attributes:
        step: its number, from 0. spec: of the engine that runs it; fetches: the names it fetches.
        feed: per device that takes part, its arrays by name.
        state: per device the values of persistable variables before it; rates: of schedules, by variable.
        drawn: per device how many steps have drawn random numbers before it.
    """

    step: int
    spec: EngineSpec
    fetches: tuple[str, ...]
    feed: Sequence[Arrays]
    state: Sequence[Arrays]
    rates: Mapping[str, float]
    drawn: Sequence[int]

    @property
    def nbytes(self) -> int:
        """Memory it takes; devices that share a value share its copy."""
        arrays = {id(a): a for device in (*self.feed, *self.state) for a in device.values()}
        return sum(array.nbytes for array in arrays.values())


def moment_of(spec: EngineSpec, replicas: Replicas, step: int, fetches: Sequence[str], fed: Fed) -> Moment:
    """That of the step an engine is about to begin, or about to apply."""
    program, places = spec.program, range(len(spec.places))
    schedules = program.lr_schedulers
    kept = (variable.name for variable in program.persistables())
    names = [name for name in kept if name not in schedules and name != program.rng_step]
    copied = Copies()
    feed = [
        {name: copied.of(array) for name, array in (*data.items(), *given.items())}
        for data, given in zip(fed.per_device, fed.persistable, strict=False)
    ]
    state = [
        {name: copied.of(tensor.array) for name in names if (tensor := replicas.find(name, place)) is not None}
        for place in places
    ]
    drawn = [_count(replicas.find(program.rng_step, place) if program.rng_step else None) for place in places]
    rates = {name: float(scheduler()) for name, scheduler in schedules.items()}
    return Moment(step, spec, tuple(fetches), feed, state, rates, drawn)


def _count(tensor: LoDTensor | None) -> int:
    return 0 if tensor is None else int(tensor.array[0])


class Copies:
    """Copies of arrays, one of each memory."""

    def __init__(self) -> None:
        self._made: dict[Any, np.ndarray] = {}

    def of(self, array: np.ndarray) -> np.ndarray:
        """The copy of an array."""
        where = array.__array_interface__
        key = (where["data"][0], array.shape, array.strides, array.dtype.str)
        if key not in self._made or not array.size:
            self._made[key] = np.array(array)
        return self._made[key]
