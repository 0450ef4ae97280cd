"""The dashboard in a browser without a kernel: `page.html`, served from the repository's root."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab_server import chromium

ROOT = Path(__file__).resolve().parent.parent.parent


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
        page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"{address}/tests/assets/page.html")
        page.wait_for_function("window.ready")

    def receive(self, message: dict[str, Any]) -> None:
        """What a kernel would send; arrays of numbers as `{"$": [1, 2], "dtype": "int32"}`."""
        self.page.evaluate("message => receive(message)", message)
        self.settle()

    def synthetic(self, module: str, name: str, *arguments: Any) -> None:
        """Receives what the function `name` of assets/src/<module>.js makes: one message or a list of them."""
        self.page.evaluate(
            """async ([module, name, given]) => {
                const made = (await import(`/assets/src/${module}.js`))[name](...given);
                for (const message of [made].flat()) receive(message);
            }""",
            [module, name, list(arguments)],
        )
        self.settle()

    def settle(self) -> None:
        """Until what came is drawn: panels draw in the next frame."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

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


@pytest.fixture
def dashboard(browser: Any, site: str) -> Iterator[Dashboard]:
    """An empty dashboard, 1,100 pixels wide. The test fails when the page reports any error."""
    context = browser.new_context(viewport={"width": 1100, "height": 1000})
    try:
        shown = Dashboard(context.new_page(), site)
        yield shown
        assert shown.errors == []
    finally:
        context.close()
