"""Progress: what others move on between the runs of a recorded function, and the function itself must not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from workbench.jit.values.watches import Change
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer


class Progress:
    """Generators of random numbers, schedules and optimizers' rates, as they were when they were met."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[str, Callable[[], Any], Any]] = {}

    def note(self, label: str, value: Any) -> None:
        """Keep the state of a value, if it is one of these."""
        read = _state_of(value)
        if read is not None and id(value) not in self._states:
            self._states[id(value)] = label, read, read()

    def changes(self) -> Iterator[Change]:
        """Those that have gone on since."""
        for label, read, kept in self._states.values():
            now = read()
            if now != kept:
                yield Change(label, kept, now)


def _state_of(value: Any) -> Callable[[], Any] | None:
    """What gives the state of a value; None if it has none that others move on, or is everybody's generator."""
    if value is random._inst or value is np.random.mtrand._rand or isinstance(value, random.SystemRandom):
        return None
    if isinstance(value, random.Random):
        return value.getstate
    if isinstance(value, np.random.Generator):
        return lambda: _words(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return lambda: _words(value.get_state(legacy=False))
    if isinstance(value, LRScheduler):
        return lambda: (value.last_epoch, value.last_lr)
    if isinstance(value, Optimizer):
        return partial(_rate_of, value)
    return None


def _words(state: Any) -> Any:
    """A generator's state; the arrays in it as lists, in full."""
    if isinstance(state, dict):
        return {name: _words(part) for name, part in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _rate_of(optimizer: Optimizer) -> Any:
    rate = optimizer._learning_rate
    return rate if isinstance(rate, float) else id(rate)
