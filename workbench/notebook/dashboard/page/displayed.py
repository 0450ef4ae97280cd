"""Executors, programs and runs show their dashboard as the last value of a cell, tables of runs a table to work with;
an interrupt stops the runs."""

from __future__ import annotations

import signal
from typing import Any

from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.parallel import ParallelExecutor
from workbench.experiments.launch.sweep import Sweep
from workbench.experiments.run import Run
from workbench.experiments.tables.run_table import Runs
from workbench.framework.program.program import Program
from workbench.notebook.dashboard.page.dashboard import dashboard, live_runs
from workbench.notebook.runs.table import RunTable
from workbench.notebook.steps.training import PRINTED

SHOWN = (ParallelExecutor, CompiledProgram, Program, Run)
TABLES = (Runs, Sweep)


def show_in(shell: Any) -> None:
    """Have a notebook's shell show dashboards; a terminal goes on printing."""
    if getattr(shell, "kernel", None) is None:
        return
    formatter = shell.display_formatter.ipython_display_formatter
    for kind in SHOWN:
        formatter.for_type(kind, _page)
    for table in TABLES:
        formatter.for_type(table, _table)
    _stop_on_interrupt(shell.kernel)


def show_no_more(shell: Any) -> None:
    """Take that back."""
    formatter = shell.display_formatter.ipython_display_formatter
    for kind in SHOWN:
        if formatter.type_printers.get(kind) is _page:
            formatter.pop(kind)
    for table in TABLES:
        if formatter.type_printers.get(table) is _table:
            formatter.pop(table)


def _page(target: Any) -> None:
    if isinstance(target, Run) and target in PRINTED:
        PRINTED.discard(target)  # shown once more it shows its dashboard
        raise NotImplementedError  # it is one line, as the value of a cell that anything else is
    if isinstance(target, Run) and target.program is None:
        raise NotImplementedError  # there is nothing to show but that line
    dashboard(target)._ipython_display_()


def _table(target: Runs | Sweep) -> None:
    runs = target if isinstance(target, Runs) else target.runs
    if not len(runs):
        raise NotImplementedError  # there is nothing to work with
    RunTable(runs).show(repr(target), target._repr_html_())


def _stop_on_interrupt(kernel: Any) -> None:
    """Between cells a kernel ignores interrupts; ours stop what trains in the background.

    A kernel puts back, after every cell, the handler that was there before it: this is where ours is put.
    """
    if hasattr(kernel, "saved_sigint_handler"):
        kernel.saved_sigint_handler = _stop_all


def _stop_all(number: int = signal.SIGINT, frame: Any = None) -> None:
    for run in live_runs():
        run.stop()
