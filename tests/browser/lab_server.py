"""JupyterLab as a person has it: `workbench lab` in folders of its own, driven in headless Chromium.

A page's toolbar says "idle" before a kernel is attached, and commands started then are lost; so readiness is
asked from the server (a session of this path, its kernel idle and connected), never read from the page.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_S = 150  # for whatever a page or a kernel does at once on a machine that has nothing else to do
START_S = PATIENCE_S
STOP_S = 15
POLL_S = 0.1


class LabServer:
    """One `workbench lab` process, its Jupyter folders in `state`; `folder` is where its notebooks are."""

    def __init__(self, notebook: Path, state: Path, start_s: float = START_S) -> None:
        self.folder = notebook.parent
        self.token = secrets.token_hex(16)
        self.log = state / "server.log"
        self.environment = environment(state, self.token)
        self.command = [sys.executable, "-m", "workbench", "lab", str(notebook), "--no-browser"]
        self.url = ""
        self._runtime = state / "runtime"
        self._start_s = start_s

    def __enter__(self) -> "LabServer":
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.url = wait_for(self._address, self._start_s, "JupyterLab to start", self._alive)
            wait_for(self._answers, START_S, "JupyterLab to answer", self._alive)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the server and whatever shell started it; returns when they are gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            wait_for(self._gone, STOP_S, "JupyterLab to stop")
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_S)

    def _gone(self) -> bool:
        self._process.poll()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def _address(self) -> str | None:
        for path in self._runtime.glob("jpserver-*.json"):
            try:
                return json.loads(path.read_text())["url"]
            except (ValueError, KeyError):  # half written
                return None
        return None

    def _answers(self) -> bool:
        try:
            self.request("GET", "api/status")
        except OSError:
            return False
        return True

    def _alive(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with {self._process.returncode}:\n{self.log.read_text()[-2000:]}")

    def request(self, method: str, path: str) -> Any:
        """The server's REST interface; the decoded answer, None for an empty one."""
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def kernel_ready(self, name: str) -> bool:
        """Whether a page showing the notebook `name` has a kernel that listens."""
        for session in self.request("GET", "api/sessions"):
            kernel = session["kernel"]
            if session["path"] == name and kernel["execution_state"] == "idle" and kernel["connections"] > 0:
                return True
        return False

    def connection_file(self, name: str) -> Path:
        """Of the kernel of the notebook `name`."""
        (kernel,) = [s["kernel"]["id"] for s in self.request("GET", "api/sessions") if s["path"] == name]
        return self._runtime / f"kernel-{kernel}.json"

    def delete_kernel(self, name: str) -> None:
        """Kernels outlive pages: without this the next page of the notebook would find the last one's variables."""
        for session in self.request("GET", "api/sessions"):
            if session["path"] == name:
                self.request("DELETE", f"api/sessions/{session['id']}")


# The notebook a page shows: the current widget of the shell is whatever last had the focus, and may be nothing.
NOTEBOOK_PANEL = """window.notebookPanel = () => [...(window.jupyterapp?.shell.widgets("main") ?? [])]
  .find(widget => widget.sessionContext)"""


