"""Memory for temporaries over the steps: what each device holds, and when it was given back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from workbench import events
from workbench.executors.inspection.inspection import Inspection
from workbench.notebook.buckets import Points
from workbench.notebook.messages import Message, column

_DROPS = 1000  # that are shown; all are counted


class Past(NamedTuple):
    """What is known of a run, or of an executor's steps, from before it was watched.

    Attributes:
        begun: steps its engine had made before it; drops: its newest ones; total: how many there have been.
    """

    begun: int
    drops: Sequence[events.ScopeDrop]
    total: int

    @classmethod
    def of(cls, engine: Inspection) -> Past:
        """Of all steps of an executor."""
        return cls(0, engine.drops, engine.dropped)


class MemoryTrace:
    """The sawtooth of one engine. Listening to drops costs a step nothing unless it drops.

    Attributes:
        total: drops since `since`, the number of steps from which on all are known.

    Args:
        past: asked, once this listens, for what it has missed; None where nobody has listened.
    """

    def __init__(self, engine: Inspection, past: Callable[[], Past] | None = None) -> None:
        self.engine = engine
        self.total, self.since = 0, engine.steps
        self._known: Sequence[events.ScopeDrop] = ()
        self._devices = len(engine.places)
        self._levels = Points(1 + self._devices)
        self._drops = Points(1 + self._devices, _DROPS)
        self._causes: dict[float, str] = {}
        self._told: deque[events.ScopeDrop] = deque()
        self._subscription = events.subscribe(self._told.append, events.ScopeDrop, executor=engine.name)
        if past is not None:
            self._catch_up(past())
        if not self.total:
            self._level(engine.steps, self.held())

    def _catch_up(self, past: Past) -> None:
        """Take over what was before; a drop that both were told of is the same object."""
        self.since = past.begun
        if not past.drops:
            if not past.begun:
                self._levels.add(0, *[0] * self._devices)
            return
        self._levels.add(min(past.begun, past.drops[0].step), *[0] * self._devices)
        for drop in past.drops:
            self._drop(drop)
        self.total = past.total
        self._known = past.drops

    def close(self) -> None:
        """Listen no more."""
        self._subscription.close()

    def follow(self) -> bool:
        """Take over the drops there have been, and what is held now; whether anything has changed."""
        before = self.total
        for _ in range(len(self._told)):
            event = self._told.popleft()
            if not any(event is known for known in self._known):
                self._drop(event)
        return self._level(self.engine.steps, self.held()) or self.total > before

    def held(self) -> tuple[int, ...]:
        """Bytes per device at this moment."""
        arenas = dict(self.engine.arenas)
        return tuple(arenas[place].resident if place in arenas else 0 for place in range(self._devices))

    def _drop(self, event: events.ScopeDrop) -> None:
        """Before it there was what it gave back: the first step after the drop before had taken it."""
        places = {place: index for index, place in enumerate(self.engine.places)}
        freed = [0] * self._devices
        for place, nbytes in zip(event.places, event.nbytes, strict=True):
            freed[places[place]] = nbytes
        last = self._levels.rows[-1] if self._levels.rows else (0.0, *[0.0] * self._devices)
        if last[1:] != tuple(freed):
            self._levels.add(min(last[0] + 1, event.step), *freed)
        self._levels.add(event.step, *freed)
        self._levels.add(event.step, *[0] * self._devices)
        self._drops.add(event.step, *freed)
        self._causes[event.step] = event.cause
        self.total += 1
        if len(self._causes) > 2 * _DROPS:
            kept = {row[0] for row in self._drops.rows}
            self._causes = {step: cause for step, cause in self._causes.items() if step in kept}

    def _level(self, step: int, held: tuple[int, ...]) -> bool:
        rows = self._levels.rows
        if rows and not any(rows[-1][1:]) and any(held) and step > rows[-1][0]:
            self._levels.add(rows[-1][0] + 1, *held)  # the first step after a drop takes it all
        if rows and rows[-1] == (step, *held):
            return False
        if len(rows) > 1 and rows[-1][1:] == held == rows[-2][1:]:
            rows.pop()  # the level goes on
        self._levels.add(step, *held)
        return True

    def message(self) -> Message:
        """`memory` and `drops` of the message `scopes`."""
        levels, drops = self._levels.columns(), self._drops.columns()
        return {
            "memory": {"step": column(levels[0], "float64"), "bytes": _columns(levels[1:])},
            "drops": {
                "step": column(drops[0], "float64"),
                "bytes": _columns(drops[1:]),
                "cause": [self._causes.get(step, "") for step in drops[0]],
                "total": self.total,
                "since": self.since,
            },
        }


def _columns(rows: np.ndarray) -> list[np.ndarray]:
    return [column(row, "float64") for row in rows]
