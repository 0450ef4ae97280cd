"""The buttons while a cell runs, and when the kernel is gone, in JupyterLab.

`python -m tests.browser.other_kernels` repeats it with other versions of ipykernel, which receive messages otherwise.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser.dashboard_screenshot import press
from tests.browser.kernel import Kernel
from tests.browser.lab_server import PATIENCE_S, LabServer, NotebookPage, opened, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(420)]

HEARS_ALWAYS = int(version("ipykernel").split(".")[0]) >= 7  # it receives on a thread of its own
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}

SETUP = """%load_ext workbench
import os, time
import numpy as np
import workbench as wb
from workbench import static

called, ended = {}, []

def note_end(result):
    if result.info.raw_cell:  # somebody who asks for a value runs an empty one
        ended.append(time.time())

get_ipython().events.register("post_run_cell", note_end)

def note(run):
    def noted(name, real):
        def call(*arguments):
            called.setdefault(name, time.time())
            return real(*arguments)
        return call
    for name in ("pause", "resume", "stop"):
        setattr(run, name, noted(name, getattr(run, name)))

class Calm(list):  # leaves the processors to the page that is waited for
    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.005)
            yield batch

batches = Calm([{"x": np.ones((4, 3), np.float32)}] * 4)
"""
NET = """%%static_program net
x = static.data("x", [None, 3])
loss = wb.mean(wb.square(static.nn.fc(x, 1)))
wb.optimizer.SGD(0.01).minimize(loss)
"""
SHOW = "dash = wb.dashboard(net)\ndash"


class Busy:
    """A notebook with a dashboard, and cells that keep its kernel busy."""

    def __init__(self, page: NotebookPage, server: LabServer) -> None:
        self.notebook, self.page = page, page.page
        page.run_all(PATIENCE_S)
        self.kernel = Kernel(server.connection_file(page.name))
        self.board = self.page.locator(".wb-dashboard").first
        self.button("Run", "false").wait_for()

    def button(self, name: str, closed: str) -> Any:
        """A button of the controls that is closed, or is not."""
        named = f"[aria-disabled='{closed}']:has-text('{name}')"
        return self.board.get_by_role("toolbar", name="run").locator(f"button{named}")

    def begin_run(self) -> None:
        begin = "run = dash.start(steps=10**9, data='batches'); note(run); called.clear()"
        self.kernel.value(f"exec({begin!r}, globals())")
        self.button("Pause", "false").wait_for()

    @contextmanager
    def busy(self, cell: str) -> Iterator[None]:
        """A new cell runs in the `with` body; leaving waits for its end."""
        self.page.evaluate(
            """source => { const notebook = notebookPanel().content;
            notebook.activeCellIndex = notebook.widgets.length - 1;
            window.cellEnded = null;
            jupyterapp.commands.execute('notebook:insert-cell-below').then(() => {
              notebook.activeCell.model.sharedModel.setSource(source);
              return jupyterapp.commands.execute('notebook:run-cell');
            }).then(() => { window.cellEnded = true; }, error => { window.cellEnded = String(error); }); }""",
            cell,
        )
        status = "notebookPanel().sessionContext.session.kernel.status === 'busy'"
        self.page.wait_for_function(status)
        time.sleep(0.5)
        yield
        self.page.wait_for_function("window.cellEnded === true")

    def click(self, name: str) -> float:
        """Press a button; returns when, by the clock that kernel and page share."""
        noted = "() => addEventListener('click', () => { window.clicked = Date.now(); }, {capture: true, once: true})"
        self.button(name, "false").wait_for()
        self.page.evaluate(noted)
        press(self.board, name)
        return self.page.evaluate("window.clicked") / 1000

    def said(self, words: str) -> Any:
        return self.board.get_by_text(words, exact=False).first

    def heard(self, cell: str, clicked: dict[str, float]) -> None:
        """Checks that each click called the run's method before the cell ended, and prints what it took."""
        called, ended = self.kernel.value("called"), self.kernel.value("ended[-1]")
        took = {name: called[name] - at for name, at in clicked.items()}
        print(f"{cell}: " + ", ".join(f"{name} after {seconds * 1e3:.0f} ms" for name, seconds in took.items()))
        assert [name for name in clicked if not clicked[name] <= called[name] < ended] == []


@pytest.fixture(scope="module")
def page(browser: Any, lab_server: LabServer) -> Iterator[Busy]:
    cells = [new_code_cell(source) for source in (SETUP, NET, SHOW)]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, lab_server.folder / "busy.ipynb")
    with opened(browser, lab_server, "busy.ipynb", 1400, 1400) as shown:
        busy = Busy(shown, lab_server)
        try:
            yield busy
        finally:
            busy.kernel.stop()


