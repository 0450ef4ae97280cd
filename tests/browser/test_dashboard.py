"""The dashboard in JupyterLab, used as a person uses it: what the page shows is compared with what the kernel knows."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.dashboard_screenshot import NOTEBOOK, choose, press, run_to_dashboard
from tests.browser.kernel import Kernel
from tests.browser.lab_server import PATIENCE_S, LabServer, NotebookPage, opened, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(420)]

PICTURES = Path(os.environ.get("WORKBENCH_PICTURES", "")) if os.environ.get("WORKBENCH_PICTURES") else None
SHOWN = 6  # index of the cell with the dashboard
GIVEN_UP = (
    "Error: widget model not found"  # JupyterLab's word on a page that was too busy; ours comes back all the same
)
DISPOSED = "Failed to update the table of contents"  # JupyterLab's word of a notebook that was closed meanwhile
# A page that is too busy to look for widgets, which JupyterLab does every 100 ms for two seconds, until `wake`.
SLEEPY = """(real => {
  const held = [];
  window.setTimeout = (act, wait, ...more) =>
    wait === 100 ? -held.push(() => real(act, 0, ...more)) : real(act, wait, ...more);
  window.wake = () => { window.setTimeout = real; held.forEach(act => act()); };
})(window.setTimeout)"""
RESTORED = """notebookPanel()?.content.rendermime
  .createRenderer("application/vnd.jupyter.widget-view+json")?._manager?.promise?.then(found => found.restoredStatus)"""


class Session:
    """The dashboard notebook in JupyterLab, its kernel asked beside it.

    Attributes:
        page: the notebook; board: the dashboard on it; dash: the same in Python; errors: what the page complained of.
    """

    def __init__(self, page: NotebookPage, server: LabServer, errors: list[str]) -> None:
        self.page, self.server, self.errors = page, server, errors
        self.board = run_to_dashboard(page)
        self.kernel = Kernel(server.connection_file(page.name))
        self.dash = "wb.dashboard()"

    def value(self, expression: str) -> Any:
        return self.kernel.value(expression)

    def state(self) -> str:
        return self.value(f"str({self.dash}.run.state)")

    def step(self) -> int:
        return self.value(f"{self.dash}.run.step")

    def begin(self, steps: int, until: str) -> None:
        """Choose a number of steps, press Run, and wait until the new run is `run` in an expression that holds."""
        count = self.value(f"len({self.dash}.runs)")
        choose(self.board, "steps", str(steps))
        press(self.board, "Run")
        begun = f"[run for run in {self.dash}.runs[{count}:] if {until}] != []"
        self.wait(lambda: self.value(begun), f"a run of which {until}")

    def slow_down(self) -> None:
        """The run leaves the processors to the page that is waited for."""
        self.value(f"{self.dash}.run.subscribe(lambda run: __import__('time').sleep(0.01))")

    def end(self) -> None:
        """Stop what goes on."""
        self.value(f"[run.stop() for run in {self.dash}.runs] and None")
        self.wait(lambda: self.value(f"all(run.finished for run in {self.dash}.runs)"), "the end of all runs")

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_for(condition, PATIENCE_S, what)

    def curves(self) -> list[str]:
        """The lines of the curves panel."""
        paths = "panel => [...panel.querySelectorAll('svg path')].map(path => path.getAttribute('d'))"
        return self.board.locator(".wb-curves").evaluate(paths)

    def picture(self, name: str) -> None:
        """Kept where WORKBENCH_PICTURES says, to be looked at."""
        if PICTURES is not None:
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.board.screenshot(path=str(PICTURES / f"{name}.png"))


@pytest.fixture(scope="module")
def opened_once(browser: Any, lab_server: LabServer) -> Iterator[Session]:
    """One page for the tests that leave it as it was but for ended runs."""
    notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
    with session(browser, lab_server, "one page.ipynb", notebook) as lab:
        yield lab


@pytest.fixture
def shared(opened_once: Session) -> Iterator[Session]:
    yield opened_once
    opened_once.end()


@pytest.fixture
def notebook(browser: Any, lab_server: LabServer) -> Iterator[Session]:
    """A page of its own, of the cells up to the first dashboard."""
    notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
    notebook.cells = notebook.cells[: SHOWN + 1]
    with session(browser, lab_server, NOTEBOOK.name, notebook) as lab:
        yield lab


@contextmanager
def session(browser: Any, server: LabServer, name: str, notebook: Any) -> Iterator[Session]:
    """The dashboard notebook, or a part of it; no error may be left on its page."""
    nbformat.write(notebook, server.folder / name)
    with opened(browser, server, name, 1400, 2300) as page:
        errors: list[str] = []
        page.page.on("console", lambda line: line.type == "error" and errors.append(line.text))
        page.page.on("pageerror", lambda error: errors.append(str(error)))
        lab = Session(page, server, errors)
        try:
            yield lab
            noise = ("favicon", "net::ERR_ABORTED", GIVEN_UP, DISPOSED)
            assert [text for text in errors if not any(word in text for word in noise)] == []
        finally:
            lab.kernel.stop()


def answered(session: Session, button: str, method: str) -> tuple[float, str]:
    """Press a button; returns the seconds until the run's method is called, and the state of the run at the call."""
    session.value(
        f"exec('import time\\nrun = {session.dash}.run\\nreal = run.{method}\\n"
        f"def noted():\\n    global called\\n    called = time.time(), str(run.state)\\n    real()\\n"
        f"called = None\\nrun.{method} = noted', globals())"
    )
    noted = "() => addEventListener('click', () => { window.clicked = Date.now(); }, {capture: true, once: true})"
    session.page.page.evaluate(noted)
    press(session.board, button)
    session.wait(lambda: session.value("called is not None"), button)
    at, state = session.value("called")
    return at - session.page.page.evaluate("window.clicked") / 1000, state


