"""The notebook the README opens, run in the browser the way a newcomer runs it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.browser.lab_server import NotebookPage
from tests.browser.quickstart_screenshot import QUICKSTART, run_quickstart, take

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(420)]


def test_every_cell_of_the_quickstart_runs(
    open_notebook: Callable[[Path], AbstractContextManager[NotebookPage]], tmp_path: Path
) -> None:
    with open_notebook(QUICKSTART) as page:
        run_quickstart(page)
        take(page, tmp_path / "quickstart.png", None)
    assert (tmp_path / "quickstart.png").stat().st_size > 10_000
