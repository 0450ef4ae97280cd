"""Runs of a program or a layer that were begun elsewhere, by `%train` or `wb.train`: its dashboard shows them, too."""

from __future__ import annotations

from collections.abc import Collection
from weakref import WeakSet

from workbench.experiments.run import Run
from workbench.experiments.training.loops.begun import runs_of
from workbench.notebook.dashboard.model.subject import Subject


class Newcomers:
    """Those that go on, or begin from now on; of a layer, which has no graph of its own, those that have ended, too."""

    def __init__(self, subject: Subject) -> None:
        self._trained = subject.trained
        self._passed = WeakSet(run for run in self._all() if run.finished and not subject.is_recorded)

    def newest(self, known: Collection[Run | None]) -> Run | None:
        """The newest that is not known; no older one will be told any more."""
        unseen = [run for run in self._all() if run not in known and run not in self._passed]
        self._passed.update(unseen)
        return unseen[-1] if unseen else None

    def _all(self) -> list[Run]:
        return [run for run in runs_of(self._trained) if run.program is not None] if self._trained is not None else []
