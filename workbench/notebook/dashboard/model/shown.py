"""A run, or the steps of an executor, as a dashboard shows them: name and curves."""

from __future__ import annotations

from typing import Any

from workbench.experiments.records.recorder import record_of
from workbench.experiments.run import Run
from workbench.notebook.dashboard.model.curves import Curves
from workbench.notebook.dashboard.watching.fetched import FetchedHistory
from workbench.notebook.dashboard.watching.throttle import Throttle
from workbench.notebook.messages import Message

_CURVES_S = 0.25  # seconds between two messages of curves


class Shown:
    """A run, or the steps of an executor, and its curves.

    Args:
        number: tells it from the others of this dashboard. about: what it is called.
    """

    def __init__(self, number: int, about: str, run: Run | None, fetched: FetchedHistory | None = None) -> None:
        self.run, self.fetched, self.about, self._apart = run, fetched, about, ""
        source: Any = run if run is not None else fetched
        steps = (lambda: source.step) if run is not None else (lambda: source.steps)
        history = (lambda: _every_step(run)) if run is not None else (lambda: source.history)
        evaluated = (lambda: _some_steps(run)) if run is not None else dict
        self.throttle = Throttle(_CURVES_S)
        self.curves = Curves(str(number), self.label, history, steps, lambda: source.seconds, evaluated)

    @property
    def id(self) -> str:
        return self.curves.run

    def label(self) -> str:
        """What it is called; a recorded run by the number that `runs()` gives it, as soon as it has one."""
        record = record_of(self.run) if self.run is not None else None
        about = f"{self.about}{self._apart}"
        return about if record is None or record.number is None else f"run {record.number}: {about}"

    def tell_apart(self, words: str) -> None:
        """What it has that others of the dashboard have not."""
        self._apart = words

    def news(self) -> Message | None:
        """Its curves, if they have changed and it is time."""
        if not self.throttle.is_due():
            return None
        with self.throttle.taking():
            return self.curves.message() if self.follow() else None

    def follow(self) -> bool:
        """Take over what is new; whether there was anything."""
        if self.fetched is not None:
            self.fetched.follow()
        return self.curves.follow()


def _every_step(run: Run) -> dict[str, list[float]]:
    """What has a value after every step."""
    return {label: values for label, values in run.history.items() if label not in run.val_labels}


def _some_steps(run: Run) -> dict[str, tuple[list[int], list[float]]]:
    """What has one where the validation data were evaluated."""
    return {label: run.curve(label) for label in run.val_labels}
