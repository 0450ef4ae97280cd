"""The installed wheel: no checkout near, a path with spaces, a site-packages nobody can write to."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser.lab_server import LabServer
from tests.packaging.installed import Installed, jupyter_folders, without_write_rights
from workbench.version import __version__

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "some folder"
    folder.mkdir()
    return folder


def test_the_package_is_the_installed_one_and_cannot_be_written_to(installed: Installed, home: Path) -> None:
    code = (
        "import pathlib, workbench, workbench.magics, workbench.assets as assets\n"
        "here = pathlib.Path(workbench.__file__)\n"
        "print(here); print(workbench.magics.__file__); print(assets.digits()[0].shape)\n"
        "(here.parent / 'new').touch()\n"
    )
    result = installed.run("-c", code, cwd=home)
    path, magics, shape = result.stdout.splitlines()
    assert Path(path).is_relative_to(installed.folder)
    assert Path(magics).parent.parent == Path(path).parent and shape == "(1797, 8, 8)"
    assert "PermissionError" in result.stderr


def test_the_command_and_doctor_work(installed: Installed, home: Path) -> None:
    version = installed.run(installed.folder / "bin" / "workbench", "--version", cwd=home)
    assert version.stdout == f"workbench {__version__}\n", version.stderr
    report = installed.run("-m", "workbench", "doctor", cwd=home)
    assert (report.returncode, report.stderr) == (0, "")
    assert "processors usable" in report.stdout


def test_a_notebook_runs(installed: Installed, home: Path) -> None:
    cell = new_code_cell("import workbench.assets\nworkbench.assets.digits()[1][:3]")
    nbformat.write(new_notebook(cells=[cell]), home / "my notebook.ipynb")
    result = installed.run("-m", "workbench", "run", "my notebook.ipynb", cwd=home)
    assert result.returncode == 0, result.stderr
    assert (home / "workbench-run" / "my notebook.executed.html").is_file()


def test_lab_copies_the_samples_out_and_serves_them(installed: Installed, home: Path, tmp_path: Path) -> None:
    state = tmp_path / "jupyter"
    state.mkdir()
    server = LabServer(home / "unused", state)
    server.environment |= jupyter_folders()
    server.command = without_write_rights([str(installed.python), "-m", "workbench", "lab", "--no-browser"])
    with server:
        served = {entry["name"] for entry in server.request("GET", "api/contents")["content"]}
    copied = home / "workbench-notebooks"
    assert served == {path.name for path in copied.iterdir()}
    assert "01_quickstart.ipynb" in served
    assert f"Copied {len(served)} sample notebooks to {copied}" in server.log.read_text()
