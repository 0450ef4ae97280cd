"""One JupyterLab for all the tests that need it, and a browser for each file of them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_notebook

from tests.browser.lab_server import LabServer, NotebookPage, chromium, opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Ends with its module: Playwright keeps an event loop running in this thread, and until it is stopped
    no other test can run one.
    """
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """`workbench lab` on an empty notebook; tests put theirs into `lab_server.folder`."""
    folder = tmp_path_factory.mktemp("notebooks of a user")
    nbformat.write(new_notebook(), folder / "empty.ipynb")
    with LabServer(folder / "empty.ipynb", tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture
def open_notebook(browser: Any, lab_server: LabServer) -> Callable[[Path], AbstractContextManager[NotebookPage]]:
    """`with open_notebook(path) as page:` opens a copy of the notebook at `path`."""

    def open_copy(path: Path) -> AbstractContextManager[NotebookPage]:
        copy = lab_server.folder / path.name
        copy.write_bytes(path.read_bytes())
        return opened(browser, lab_server, copy.name)

    return open_copy
