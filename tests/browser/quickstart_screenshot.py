"""Runs the quickstart notebook in a real browser and takes the README's picture of it.

`python -m tests.browser.quickstart_screenshot` from the root writes assets/quickstart.png.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.browser.lab_server import LabServer, NotebookPage, chromium, opened

ROOT = Path(__file__).resolve().parent.parent.parent
QUICKSTART = ROOT / "notebooks" / "01_quickstart.ipynb"
PICTURE = ROOT / "assets" / "quickstart.png"
RUN_S = 300


def run_quickstart(page: NotebookPage, timeout_s: float = RUN_S) -> None:
    """Run All; raises AssertionError when a cell failed or was not reached."""
    page.run_all(timeout_s)
    assert page.errors() == []
    assert page.not_run() == []


def training_cell(page: NotebookPage) -> int:
    """Index of the first cell that trains, 0 when there is none."""
    sources = ["".join(cell["source"]) for cell in page.cells()]
    return next((index for index, source in enumerate(sources) if "%train" in source and "%%" not in source), 0)


def take(page: NotebookPage, path: Path, cell: int | None) -> None:
    """A picture of the window, scrolled to `cell` (by default the first one that trains)."""
    page.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    page.show_cell(training_cell(page) if cell is None else cell)
    page.page.wait_for_timeout(1000)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.page.screenshot(path=str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notebook", type=Path, default=QUICKSTART)
    parser.add_argument("--out", type=Path, default=PICTURE)
    parser.add_argument("--cell", type=int, default=None, help="index of the cell at the top of the picture")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work, state = Path(folder, "notebooks"), Path(folder, "jupyter")
        work.mkdir()
        state.mkdir()
        copy = Path(shutil.copy(chosen.notebook, work))
        with (
            LabServer(copy, state) as server,
            chromium() as browser,
            opened(browser, server, copy.name) as page,
        ):
            run_quickstart(page)
            take(page, chosen.out, chosen.cell)
    print(chosen.out)


if __name__ == "__main__":
    sys.exit(main())
