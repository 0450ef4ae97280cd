"""The table of runs as a widget; those that are selected lie on top of each other below it.

The table itself is DataTables, in the widget that `itables` makes of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from workbench.experiments.charts.overlay import overlay_html
from workbench.experiments.charts.parallel_chart import parallel_chart, settings_of
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.tables.run_columns import cell, head, short_apart
from workbench.experiments.tables.run_table import Runs
from workbench.experiments.tables.run_table_text import titled
from workbench.framework.text.printable import escape
from workbench.notebook.programs.summary import count
from workbench.notebook.still import Still

MOST = 2000  # runs that the page gets
PAGE = 15  # rows at a time
GROUPS = ("notebook", "sweep", "program", "name", "state")
NONE = "nothing"
_WORD = re.compile(r"[^\s,;]+")
_STYLE = """<style>
.wb-runs .itables_anywidget, .wb-runs .dt-container, .wb-runs .dt-container tr > :first-child {
  background-color: var(--jp-layout-color0, Canvas); }
.wb-runs .dt-container table.dataTable > thead > tr > th { padding-right: 6px; }
.wb-runs .dt-container tr > :first-child { position: sticky; left: 0; z-index: 1; }
.wb-runs .dt-layout-table > .dt-layout-cell { padding-bottom: 4px; scrollbar-width: thin;
  scrollbar-color: var(--jp-ui-font-color3, #888) transparent;
  animation: wb-more linear; animation-timeline: scroll(self x);
  mask-image: linear-gradient(to left, transparent, #000 var(--wb-more)); }
@property --wb-more { syntax: "<length>"; inherits: false; initial-value: 0px; }
@keyframes wb-more { from { --wb-more: 48px; } 90% { --wb-more: 48px; } to { --wb-more: 0px; } }
</style>"""  # where there are more columns than room their edge fades; they scroll, and the numbers of the runs stay
_PRESENT_FIRST = """(() => {
  const order = window.$?.fn?.dataTable?.ext?.type?.order;
  if (!order) return undefined;
  const absence = x => (x === "" || x == null ? 2 : Number.isNaN(x) ? 1 : 0);
  const compared = (a, b) => typeof a === "number" && typeof b === "number"
    ? a - b || 0 : String(a).localeCompare(String(b));
  for (const [name, sign] of [["asc", 1], ["desc", -1]])
    order["present-first-" + name] = (a, b) => absence(a) - absence(b) || (absence(a) ? 0 : sign * compared(a, b));
  return "present-first";
})()"""  # a kind of column of which NaN, then nothing, comes last in both directions


class RunTable:
    """Runs to be looked through.

    Attributes:
        runs: what the table was made of.
        widget: what a notebook shows.
    """

    def __init__(self, runs: Runs) -> None:
        import ipywidgets

        self.runs = runs[:MOST]
        self._columns = _columns(self.runs)
        self._table = _table(self.runs, self._columns, None)
        self._group = ipywidgets.Dropdown(options=[NONE, *_groups(self.runs)], description="group by")
        self._numbers = ipywidgets.Text(  # what the mouse does, for the keyboard
            description="compare", placeholder="click rows, or numbers: 3 5", continuous_update=False
        )
        self._log = ipywidgets.Checkbox(description="log scale", indent=False)
        self._value = ipywidgets.Dropdown(options=_values(self.runs), description="plot")
        first = "chosen settings" if runs.over else "what tells most"
        self._over = ipywidgets.Dropdown(
            options=[(first, runs.over), *((name, [name]) for name in settings_of(self.runs))], description="over"
        )
        self._unknown, self._below, self._plot = (ipywidgets.HTML() for _ in range(3))
        self._group.observe(self._regroup, "value")
        self._table.observe(self._compare, "selected_rows")
        self._numbers.observe(self._select, "value")
        self._log.observe(self._compare, "value")
        for choice in (self._value, self._over):
            choice.observe(self._draw, "value")
        runs.select_by(lambda: self.selected)
        self._compare()
        self._draw()
        has_plot = bool(self._plot.value)
        self._still = Still()
        style = ipywidgets.HTML(f"{_STYLE}<style>{self._still.hidden}</style>", layout={"display": "none"})
        choices = ipywidgets.HBox([self._group, self._numbers, self._log])
        rows = [style, choices, self._unknown, self._table, self._below]
        rows += [ipywidgets.HBox([self._value, self._over]), self._plot] if has_plot else []
        self.widget = ipywidgets.VBox(rows, layout={"overflow": "auto"})
        self.widget.add_class("wb-runs")

    def show(self, words: str, seen: str) -> None:
        """Show it as what the running cell gives.

        Args:
            words: the table as text, seen: as HTML, for pages without widgets.
        """
        bundle: Any = self.widget._repr_mimebundle_()
        view = bundle if isinstance(bundle, tuple) else (bundle, {})
        said = ["The table of when the cell was run; run it again to sort and select."]
        self._still.show(view, f"a table of {count(len(self.runs), 'run')}", said, words, seen)

    @property
    def selected(self) -> list[RecordedRun]:
        """The runs that are selected, in the order of `runs`, however the page sorts them."""
        runs = list(self.runs)
        return [runs[row] for row in sorted(self._table.selected_rows) if row < len(runs)]

    def _select(self, change: Any) -> None:
        """Select the runs whose numbers are written, and tell what is no number of one."""
        wanted = list(dict.fromkeys(_WORD.findall(change["new"])))
        known = {str(run.number) for run in self.runs}
        self._table.selected_rows = [row for row, run in enumerate(self.runs) if str(run.number) in wanted]
        unknown = ", ".join(repr(word) for word in wanted if word not in known)
        self._unknown.value = f"<small>no number of a run in this table: {escape(unknown)}</small>" if unknown else ""

    def _compare(self, change: Any = None) -> None:
        self._numbers.value = " ".join(str(run.number) for run in self.selected)
        if not self.selected:
            self._below.value = "<small>click rows to lay their curves on top of each other</small>"
            return
        self._below.value = overlay_html(self.selected, self._log.value)

    def _regroup(self, change: Any) -> None:
        by = self._columns.index(change["new"]) if change["new"] != NONE else None
        before, self._table = self._table, _table(self.runs, self._columns, by)
        self._table.selected_rows = before.selected_rows
        self._table.observe(self._compare, "selected_rows")
        self.widget.children = [self._table if child is before else child for child in self.widget.children]
        before.close()

    def _draw(self, change: Any = None) -> None:
        self._plot.value = parallel_chart(self.runs, self._value.value, self._over.value) if self._value.value else ""


def _columns(runs: Runs) -> list[str]:
    """All of them, those that are shown first."""
    return list(dict.fromkeys([*runs.shown, *runs.columns]))


def _groups(runs: Runs) -> list[str]:
    """What tells some of these runs from others."""
    return [name for name in GROUPS if name in runs.columns and len({str(run.value(name)) for run in runs}) > 1]


def _values(runs: Runs) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.last))


def _table(runs: Runs, columns: Sequence[str], by: int | None) -> Any:
    """`by`: the position of the column by which rows are grouped."""
    from itables.widget import ITable

    shown = set(runs.shown)
    hidden = [k for k, name in enumerate(columns) if name not in shown]
    cells = [_column(runs, name) for name in columns]
    heads = "".join(f"<th>{escape(head(name))}</th>" for name in columns)
    options: dict[str, Any] = {  # rows as DataTables takes them, so that no data frame is needed
        "table_html": f"<thead><tr>{heads}</tr></thead>",
        "data_json": json.dumps(list(zip(*cells, strict=True)), allow_nan=False),
        "columnDefs": [*map(_definition, range(len(columns)), cells), {"targets": hidden, "visible": False}],
        "keys_to_be_evaluated": [["columnDefs", k, "type"] for k in range(len(columns))],
        "select": {"style": "multi", "info": True},
        "buttons": [{"extend": "colvis", "text": "columns"}],
        "layout": {"topStart": "buttons", "topEnd": "search", "bottomStart": "info", "bottomEnd": "paging"},
        "columnControl": [["orderAsc", "orderDesc", "search", "searchList"]],
        "text_in_header_can_be_selected": False,  # so that a click anywhere on a head sorts
        "pageLength": PAGE,
        "autoWidth": False,
        "classes": "display compact nowrap",
        "style": "width:100%;margin:0",
        "warn_on_undocumented_option": False,
    }
    return ITable(**options, **_grouped(by))


def _definition(column: int, cells: Sequence[list[Any]]) -> dict[str, Any]:
    """A cell is: what is shown, by what it is sorted, and in what is searched."""
    parts = {"_": f"{column}.0", "sort": f"{column}.1", "type": f"{column}.1", "filter": f"{column}.2"}
    definition = {"targets": column, "data": parts, "type": _PRESENT_FIRST}
    if not any(isinstance(by, int | float) for _, by, _ in cells):
        return definition
    numbers = ["orderAsc", "orderDesc", "searchNumber", "searchList"]
    return {**definition, "className": "dt-type-numeric", "columnControl": [numbers]}


def _grouped(by: int | None) -> dict[str, Any]:
    """Rows in the order of the runs, in groups of the same value of a column."""
    if by is None:
        return {"order": []}
    return {"order": [], "orderFixed": {"pre": [[by, "asc"]]}, "rowGroup": {"dataSrc": f"{by}.1"}}


def _column(runs: Runs, name: str) -> list[list[Any]]:
    """Its cells, without markup of the user's."""
    texts = [cell(run, name) for run in runs]
    shown = short_apart(texts)
    return [
        [titled(seen, text), _order(run.value(name), text), escape(text)]
        for run, seen, text in zip(runs, shown, texts, strict=True)
    ]


def _order(value: Any, text: str) -> Any:
    """By what a cell is sorted, as itables takes numbers that JSON has no word for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(value if isinstance(value, str) else text)
    if isinstance(value, float) and not math.isfinite(value):
        return f"___{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}___"
    return value
