"""The table of runs as text and as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from workbench.experiments.run_columns import cell, head, short_apart

if TYPE_CHECKING:
    from workbench.experiments.run_table import Runs

SHOWN = 30  # runs at most


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
    whole = [[cell(run, column) for column in found.shown] for run in list(found)[:SHOWN]]
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{titled(c, text)}</td>' for c, text in zip(line, texts, strict=True))}</tr>"
        for line, texts in zip(lines, whole, strict=True)
    )
    more = "".join(f"<p>{escape(line)}</p>" for line in _more(found))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _more(found: Runs) -> list[str]:
    hidden = len(found.columns) - len(found.shown)
    columns = [f"{hidden:,} more columns: show('name', …), or %runs --columns name …"] if hidden > 0 else []
    return ([f"… {len(found) - SHOWN:,} more runs"] if len(found) > SHOWN else []) + columns


def _cells(found: Runs) -> tuple[list[str], list[list[str]]]:
    columns = found.shown
    shown = [short_apart([cell(run, c) for run in list(found)[:SHOWN]]) for c in columns]
    return [head(c) for c in columns], [list(line) for line in zip(*shown, strict=True)]


def titled(shown: str, text: str) -> str:
    """As HTML, with the whole text as its title where it is cut."""
    return escape(shown) if shown == text else f'<span title="{escape(text)}">{escape(shown)}</span>'
