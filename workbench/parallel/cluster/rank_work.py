"""Steps that a rank makes for the kernel: those that are sent together one after the other, watched if it is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from workbench.errors import PreconditionNotMet

Feeds = list[dict[str, np.ndarray]]  # by device of this rank


class Watcher(Protocol):
    """Who looks at the steps of this rank; made in it, by a function that the kernel names."""

    def look(self) -> None:
        """The next step is to be looked at."""

    def told(self) -> dict[str, Any]:
        """What there is to tell since the last time, as data."""

    def told_at_rest(self) -> dict[str, Any]:
        """The same between two steps, with what the newest one has left: what it was fed, and memory."""

    def close(self) -> None:
        """Look no more."""


class RankWork:
    """What is trained on this rank and the others together.

    Attributes:
        title: what it is called. devices: how many CPU devices each rank has.
        step: steps made since it came here.
    """

    def __init__(self, title: str, devices: int) -> None:
        self.title, self.devices, self.step = title, devices, 0
        self._watcher: Watcher | None = None

    def make_step(self, feeds: Feeds, fetched: Sequence[str], rates: Mapping[str, float]) -> list[np.ndarray]:
        """One step, each device fed its own; what is fetched of this rank's devices."""
        raise NotImplementedError

    def values(self) -> dict[str, np.ndarray]:
        """What the steps so far have made."""
        raise NotImplementedError

    def watched_by(self, watcher: Sequence[str]) -> Watcher | None:
        """A watcher of this rank, made by the function of that module and name; None if there is nothing to see."""
        return None

    def run_all(
        self,
        first: int,
        stretches: Sequence[Mapping[str, Any]],
        fetched: Sequence[str],
        rates: Mapping[str, Any],
        watcher: Sequence[str],
        is_sampled: bool,
    ) -> dict[str, Any]:
        """Step after step, as many as were sent together.

        Args:
            first: number of the first of them, from 0. Steps that come behind one that has failed are not made.
            stretches: steps fed with the same shapes: `count`, and `feeds`, `{name: [count, …]}` of every device.
            rates: of every learning rate, one for each step.
            watcher: module and name of what makes one that watches this rank; nothing for nobody.
            is_sampled: whether it is to look at the first of these steps.

        Returns:
            `fetched`: of each name the values of this rank's devices, step by step; `steps`: how many;
            `seconds` they took; `error`: kind and text of what kept a step from being applied, None if nothing did;
            `told`: what the watcher has to say.
        """
        begun, of_steps, error = time.perf_counter(), [], None
        try:
            if first != self.step:
                raise PreconditionNotMet(f"step {first} was sent, this rank is at step {self.step}")
            self._be_watched(watcher, is_sampled)
            for feeds, number in _each_of(stretches):
                now = {name: float(values[number]) for name, values in rates.items()}
                of_steps.append(self.make_step(feeds, fetched, now))
                self.step += 1
        except BaseException as raised:
            error = [type(raised).__name__, str(raised)]
        seconds = time.perf_counter() - begun
        return {
            "fetched": [_stacked(list(values)) for values in zip(*of_steps, strict=True)],
            "steps": len(of_steps),
            "seconds": seconds,
            "error": error,
            "told": None if self._watcher is None else self._watcher.told(),
        }

    def told_at_rest(self, watcher: Sequence[str]) -> dict[str, Any] | None:
        """What a watcher of this rank has to say while no step is made; None if there is nothing to see."""
        self._be_watched(watcher, False)
        return None if self._watcher is None else self._watcher.told_at_rest()

    def _be_watched(self, watcher: Sequence[str], is_sampled: bool) -> None:
        if self._watcher is None and watcher:
            self._watcher = self.watched_by(watcher)
        elif self._watcher is not None and not watcher:
            self._watcher.close()
            self._watcher = None
        if self._watcher is not None and is_sampled:
            self._watcher.look()


def _each_of(stretches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Feeds, int]]:
    """What the devices are fed, and the number of the step among those that came together."""
    number = 0
    for stretch in stretches:
        for at in range(stretch["count"]):
            yield [{name: array[at] for name, array in device.items()} for device in stretch["feeds"]], number
            number += 1


def _stacked(values: list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """As one array, where all have one shape."""
    return np.stack(values) if len({value.shape for value in values}) == 1 else values