def test_a_second_view_of_what_stands_still_shows_everything(shared: Session) -> None:
    page = shared.page.page
    shared.page.show_cell(SHOWN)
    page.evaluate(f"notebookPanel().content.activeCellIndex = {SHOWN}")
    page.evaluate("jupyterapp.commands.execute('notebook:create-output-view')")
    shared.wait(lambda: page.locator(".wb-dashboard").count() == 2, "a second view")
    other = page.locator(".wb-dashboard").last
    other.locator("[data-group]").first.wait_for()
    parts = "[data-group], [data-node]"
    assert other.locator(parts).count() == shared.board.locator(parts).count()
    page.evaluate("[...jupyterapp.shell.widgets('main')].at(-1).close()")
    shared.wait(lambda: page.locator(".wb-dashboard").count() == 1, "the end of the second view")


def test_a_run_is_begun_held_stepped_and_stopped(shared: Session) -> None:
    board = shared.board
    groups = board.locator("[data-group]")
    before = groups.count()
    assert before >= 4  # forward and backward of two devices
    groups.first.click()
    shared.wait(lambda: board.locator("[data-node], [data-group]").count() > before, "a group to open")

    shared.begin(200_000, "run.step > 100")
    shared.slow_down()
    drawn = shared.curves()
    shared.wait(lambda: shared.curves() != drawn, "the curve to move")

    took, state = answered(shared, "Pause", "pause")
    assert state == "running"
    shared.wait(lambda: shared.state() == "paused", "the pause")
    board.get_by_text("paused", exact=True).first.wait_for()
    held = shared.step()
    shared.picture("paused")
    for steps in (1, 2):
        press(board, "Step")
        shared.wait(lambda: shared.step() == held + steps, "a step")  # noqa: B023
        time.sleep(0.3)
        assert (shared.step(), shared.state()) == (held + steps, "paused")
    press(board, "Drop scopes")
    board.get_by_text(re.compile(r"dropped .*B of temporaries")).wait_for()
    assert shared.value(f"{shared.dash}.run.executor.inspection.last is None")

    press(board, "Resume")
    shared.wait(lambda: shared.step() > held + 100, "steps after the pause")
    stop, state = answered(shared, "Stop", "stop")
    assert state == "running"
    shared.wait(lambda: shared.state() == "stopped", "the end")
    print(f"pause answered after {took * 1e3:.0f} ms, stop after {stop * 1e3:.0f} ms")

    choose(board, "devices", "3")
    choose(board, "steps", "60")
    board.get_by_label("reduce strategy", exact=True).select_option("Reduce")
    press(board, "Run")
    second = "len(wb.dashboard().runs) == 2 and wb.dashboard().run.state == 'done'"
    shared.wait(lambda: shared.value(second), "a second run")
    assert shared.value(f"len({shared.dash}.run.executor.inspection.places)") == 3
    board.get_by_text("3 devices: cpu:0, cpu:1, cpu:2 · Reduce").wait_for()
    number = shared.value("wb.runs()[:1].rows(['number'])[0]['number']")
    board.get_by_text(f"run {number}: net, 3 devices, Reduce").first.wait_for()
    for part in ("cpu:0: rows 0 to 20", "cpu:1: rows 21 to 41", "cpu:2: rows 42 to 64"):
        board.locator(".wb-feeds title", has_text=part).wait_for(state="attached")
    shared.picture("three devices")


