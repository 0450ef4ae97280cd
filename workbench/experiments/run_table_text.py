"""The table of runs as text and as HTML."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.experiments.run_table import RecordedRun, Runs

SHOWN = 30  # runs at most
WIDEST = 28  # characters of a cell at most
HEADS = ["run", "name", "state", "begun", "steps", "steps/s"]


def as_text(found: Runs) -> str:
    """A table for terminals, and for notebooks where HTML is not shown."""
    if not len(found):
        return "no runs"
    heads, lines = _cells(found)
    widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]
    made = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [heads, *lines]]
    return "\n".join([*(line.rstrip() for line in made), *_more(found)])


def as_html(found: Runs) -> str:
    """The same; escaped, so that names and notes cannot bring markup of their own."""
    if not len(found):
        return "<p>no runs</p>"
    heads, lines = _cells(found)
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in line)}</tr>" for line in lines)
    more = "".join(f"<p>{escape(line)}</p>" for line in _more(found))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _more(found: Runs) -> list[str]:
    return [f"… {len(found) - SHOWN:,} more"] if len(found) > SHOWN else []


def _cells(found: Runs) -> tuple[list[str], list[list[str]]]:
    shown = list(found)[:SHOWN]
    values = list(dict.fromkeys(name for run in shown for name in run.scalars))
    differing = differing_settings([run.settings for run in shown])
    heads = [*HEADS, *values, *differing, "tags"]
    return heads, [_line(run, values, differing) for run in shown]


def differing_settings(settings: list[dict[str, Any]]) -> list[str]:
    """Names of the settings that are not the same in all; what tells runs apart."""
    names = dict.fromkeys(name for one in settings for name in one)
    return [name for name in names if len({repr(one.get(name)) for one in settings}) > 1]


def _line(run: RecordedRun, values: list[str], settings: list[str]) -> list[str]:
    begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.begun))
    steps = f"{run.step:,}" + (f" of {run.steps:,}" if run.steps is not None and run.steps != run.step else "")
    cells = [run.number, run.name, run.state, begun, steps, f"{run.steps_per_second:,.4g}"]
    cells += [run.value(name) for name in values] + [run.value(name) for name in settings]
    return [_short(cell) for cell in [*cells, ", ".join(run.tags)]]


def _short(cell: Any) -> str:
    if cell is None:
        return ""
    text = " ".join((f"{cell:.4g}" if isinstance(cell, float) else str(cell)).split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
