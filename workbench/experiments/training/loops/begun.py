"""The runs of programs that have begun in this process, as long as anybody has them.

A run on an executor of the user's own is not among them: it is looked at where that executor is.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from workbench.experiments.run import Run

_begun: list[ref[Run]] = []  # in their order


def note(run: Run) -> None:
    """A run begins."""
    _begun[:] = [*(known for known in list(_begun) if known() is not None), ref(run)]


def runs_of(target: Any) -> list[Run]:
    """Those that train this very program or layer, the newest last."""
    known_runs = [known() for known in list(_begun)]
    return [run for run in known_runs if run is not None and run.target is target]
