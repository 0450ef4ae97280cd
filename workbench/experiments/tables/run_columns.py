"""Which columns of the table of runs are shown, and what stands in them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from workbench.experiments.records.recorded_run import RecordedRun

ALWAYS = ("number", "name", "state", "begun", "step")
HEADS = {"number": "run", "step": "steps", "steps": "steps asked for", "steps_per_second": "steps/s"}
VALUES, SETTINGS = 2, 4  # of these at most unless they are asked for
WIDEST = 28  # characters of a cell at most
MINOR = (
    "program_hash", "places", "sweep", "trial", "git_commit", "git_changed", "arguments", "fetch", "folder",
    "resumed", "resumed_step", "begun_by",
)  # fmt: skip
SURROUNDINGS = (
    "blas", "blas_kernels", "executor", "host", "lr_step", "notebook", "numba", "numpy", "platform", "processors",
    "program", "python", "workbench",
)  # fmt: skip


def usual_columns(runs: Sequence[RecordedRun]) -> list[str]:
    """What is shown unless something else is asked for: what tells these runs apart."""
    differing = [name for name in telling_settings(runs) if name not in ALWAYS and name != "steps"]
    values = list(dict.fromkeys(name for run in runs for name in run.last))
    tags = ["tags"] if any(run.tags for run in runs) else []
    return [*ALWAYS, *values[:VALUES], *differing[:SETTINGS], *tags]


def differing_settings(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Names of the settings that are not the same in all; what tells runs apart."""
    names = dict.fromkeys(name for one in settings for name in one)
    return [name for name in names if len({repr(one.get(name)) for one in settings}) > 1]


def telling_settings(runs: Sequence[RecordedRun]) -> list[str]:
    """The settings in which runs differ, those first that tell most.

    What was varied in a sweep comes before everything else, what a run was surrounded by after it; of each, what has
    more different values first.
    """
    settings = [run.settings for run in runs]
    sweeps: dict[str, list[dict[str, Any]]] = {}
    for one in settings:
        if one.get("sweep") is not None:
            sweeps.setdefault(repr(one["sweep"]), []).append(one)
    varied = {name for trials in sweeps.values() for name in differing_settings(trials)}

    def rank(name: str) -> tuple[bool, bool, int]:
        return name not in varied, name in SURROUNDINGS, -len({repr(one.get(name)) for one in settings})

    return sorted((name for name in differing_settings(settings) if name not in MINOR), key=rank)


def head(column: str) -> str:
    """What stands above a column."""
    return HEADS.get(column, column)


def cell(run: RecordedRun, column: str) -> str:
    """What stands in a column."""
    if column == "step":
        of = f" of {run.steps:,}" if run.steps is not None and run.steps != run.step else ""
        return f"{run.step:,}{of}"
    if column == "state":
        return ", ".join(filter(None, (run.state, run.nan_title)))
    value = run.value(column)
    if column in ("begun", "ended") and value is not None:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def short(text: str, most: int = WIDEST) -> str:
    """On one line, with an end."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def short_apart(texts: Sequence[str]) -> list[str]:
    """Each as short as leaves it different from all others: its beginning, its two ends, or the whole line."""
    left = set(texts)
    shortened: dict[str, str] = {}
    ways: tuple[Callable[[str], str], ...] = (short, _ends, lambda text: " ".join(text.split()))
    for way in ways:
        taken = Counter(shortened.values()) + Counter(map(way, left))
        shortened |= {text: way(text) for text in left if taken[way(text)] == 1}
        left -= set(shortened)
    return [shortened.get(text, text) for text in texts]


def _ends(text: str, head: int = 6) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDEST else f"{line[:head]}…{line[head + 1 - WIDEST :]}"