@pytest.fixture
def busy(page: Busy) -> Iterator[Busy]:
    yield page
    page.kernel.value("[run.stop() for run in dash.runs] and None")
    page.kernel.value(f"[run.wait({PATIENCE_S}) for run in dash.runs] and None")
    page.button("Run", "false").wait_for()  # the page has heard of it, too


def test_outputs_that_are_scrolled_leave_a_dashboard_most_of_the_window(page: Busy) -> None:
    scroll = "on => { notebookPanel().content.widgets[2].outputsScrolled = on; }"
    box = "document.querySelector('.jp-Cell-outputArea:has(.wb-dashboard)').clientHeight / innerHeight"
    page.page.evaluate(scroll, True)
    page.page.wait_for_function("document.querySelector('.jp-mod-outputsScrolled .wb-dashboard') !== null")
    share = page.page.evaluate(box)
    page.page.evaluate(scroll, False)
    assert 0.6 < share <= 0.9


def test_buttons_while_a_cell_waits_for_the_run(busy: Busy) -> None:
    busy.begin_run()
    clicked = {}
    with busy.busy(f"run.wait({PATIENCE_S})"):
        clicked["pause"] = busy.click("Pause")
        clicked["resume"] = busy.click("Resume")
        clicked["stop"] = busy.click("Stop")
    busy.heard("run.wait()", clicked)


def test_buttons_while_a_cell_trains(busy: Busy) -> None:
    busy.begin_run()
    clicked = {}
    with busy.busy("%train net batches --steps 1000000000"):
        clicked["pause"] = busy.click("Pause")
        clicked["resume"] = busy.click("Resume")
        clicked["stop"] = busy.click("Stop")
        busy.board.get_by_text("1 device: cpu:0", exact=False).first.wait_for()  # the dashboard shows the cell's run
        busy.click("Stop")
    busy.heard("%train", clicked)


def test_buttons_between_the_steps_of_a_loop(busy: Busy) -> None:
    busy.begin_run()
    clicked = {}
    loop = f"""exe = static.CompiledProgram(net).with_data_parallel(loss.name, places=static.cpu_places(2))
end = time.time() + {PATIENCE_S}
while "stop" not in called and time.time() < end:
    static.Executor().run(exe, feed=batches[0], fetch_list=[loss])"""
    with busy.busy(loop):
        clicked["pause"] = busy.click("Pause")
        clicked["resume"] = busy.click("Resume")
        clicked["stop"] = busy.click("Stop")
    busy.heard("a loop", clicked)


def test_a_click_while_a_cell_computes_something_else(busy: Busy, tmp_path: Path) -> None:
    """Where it cannot be heard it is given up: a run must not begin when nobody expects it any more."""
    count = busy.kernel.value("len(dash.runs)")
    goes_on = f"len(dash.runs) == {count}" if HEARS_ALWAYS else f"not os.path.exists({str(tmp_path / 'end')!r})"
    loop = f"end = time.time() + {PATIENCE_S}\nwhile {goes_on} and time.time() < end: pass"
    with busy.busy(f"{loop}\nheard = len(dash.runs)"):
        busy.click("Run")
        if HEARS_ALWAYS:
            busy.button("Pause", "false").wait_for()
        else:
            busy.said("The kernel is busy with a cell; run waits").wait_for()
            busy.said("run was not done: the kernel was busy").wait_for()
            (tmp_path / "end").touch()
    assert not HEARS_ALWAYS or busy.kernel.value("heard") == count + 1  # begun before the cell ended
    time.sleep(1.0)
    assert busy.kernel.value("len(dash.runs)") == count + HEARS_ALWAYS


def test_a_page_without_a_kernel_says_so_and_how_to_go_on(page: Busy, lab_server: LabServer) -> None:
    page.begin_run()
    page.page.evaluate("notebookPanel().sessionContext.session.kernel.restart()")
    says_so(page, "The kernel was restarted.")
    page.kernel.stop()
    wait_for(lambda: lab_server.kernel_ready(page.notebook.name), PATIENCE_S, "the new kernel")
    again = Busy(page.notebook, lab_server)  # as the page says: all cells, and it is back
    again.begin_run()
    os.kill(again.kernel.value("os.getpid()"), signal.SIGKILL)
    says_so(again, "The kernel died and was started again.")
    again.kernel.stop()
    again.page.evaluate("notebookPanel().sessionContext.shutdown()")
    says_so(again, "The kernel was shut down.")


def says_so(busy: Busy, words: str) -> None:
    told = busy.board.get_by_role("alert", name="kernel")
    told.get_by_text(words, exact=True).wait_for()
    assert "run the cells of the notebook again, up to In [3]: dash" in told.inner_text()
    assert busy.board.get_by_text("running", exact=True).count() == 0
    assert busy.board.get_by_text("steps/s").count() == 0
    assert [busy.button(name, "true").count() for name in ("Pause", "Step", "Stop", "Drop scopes")] == [1, 1, 1, 1]
