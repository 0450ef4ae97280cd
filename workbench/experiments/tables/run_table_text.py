"""The table of runs as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.tables.run_columns import cell, head, short_apart
from workbench.framework.text.printable import escape, printable

SHOWN = 30  # runs at most


def as_text(runs: Sequence[RecordedRun], shown: Sequence[str], columns: int) -> str:
    """A table for terminals, and for notebooks where HTML is not shown.

    Args:
        shown: the columns to show, of so many as there are.
    """
    if not runs:
        return "no runs"
    heads, lines = _cells(runs, shown)
    widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [heads, *lines]
    ]
    return "\n".join([*(line.rstrip() for line in padded), *_more(len(runs), columns - len(shown))])


def as_html(runs: Sequence[RecordedRun], shown: Sequence[str], columns: int) -> str:
    """The same; escaped, so that names and notes cannot bring markup of their own."""
    if not runs:
        return "<p>no runs</p>"
    heads, lines = _cells(runs, shown)
    whole = [[cell(run, column) for column in shown] for run in runs[:SHOWN]]
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{titled(c, text)}</td>' for c, text in zip(line, texts, strict=True))}</tr>"
        for line, texts in zip(lines, whole, strict=True)
    )
    more = "".join(f"<p>{escape(line)}</p>" for line in _more(len(runs), columns - len(shown)))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _more(runs: int, hidden: int) -> list[str]:
    columns = [f"{hidden:,} more columns: show('name', …), or %runs --columns name …"] if hidden > 0 else []
    return ([f"… {runs - SHOWN:,} more runs"] if runs > SHOWN else []) + columns


def _cells(runs: Sequence[RecordedRun], columns: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    texts = [short_apart([_line(cell(run, c)) for run in runs[:SHOWN]]) for c in columns]
    return [_line(head(c)) for c in columns], [list(line) for line in zip(*texts, strict=True)]


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")


def titled(shown: str, text: str) -> str:
    """As HTML, with the whole text as its title where it is cut."""
    return escape(shown) if shown == text else f'<span title="{escape(text)}">{escape(shown)}</span>'
