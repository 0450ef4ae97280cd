"""Recorded runs as CSV and JSON files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.checkpoint.atomic import replace_file
from workbench.experiments.records.recorded_run import RecordedRun

PLAIN = ("number", "name", "state", "step", "steps", "seconds", "begun", "ended", "error", "settings", "notes", "tags")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets take for the beginning of one


def write_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], path: str | os.PathLike[str]) -> None:
    """One line per row, all columns; lists and dicts as JSON. Replaces the file whole.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.

    Raises:
        OSError: it cannot be written.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, columns)
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    replace_file(path, [out.getvalue().encode()])


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        value = json.dumps(value)
    return "'" + value if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_json(runs: Iterable[RecordedRun], path: str | os.PathLike[str]) -> None:
    """A list of runs with everything known: settings, values of every step, events, checkpoints. Replaces the file.

    Numbers JSON has no word for (NaN, infinities) become null.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(path, [json.dumps([as_document(run) for run in runs], allow_nan=False, indent=1).encode()])


def as_document(run: RecordedRun) -> dict[str, Any]:
    """A run as what JSON can hold."""
    return {
        **{name: getattr(run, name) for name in PLAIN},
        "scalars": {n: [v if math.isfinite(v) else None for v in a.tolist()] for n, a in run.scalars.items()},
        "events": [{**event._asdict(), "data": dict(event.data)} for event in run.events],
        "checkpoints": [{"step": step, "path": path} for step, path in run.checkpoints],
    }
