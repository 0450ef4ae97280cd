"""A kernel that receives its messages on the main thread, as ipykernel 6 does, without one: when it is looked at."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from workbench import between
from workbench.notebook.dashboard.page.line import KernelLine


class Stream:
    """Passes on what has come when it is flushed; Ctrl-C comes in the middle of that if it is asked to."""

    def __init__(self) -> None:
        self.passed_on: list[Any] = []
        self._recv_callback: Callable[[Any], Any] = self.passed_on.append
        self.come: list[Any] = []
        self.interrupt = False

    def on_recv(self, callback: Callable[[Any], Any], copy: bool) -> None:
        self._recv_callback = callback

    def flush(self, flag: int) -> None:
        while self.come:
            frames = self.come.pop(0)
            if self.interrupt:
                signal.raise_signal(signal.SIGINT)
            self._recv_callback(frames)


class Cells:
    """The events of a shell."""

    def __init__(self) -> None:
        self._callbacks: dict[str, Callable[[Any], None]] = {}

    def register(self, name: str, callback: Callable[[Any], None]) -> None:
        self._callbacks[name] = callback

    def begin(self) -> None:
        self._callbacks["pre_run_cell"](None)

    def end(self) -> None:
        self._callbacks["post_run_cell"](None)


@pytest.fixture
def kernel() -> Iterator[tuple[Stream, Cells]]:
    """Its stream and its cells; the first cell is running, and has made a page."""
    stream, cells = Stream(), Cells()
    KernelLine(SimpleNamespace(kernel=SimpleNamespace(shell_stream=stream, session=None), events=cells))
    yield stream, cells
    between.let_visit(None)


def looked(stream: Stream) -> bool:
    """Whether a wait looks at what has come."""
    stream.come, stream.passed_on[:] = ["frames that no session can read"], []
    between.rest(0.0)
    return stream.passed_on != []


def test_it_is_looked_at_while_a_cell_runs_whatever_cells_that_runs(kernel: tuple[Stream, Cells]) -> None:
    stream, cells = kernel
    assert looked(stream)
    cells.end()
    assert not looked(stream)  # the kernel does it itself
    cells.begin()
    cells.begin()
    cells.end()
    assert looked(stream)
    cells.end()
    assert not looked(stream)
    cells.end()  # of a cell that loaded the extension in the middle
    cells.begin()
    assert looked(stream)


def test_an_interrupt_loses_no_message(kernel: tuple[Stream, Cells]) -> None:
    stream, _ = kernel
    stream.come, stream.interrupt = ["first", "second"], True
    with pytest.raises(KeyboardInterrupt):
        between.rest(0.0)
    assert stream.passed_on == ["first", "second"]
    stream.interrupt = False
    assert looked(stream)
