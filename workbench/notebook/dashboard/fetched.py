"""What `run` of an executor returns, step by step, for curves of training loops that are the user's own."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from workbench import events
from workbench.executors.engine import Engine

_ELEMENTS = 1024  # of a fetched value, at most, for it to be a number per step


class Fetched:
    """A history like that of a run: the mean of every small fetched value.

    Attributes:
        steps, seconds: how many there were, and the time in which there were some; is_going_on: at the last look.

    Args:
        names: what the user calls a variable, by the variable's name.
    """

    def __init__(self, engine: Engine, names: dict[str, str]) -> None:
        self.history: dict[str, list[float]] = {}
        self.steps, self.seconds = 0, 0.0
        self._last = time.monotonic()
        self.is_going_on = False
        self._names = names
        self._told: deque[events.Fetched] = deque()
        self._subscription = events.subscribe(self._told.append, events.Fetched, executor=engine.reporter.name)

    def close(self) -> None:
        """Listen no more."""
        self._subscription.close()

    def follow(self) -> None:
        """Take over what has been told."""
        told = [self._told.popleft() for _ in range(len(self._told))]
        self._clock(len(told))
        kinds: dict[tuple[str, ...], list[events.Fetched]] = {}
        for event in told:
            kinds.setdefault(event.names, []).append(event)
        for names, alike in kinds.items():
            for position, name in enumerate(names):
                self._take(name, [np.asarray(event.values[position]) for event in alike])

    def _clock(self, steps: int) -> None:
        """Count steps, and the time since the last look if there were any in it."""
        now = time.monotonic()
        self.steps += steps
        self.seconds += now - self._last if steps else 0.0
        self.is_going_on = steps > 0
        self._last = now

    def _take(self, name: str, values: list[np.ndarray]) -> None:
        shown = [value for value in values if 0 < value.size <= _ELEMENTS and value.dtype.kind in "fiub"]
        if not shown:
            return
        if len({value.shape for value in shown}) == 1:
            means = np.stack(shown).reshape(len(shown), -1).mean(1).tolist()
        else:
            means = [float(value.mean()) for value in shown]
        self.history.setdefault(self._names.get(name, name), []).extend(means)
