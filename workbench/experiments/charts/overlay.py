"""Recorded runs on top of each other as HTML: the settings that tell them apart, and a chart per recorded value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from workbench.experiments.charts.line_chart import ChartLine, color, dash, line_chart
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.tables.run_columns import cell, differing_settings, head, short_apart
from workbench.experiments.tables.run_table_text import titled
from workbench.framework.text.printable import escape

FACTS = ("name", "state", "step", "seconds", "steps_per_second")


Shown = Callable[[str], str]  # an <svg> as it comes on the page


def overlay_html(runs: Sequence[RecordedRun], log: bool = False, shown: Shown = str) -> str:
    """A column per run, a row per fact in which they may differ; below it their curves.

    Args:
        log: charts with a logarithmic scale. shown: what becomes of drawings.
    """
    settings = differing_settings([run.settings for run in runs])
    values = list(dict.fromkeys(name for run in runs for name in run.last))
    heads = "".join(f'<th scope="col">{shown(key(k))} run {run.number}</th>' for k, run in enumerate(runs))
    rows = [(head(name), [cell(run, name) for run in runs]) for name in FACTS]
    rows += [(f"last {name}", [cell(run, name) for run in runs]) for name in values]
    told = {name for name, _ in rows}
    rows += [(name, [cell(run, name) for run in runs]) for name in settings if name not in told]
    body = "".join(f'<tr><th scope="row">{escape(name)}</th>{_cells(cells)}</tr>' for name, cells in rows)
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"
    charts = "".join(_chart(runs, name, log, shown) for name in values)
    scroll = f'<div style="overflow-x:auto">{table}</div>'
    return f'<div><div style="display:flex;flex-wrap:wrap">{charts}</div>{scroll}</div>'


def _cells(texts: Sequence[str]) -> str:
    return "".join(f"<td>{titled(c, text)}</td>" for c, text in zip(short_apart(texts), texts, strict=True))


def _chart(runs: Sequence[RecordedRun], name: str, log: bool, shown: Shown) -> str:
    lines = [ChartLine(f"run {run.number}", *run.curve(name), k) for k, run in enumerate(runs) if name in run.curves]
    drawing = shown(line_chart(lines, f"{name} of {', '.join(line.name for line in lines)}", 420, 180, log=log))
    legend = " ".join(f"<span>{shown(key(line.number))} {line.name}</span>" for line in lines)
    style = "margin:4px 16px 4px 0"
    titles = {f"run {run.number}": run.nan_title for run in runs}
    missing = ((line.name, _missing(line, log, name), titles[line.name]) for line in lines)
    notes = "".join(
        f"<br/><small>{escape(f'{run}: ' + '; '.join(filter(None, (title, why))))}</small>"
        for run, why, title in missing
        if why
    )
    return f'<figure style="{style}"><figcaption><b>{escape(name)}</b> {legend}{notes}</figcaption>{drawing}</figure>'


def _missing(line: ChartLine, log: bool, name: str) -> str:
    """What of a curve cannot be drawn."""
    finite, nan = np.isfinite(line.values), np.isnan(line.values)
    if not finite.any():
        return f"{name} is {'NaN' if nan.all() else 'NaN or Inf'} in every step, nothing to draw"
    if log and not (line.values[finite] > 0).any():
        return f"{name} has nothing above 0, which a log scale could show"
    if not nan.any():
        return ""
    count = int(nan.sum())
    of_so_many = f", the first of {count:,}" if count > 1 else ""
    return f"{name} is NaN at step {line.steps[nan.argmax()]:,.0f}{of_so_many}"


def key(number: int) -> str:
    """What the line of a run looks like."""
    dashes = f' stroke-dasharray="{dash(number)}"' if dash(number) else ""
    line = f'<path d="M0 5H22" stroke="{color(number)}" stroke-width="2"{dashes}/>'
    return f'<svg width="22" height="10" aria-hidden="true">{line}</svg>'
