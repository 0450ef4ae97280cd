"""Opens the dashboard notebook in a real browser and takes the README's picture of it.

`python -m tests.browser.dashboard_screenshot` from the root writes assets/dashboard.png.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.lab_server import LabServer, NotebookPage, chromium, opened, source

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOK = ROOT / "notebooks" / "04_dashboard.ipynb"
PICTURE = ROOT / "assets" / "dashboard.png"
SIZE = {"width": 1600, "height": 2500}
RUN_S = 120


def run_to_dashboard(page: NotebookPage) -> Any:
    """Run the cells up to the first that shows a dashboard; returns the dashboard on the page."""
    shown = next(i for i, cell in enumerate(page.cells()) if source(cell) == "wb.dashboard(net)")
    page.run_cells(shown, RUN_S)
    board = page.page.locator(".wb-dashboard").first
    board.wait_for()
    page.page.wait_for_function("document.querySelectorAll('.wb-dashboard [data-node]').length > 0")
    return board


def press(board: Any, name: str) -> None:
    """Press a button of the controls."""
    board.get_by_role("toolbar", name="run").get_by_role("button", name=name, exact=True).click()


def choose(board: Any, setting: str, value: str) -> None:
    """Type a setting of the next run."""
    field = board.get_by_label(setting, exact=True)
    field.fill(value)
    field.press("Tab")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_RUNS"] = str(Path(folder) / "runs.sqlite")
        notebooks, state = Path(folder) / "notebooks", Path(folder) / "jupyter"
        notebooks.mkdir()
        state.mkdir()
        copy = notebooks / NOTEBOOK.name
        copy.write_bytes(NOTEBOOK.read_bytes())
        with (
            LabServer(copy, state) as server,
            chromium() as browser,
            opened(browser, server, copy.name, **SIZE) as page,
        ):
            board = run_to_dashboard(page)
            choose(board, "steps", "2000")
            press(board, "Run")
            board.get_by_text("step 2,000 of 2,000").wait_for(timeout=RUN_S * 1000)
            page.page.wait_for_timeout(1500)
            board.screenshot(path=str(PICTURE))
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
