"""The dashboard in a browser without a kernel: `page.html`, served from the repository's root."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.lab_server import chromium
from workbench.notebook.figures.graphs.folding import fold_message

SIZE = {"width": 1100, "height": 1000}
ROOT = Path(__file__).resolve().parent.parent.parent


def packed(part: Any) -> Any:
    """Arrays of numbers as `page.html` takes them."""
    if isinstance(part, np.ndarray):
        return {"$": part.tolist(), "dtype": part.dtype.name}
    if isinstance(part, dict):
        return {name: packed(inner) for name, inner in part.items()}
    return [packed(inner) for inner in part] if isinstance(part, list | tuple) else part


def unpacked(part: Any) -> Any:
    """The opposite."""
    if isinstance(part, list):
        return [unpacked(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    if "$" in part:
        return np.array(part["$"], part["dtype"])
    return {name: unpacked(inner) for name, inner in part.items()}


COUNTING = """async () => {
    const kind = CanvasRenderingContext2D.prototype;
    const methods = Object.entries(Object.getOwnPropertyDescriptors(kind)).filter(([, { value }]) => value?.call);
    const calls = {};
    for (const [name, { value }] of methods)
        kind[name] = function (...given) {
            calls[name] = (calls[name] ?? 0) + 1;
            return value.apply(this, given);
        };
    try {
        await (ACT)();
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    } finally {
        for (const [name, { value }] of methods) kind[name] = value;
    }
    return calls;
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing, lets nothing be cached, and has no icon without calling that an error."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_GET(self) -> None:
        if self.path != "/favicon.ico":
            return super().do_GET()
        self.send_response(204)
        self.end_headers()


class Dashboard:
    """One page with a dashboard on it; `errors` are what its console and its scripts complained of."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", self._failed)
        page.goto(f"{address}/tests/assets/page.html")
        page.wait_for_function("window.ready")

    def _heard(self, line: Any) -> None:
        if line.type == "error":
            self.errors.append(line.text)

    def _failed(self, error: Any) -> None:
        self.errors.append(str(error))

    def leave(self) -> None:
        """Listen to the page no more."""
        self.page.remove_listener("console", self._heard)
        self.page.remove_listener("pageerror", self._failed)

    def receive(self, message: dict[str, Any]) -> None:
        """What a kernel would send; arrays of numbers as `{"$": [1, 2], "dtype": "int32"}`."""
        self.page.evaluate("message => receive(message)", message)
        self.settle()

    def synthetic(self, module: str, name: str, *arguments: Any) -> None:
        """Receives what the function `name` of assets/fixtures/<module>.js makes: one message or a list of them.

        Graphs are folded as the kernel does it.
        """
        messages = self.page.evaluate(
            """async ([module, name, given]) =>
                [(await import(`/assets/fixtures/${module}.js`))[name](...given)].flat()""",
            [module, name, list(arguments)],
        )
        for message in messages:
            if message["type"] == "graph":
                message["fold"] = packed(fold_message(unpacked(message)))
        self.page.evaluate("messages => messages.forEach(receive)", messages)
        self.settle()

    def settle(self) -> None:
        """Until what came is drawn: panels draw in the next frame."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def canvas_calls(self, act: str) -> dict[str, int]:
        """How often each method of a canvas is called while an async function runs, and until what it changed is drawn.

        Args:
            act: the function in JavaScript.
        """
        counted: dict[str, int] = self.page.evaluate(COUNTING.replace("ACT", act))
        return counted

    def sent(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What the page has sent so far, of one type or all of it."""
        messages = self.page.evaluate("window.sent")
        return [message for message in messages if kind in (None, message["type"])]

    def dark(self, on: bool = True) -> None:
        self.page.evaluate("on => document.body.classList.toggle('dark', on)", on)
        self.settle()

    def width(self, pixels: int) -> None:
        self.page.set_viewport_size({"width": pixels, "height": 1000})
        self.settle()


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Address of a server for the repository's files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(ROOT))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Ends with its module: Playwright's event loop must not outlive it."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """One page for all the tests of a module: opening one takes longer than most of them."""
    context = browser.new_context(viewport=SIZE)
    try:
        yield context.new_page()
    finally:
        context.close()


@pytest.fixture
def dashboard(tab: Any, site: str) -> Iterator[Dashboard]:
    """An empty dashboard, 1,100 pixels wide. The test fails when the page reports any error."""
    tab.set_viewport_size(SIZE)
    tab.emulate_media(color_scheme="light", reduced_motion="no-preference")
    shown = Dashboard(tab, site)
    try:
        yield shown
        assert shown.errors == []
    finally:
        shown.leave()
