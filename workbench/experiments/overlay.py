"""Recorded runs on top of each other as HTML: the settings that tell them apart, and a chart per recorded value."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from workbench.experiments.line_chart import Line, color, dash, line_chart
from workbench.experiments.run_columns import cell, differing_settings, head, short
from workbench.experiments.run_table import RecordedRun

FACTS = ("name", "state", "step", "seconds", "steps_per_second")


def overlay_html(runs: Sequence[RecordedRun], log: bool = False) -> str:
    """A column per run, a row per fact in which they may differ; below it their curves.

    Args:
        log: charts with a logarithmic scale.
    """
    settings = differing_settings([run.settings for run in runs])
    values = list(dict.fromkeys(name for run in runs for name in run.last))
    heads = "".join(f'<th scope="col">{key(k)} run {run.number}</th>' for k, run in enumerate(runs))
    rows = [(head(name), [cell(run, name) for run in runs]) for name in FACTS]
    rows += [(f"last {name}", [cell(run, name) for run in runs]) for name in values]
    rows += [(name, [cell(run, name) for run in runs]) for name in settings]
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(short(c))}</td>" for c in cells)}</tr>'
        for name, cells in rows
    )
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"
    charts = "".join(_chart(runs, name, log) for name in values)
    scroll = f'<div style="overflow-x:auto">{table}</div>'
    return f'<div><div style="display:flex;flex-wrap:wrap">{charts}</div>{scroll}</div>'


def _chart(runs: Sequence[RecordedRun], name: str, log: bool) -> str:
    lines = [Line(f"run {run.number}", *run.curve(name), k) for k, run in enumerate(runs) if name in run.curves]
    drawing = line_chart(lines, f"{name} of {', '.join(line.name for line in lines)}", 420, 180, log=log)
    legend = " ".join(f"<span>{key(line.number)} {line.name}</span>" for line in lines)
    style = "margin:4px 16px 4px 0"
    return f'<figure style="{style}"><figcaption><b>{escape(name)}</b> {legend}</figcaption>{drawing}</figure>'


def key(number: int) -> str:
    """What the line of a run looks like."""
    dashes = f' stroke-dasharray="{dash(number)}"' if dash(number) else ""
    line = f'<path d="M0 5H22" stroke="{color(number)}" stroke-width="2"{dashes}/>'
    return f'<svg width="22" height="10" aria-hidden="true">{line}</svg>'
