"""`workbench lab` in a real browser."""

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser.lab_server import PATIENCE_S, LabServer, NotebookPage

pytestmark = [pytest.mark.browser, pytest.mark.processes]
Opener = Callable[[Path], AbstractContextManager[NotebookPage]]


def written(path: Path, *sources: str) -> Path:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}  # or JupyterLab asks which
    cells = [new_code_cell(source) for source in sources]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def outputs_text(page: NotebookPage) -> str:
    outputs: list[Any] = [output for cell in page.cells() for output in cell["outputs"]]
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


def test_cells_run_in_this_python_and_in_the_notebooks_folder_and_nothing_prompts(
    open_notebook: Opener, lab_server: LabServer, tmp_path: Path
) -> None:
    path = written(tmp_path / "where am I.ipynb", "import os, workbench", "print(workbench.__version__, os.getcwd())")
    with open_notebook(path) as page:
        page.run_all(PATIENCE_S)
        assert page.errors() == []
        assert page.not_run() == []
        assert str(lab_server.folder) in outputs_text(page)
        page.page.wait_for_timeout(1500)  # for news and updates
        assert page.page.locator(".jp-toast-message, .Toastify__toast").count() == 0
        assert page.page.locator(".jp-Dialog").count() == 0


def test_a_failing_cell_is_seen(open_notebook: Opener, tmp_path: Path) -> None:
    with open_notebook(written(tmp_path / "fails.ipynb", "1 / 0", "print('never')")) as page:
        page.run_all(PATIENCE_S)
        assert page.errors() == ["ZeroDivisionError: division by zero"]
        assert page.not_run() == [1]


def test_the_server_listens_on_loopback_alone(lab_server: LabServer) -> None:
    address = urlsplit(lab_server.url)
    assert address.hostname in {"127.0.0.1", "localhost"}
    listening = Path("/proc/net/tcp")
    if not listening.is_file():
        pytest.skip("/proc/net/tcp is not there to read the listening addresses from")
    rows = [line.split() for line in listening.read_text().splitlines()[1:]]
    bound = {row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == address.port}
    loopback = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
    assert bound == {loopback}


def test_without_the_token_nothing_is_served(lab_server: LabServer) -> None:
    from urllib.error import HTTPError
    from urllib.request import urlopen

    with pytest.raises(HTTPError, match="403"):
        urlopen(lab_server.url + "api/contents", timeout=10)
    assert os.environ.get("JUPYTER_TOKEN") != lab_server.token
