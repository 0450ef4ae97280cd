"""What `%program` shows: a list of programs, or one program as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.framework.program.program import Program
from workbench.framework.text.printable import escape
from workbench.notebook.programs.summary import CODE, Amount, count, memory_text, ops_by_role, roles_text

HEADINGS = ("name", "operators", "parameters", "memory", "feeds")


@dataclass(frozen=True)
class Listing:
    """The programs of a notebook, one row each: operators, parameters and feeds."""

    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(programs: Mapping[str, Program]) -> Listing:
        """A row for every name."""
        return Listing(tuple(_row(name, program) for name, program in programs.items()))

    def __repr__(self) -> str:
        if not self.rows:
            return "no program has been built yet; start with %%static_program"
        table = [HEADINGS, *self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(HEADINGS))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table)

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(repr(self))}</p>"
        style = 'style="text-align:left"'
        head = "".join(f"<th {style}>{escape(h)}</th>" for h in HEADINGS)
        cells = ("".join(f"<td {style}>{escape(text)}</td>" for text in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f'<table style="margin:0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row(name: str, program: Program) -> tuple[str, ...]:
    ops = roles_text(ops_by_role(program))
    amount = Amount.of(program.all_parameters())
    feeds = ", ".join(v.name for v in program.list_vars() if v.is_data)
    return name, ops, count(amount.elements, "element"), memory_text(amount.bytes), feeds


@dataclass(frozen=True)
class Printed:
    """A program's text."""

    text: str

    @staticmethod
    def of(program: Program, details: bool = False) -> Printed:
        """The text of a program; `details` prints every attribute and where each operator was built."""
        return Printed(program.to_string(with_details=details))

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        # Long operator lines are scrolled, not wrapped: a line is an operator.
        style = f"{CODE}; white-space:pre; overflow-x:auto; line-height:1.35; margin:0; background:none"
        return f'<pre style="{style}">{escape(repr(self))}</pre>'
