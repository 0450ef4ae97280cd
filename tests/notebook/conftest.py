"""A notebook without a front end: cells run in a headless IPython shell, what they show is kept."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from workbench.framework import names
from workbench.framework.program import guard
from workbench.runtime.storage.scope import Scope, scope_guard

IMPORTS = """
import numpy as np
import workbench as wb
from workbench import static
"""


@dataclass
class Notebook:
    """Runs cells one after another.

    Attributes:
        shown: what the last cell displayed, as objects.
        printed: its stdout and stderr, tracebacks included.
    """

    shell: InteractiveShell
    read: Callable[[], tuple[str, str]]
    shown: list[Any] = field(default_factory=list)
    printed: str = ""

    def run(self, cell: str) -> Any:
        """Run a cell that has to succeed; returns the value of its last line."""
        result = self._run(cell)
        assert result.success, self.printed
        return result.result

    def fail(self, cell: str) -> BaseException:
        """Run a cell that has to raise; returns the exception."""
        result = self._run(cell)
        error = result.error_in_exec or result.error_before_exec
        assert error is not None, "the cell succeeded"
        return error

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.shell.user_ns

    def _run(self, cell: str) -> Any:
        publish = self.shell.display_pub.publish
        self.shown = []
        self.shell.display_pub.publish = lambda data, *args, **kwargs: self.shown.append(data)
        try:
            return self.shell.run_cell(cell, store_history=True)
        finally:
            self.shell.display_pub.publish = publish
            self.printed = "".join(self.read())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A fresh shell, a fresh scope, and default programs and names nobody else sees."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=settings)
    main, startup = guard.Program(), guard.Program()
    try:
        with scope_guard(Scope()), guard.program_guard(main, startup), names.guard():
            yield shell
    finally:
        shell.run_cell("%unload_ext workbench", silent=True)
        InteractiveShell.clear_instance()
        atexit.unregister(shell.atexit_operations)


@pytest.fixture
def notebook(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Notebook:
    """A notebook with the extension loaded and the usual imports done."""
    notebook = Notebook(shell, lambda: tuple(capsys.readouterr()))  # type: ignore[arg-type,return-value]
    notebook.run("%load_ext workbench")
    notebook.run(IMPORTS)
    return notebook