def test_a_node_tells_what_it_is_and_what_it_makes(shared: Session) -> None:
    board, page = shared.board, shared.page.page
    shared.begin(50, "run.state == 'done'")
    search = board.get_by_label("search the graph", exact=False)
    search.fill("conv2d")
    search.press("Enter")
    details = board.get_by_label("selected node")
    details.get_by_text("conv2d", exact=False).first.wait_for()
    details.get_by_text("static.nn.conv2d(image, 16, 3").wait_for()
    assert "[" in details.get_by_text("float32").first.inner_text()
    details.get_by_role("button", name="value statistics").click()
    details.get_by_text("mean", exact=True).first.wait_for()
    shared.picture("node")
    page.keyboard.press("d")
    page.keyboard.press("d")  # in command mode this would delete the cell
    assert sum(cell["cell_type"] == "code" for cell in shared.page.cells()) == 24


def test_a_page_that_is_loaded_again_still_steers_the_run(notebook: Session) -> None:
    page = notebook.page.page
    notebook.page.run_all(PATIENCE_S)  # a notebook is trusted, its widgets come back, when all of it has been run here
    notebook.board = page.locator(".wb-dashboard").first
    notebook.board.scroll_into_view_if_needed()
    notebook.begin(1_000_000, "run.step > 50")
    notebook.slow_down()
    notebook.page.save()
    notebook.page.reload()
    shown_again(notebook)
    press(notebook.board, "Pause")
    notebook.wait(lambda: notebook.state() == "paused", "the pause")
    press(notebook.board, "Resume")
    notebook.wait(lambda: notebook.state() == "running", "the run to go on")

    page.add_init_script(SLEEPY)
    notebook.page.reload()
    notebook.page.show_cell(SHOWN)
    page.wait_for_function(RESTORED)
    page.wait_for_timeout(2500)
    page.evaluate("wake()")
    shown_again(notebook)
    assert any(GIVEN_UP in text for text in notebook.errors)
    assert page.get_by_text("model not found").filter(visible=True).count() == 0
    press(notebook.board, "Stop")
    notebook.wait(lambda: notebook.state() == "stopped", "the end")


def shown_again(notebook: Session) -> None:
    notebook.page.show_cell(SHOWN)
    notebook.board = notebook.page.page.locator(".wb-dashboard").first
    notebook.board.get_by_text("running", exact=True).first.wait_for()


def test_a_tab_that_is_closed_unsaved_leaves_the_run_to_a_new_cell(notebook: Session) -> None:
    page = notebook.page.page
    notebook.begin(1_000_000, "run.step > 50")
    notebook.slow_down()
    notebook.page.discard()
    page.wait_for_function("notebookPanel().sessionContext.session.kernel.status === 'idle'")
    before = notebook.step()
    page.evaluate(
        """() => { const notebook = notebookPanel().content;
        notebook.activeCellIndex = 0;
        notebook.activeCell.model.sharedModel.setSource('wb.dashboard()');
        notebook.widgets[0].model.type === 'code' || jupyterapp.commands.execute('notebook:change-cell-to-code');
        return jupyterapp.commands.execute('notebook:run-cell'); }"""
    )
    notebook.board = page.locator(".wb-dashboard").first
    notebook.board.wait_for()
    notebook.wait(lambda: notebook.step() > before, "the run to go on")
    press(notebook.board, "Stop")
    notebook.wait(lambda: notebook.state() == "stopped", "the end")


def test_an_interrupt_between_cells_stops_the_run_at_a_step_boundary(shared: Session) -> None:
    shared.begin(1_000_000, "run.step > 50")
    shared.page.page.evaluate("jupyterapp.commands.execute('notebook:interrupt-kernel')")
    shared.wait(lambda: shared.state() == "stopped", "the end")
    assert shared.value(f"{shared.dash}.run.step == {shared.dash}.run.executor.inspection.steps")


def test_dark_theme_and_two_dashboards_at_once(shared: Session) -> None:
    page, board = shared.page.page, shared.board
    shared.begin(1_000_000, "run.step > 50")
    shared.slow_down()
    bright = board.evaluate("board => getComputedStyle(board).backgroundColor")
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    try:
        shared.wait(lambda: board.evaluate("b => getComputedStyle(b).backgroundColor") != bright, "the dark theme")
        widths = "b => [...b.querySelectorAll('.wb-chart-drawing')].map(s => s.clientWidth)"
        shared.wait(lambda: min(board.evaluate(widths), default=0) > 200, "charts as wide as before")
        shared.picture("dark")
    finally:
        page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
        shared.wait(lambda: board.evaluate("b => getComputedStyle(b).backgroundColor") == bright, "the bright theme")
    page.evaluate("jupyterapp.commands.execute('notebook:create-output-view')")
    shared.wait(lambda: page.locator(".wb-dashboard").count() == 2, "a second view")
    other = page.locator(".wb-dashboard").last
    other.get_by_text("running", exact=True).first.wait_for()
    press(other, "Stop")
    shared.wait(lambda: shared.state() == "stopped", "the end")
    board.get_by_text("stopped", exact=True).first.wait_for()