class NotebookPage:
    """One notebook open in JupyterLab, its kernel ready; scripts on its page find it as `notebookPanel()`."""

    def __init__(self, page: Any, server: LabServer, name: str) -> None:
        self.page, self.name, self.server = page, name, server
        # Other pages leave what they show to the workspace of their name, and so to whoever is loaded again there.
        self.address = f"{server.url}lab/workspaces/{secrets.token_hex(4)}/tree/{quote(name)}?reset"
        page.add_init_script(NOTEBOOK_PANEL)
        page.goto(f"{self.address}&token={server.token}")
        wait_for(lambda: server.kernel_ready(name), PATIENCE_S, f"a kernel for {name}")
        self.page.wait_for_selector(".jp-Toolbar-kernelName >> text=Python")

    def save(self) -> None:
        """Save the notebook; returns when the server has it."""
        self.page.evaluate("jupyterapp.commands.execute('docmanager:save')")

    def reload(self) -> None:
        """As by the browser's button: what was not saved is lost."""
        self.page.reload()
        self._wait_for_kernel()

    def discard(self) -> None:
        """Close the page without saving, and open another one."""
        self.page.evaluate("notebookPanel().context.dispose()")
        self.page.goto(self.address)
        self._wait_for_kernel()

    def _wait_for_kernel(self) -> None:
        """Until the page shows the notebook, whose kernel goes on, and has heard of it."""
        self.page.wait_for_selector(".jp-Toolbar-kernelName >> text=Python")
        connected = "notebookPanel()?.sessionContext?.session?.kernel?.connectionStatus === 'connected'"
        self.page.wait_for_function(connected)

    def run_all(self, timeout_s: float) -> None:
        """Run All Cells, until the last one has ended (or the first one has failed)."""
        self.page.evaluate(
            """() => { window.ranAll = null;
            jupyterapp.commands.execute('notebook:run-all-cells').then(
                () => { window.ranAll = 'ran'; }, error => { window.ranAll = String(error); }); }"""
        )
        self.page.wait_for_function("window.ranAll !== null", timeout=timeout_s * 1000)
        outcome = self.page.evaluate("window.ranAll")
        assert outcome == "ran", outcome

    def run_cells(self, last: int, timeout_s: float) -> None:
        """Run the cells from the first to the one with this index, and wait for their end."""
        self.page.evaluate(
            """last => { window.ranSome = null;
            const notebook = notebookPanel().content;
            notebook.deselectAll();
            notebook.activeCellIndex = 0;
            if (last > 0) notebook.extendContiguousSelectionTo(last);
            jupyterapp.commands.execute('notebook:run-cell').then(
                () => { window.ranSome = 'ran'; }, error => { window.ranSome = String(error); }); }""",
            last,
        )
        self.page.wait_for_function("window.ranSome !== null", timeout=timeout_s * 1000)
        outcome = self.page.evaluate("window.ranSome")
        assert outcome == "ran", outcome

    def cells(self) -> list[dict[str, Any]]:
        """Every cell as it would be saved, outputs included."""
        return self.page.evaluate("notebookPanel().content.widgets.map(cell => cell.model.toJSON())")

    def errors(self) -> list[str]:
        """`name: value` of every error output."""
        outputs = [output for cell in self.cells() for output in cell.get("outputs", [])]
        return [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]

    def not_run(self) -> list[int]:
        """Indices of code cells that have source and no execution count."""
        cells = enumerate(self.cells())
        return [i for i, c in cells if c["cell_type"] == "code" and source(c) and not c["execution_count"]]

    def show_cell(self, index: int, align: str = "start") -> None:
        self.page.evaluate(
            "([index, align]) => notebookPanel().content.scrollToItem(index, align)",
            [index, align],
        )


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"]).strip()


def environment(state: Path, token: str) -> dict[str, str]:
    """This process's environment, with every Jupyter folder a fresh one in `state`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    for folder in folders.values():
        (state / folder).mkdir()
    # Lets the tests start commands by name instead of clicking through menus.
    (state / "config" / "jupyter_lab_config.py").write_text("c.LabApp.expose_app_in_browser = True\n")
    own = {name: str(state / folder) for name, folder in folders.items()}
    return {**kept, **own, "JUPYTER_TOKEN": token}


def wait_for(
    condition: Callable[[], Any], timeout_s: float, what: str, check: Callable[[], None] = lambda: None
) -> Any:
    """The first true value of `condition`; `check` may raise when waiting has become pointless."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        check()
        if value := condition():
            return value
        time.sleep(POLL_S)
    raise TimeoutError(f"waited {timeout_s:g} s for {what}")


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser: the system's Chromium through Playwright."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, server: LabServer, name: str, width: int = 1360, height: int = 1000) -> Iterator[NotebookPage]:
    """A page showing the notebook `name`; its kernel is deleted afterwards."""
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        yield NotebookPage(context.new_page(), server, name)
    finally:
        context.close()
        server.delete_kernel(name)
