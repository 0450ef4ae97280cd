"""The curves of a run: every recorded value over the steps, and how many steps there are in a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from workbench.notebook.buckets import Buckets, Points
from workbench.notebook.messages import Message, column

_AT_ONCE = 20_000  # values taken over in one go: reading them keeps the training thread waiting
_RATE_S = 0.1  # seconds of training over which steps are counted, at least
_RATES = 500

History = Mapping[str, Sequence[float]]
Evaluations = Mapping[str, tuple[Sequence[int], Sequence[float]]]


class Curves:
    """What a history of values holds, in as many points as can be drawn.

    Args:
        run: number of the run; label: what it is called now.
        history: of the run, which grows: {label: [value of every step]}.
        evaluated: {label: (steps, values)} of what has a value after some steps only, which grows, too.
        steps, seconds: how many steps have been done, in how much time, pauses left out.
    """

    def __init__(
        self,
        run: str,
        label: Callable[[], str],
        history: Callable[[], History],
        steps: Callable[[], int],
        seconds: Callable[[], float],
        evaluated: Callable[[], Evaluations] = dict,
    ) -> None:
        self.run, self.label = run, label
        self.rate = 0.0
        self._history, self._steps, self._seconds, self._evaluated = history, steps, seconds, evaluated
        self._series: dict[str, Buckets] = {}
        self._evaluations: dict[str, Points] = {}
        self._known: dict[str, int] = {}
        self._broken: dict[str, int] = {}
        self._rates = Points(2, _RATES)
        self._begun = seconds(), steps()

    def follow(self) -> bool:
        """Take over what is new; whether there was anything."""
        moved = [self._take(name, values) for name, values in list(self._history().items())]
        moved += [self._take_evaluation(name, *points) for name, points in self._evaluated().items()]
        return self._count() or any(moved)

    def _take_evaluation(self, name: str, steps: Sequence[int], values: Sequence[float]) -> bool:
        points, known = self._evaluations.setdefault(name, Points(2)), self._known.get(name, 0)
        for step, value in zip(steps[known:], values[known:], strict=False):  # a value may have come meanwhile
            points.add(step, value)
            if not math.isfinite(value):
                self._broken.setdefault(name, step)
            self._known[name] = self._known.get(name, 0) + 1
        return self._known.get(name, 0) > known

    def _take(self, name: str, values: Sequence[float]) -> bool:
        series = self._series.setdefault(name, Buckets())
        known = series.taken
        for begin in range(known, len(values), _AT_ONCE):
            series.add(values[begin : begin + _AT_ONCE])
            time.sleep(0)
        return series.taken > known

    def _count(self) -> bool:
        """Note the rate, every so often."""
        (then, before), now, steps = self._begun, self._seconds(), self._steps()
        if now - then < _RATE_S or steps == before:
            return False
        self._begun = now, steps
        self.rate = (steps - before) / (now - then)
        self._rates.add(steps, self.rate)
        return True

    def message(self) -> Message:
        """The message `curves`; see assets/src/README.md."""
        steps, rates = self._rates.columns()
        return {
            "type": "curves",
            "run": self.run,
            "label": self.label(),
            "width": max([series.width for series in self._series.values()], default=1),
            "series": {
                **{name: series.message() for name, series in self._series.items()},
                **{n: _of_points(points, self._broken.get(n)) for n, points in self._evaluations.items()},
            },
            "rate": {"step": column(steps, "float64"), "value": column(rates, "float32")},
        }


def _of_points(points: Points, broken: int | None) -> Message:
    steps, values = points.columns()
    one = column(values, "float32")
    return {"step": column(steps, "float64"), "mean": one, "low": one, "high": one, "broken": broken}
