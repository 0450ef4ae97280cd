"""What `run` of an executor returns, step by step, for curves of training loops that are the user's own."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from workbench import events
from workbench.executors.inspection.inspection import Inspection

_ELEMENTS = 1024  # of a fetched value, at most, for it to be a number per step


class FetchedHistory:
    """A history like that of a run: the mean of every small fetched value.

    Attributes:
        steps, seconds: how many there were, and the time in which there were some; is_going_on: at the last visit.

    Args:
        names: what the user calls a variable, by the variable's name.
    """

    def __init__(self, engine: Inspection, names: dict[str, str]) -> None:
        self.history: dict[str, list[float]] = {}
        self.steps, self.seconds = 0, 0.0
        self._last = time.monotonic()
        self.is_going_on = False
        self._names = names
        self._told: deque[tuple[tuple[str, ...], list[np.ndarray | None]]] = deque()
        self._subscription = events.subscribe(self._keep, events.Fetched, executor=engine.name)

    def close(self) -> None:
        """Listen no more."""
        self._subscription.close()

    def follow(self) -> None:
        """Take over what has been told."""
        told = [self._told.popleft() for _ in range(len(self._told))]
        self._clock(len(told))
        kinds: dict[tuple[str, ...], list[list[np.ndarray | None]]] = {}
        for names, values in told:
            kinds.setdefault(names, []).append(values)
        for names, steps in kinds.items():
            for position, name in enumerate(names):
                self._take(name, [value for values in steps if (value := values[position]) is not None])

    def _keep(self, event: events.Fetched) -> None:
        """On the thread of the step: only what will be shown, so that large values are not held."""
        self._told.append((event.names, [_small(value) for value in event.values]))

    def _clock(self, steps: int) -> None:
        """Count steps, and the time since the last visit if there were any in it."""
        now = time.monotonic()
        self.steps += steps
        self.seconds += now - self._last if steps else 0.0
        self.is_going_on = steps > 0
        self._last = now

    def _take(self, name: str, values: list[np.ndarray]) -> None:
        if not values:
            return
        if len({value.shape for value in values}) == 1:
            means = np.stack(values).reshape(len(values), -1).mean(1).tolist()
        else:
            means = [float(value.mean()) for value in values]
        self.history.setdefault(self._names.get(name, name), []).extend(means)


def _small(value: object) -> np.ndarray | None:
    """A copy of a value that a curve can show; of unmerged ones, that of all devices together."""
    parts = [np.asarray(part) for part in value] if isinstance(value, list) else [np.asarray(value)]
    if not 0 < sum(part.size for part in parts) <= _ELEMENTS or any(part.dtype.kind not in "fiub" for part in parts):
        return None
    return np.concatenate([part.reshape(-1) for part in parts])
