"""`workbench lab` without a browser: which notebook, which copies, which settings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.cli import lab, samples
from workbench.cli.failure import CommandError


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "01_quickstart.ipynb").write_text("one")
    (folder / "02_language.ipynb").write_text("two")
    (folder / "README.md").write_text("not a notebook")
    return folder


def test_samples_are_copied_once(shipped: Path, tmp_path: Path) -> None:
    target = tmp_path / "workbench-notebooks"
    first = samples.copy_samples(shipped, target)
    assert first.written == ("01_quickstart.ipynb", "02_language.ipynb")
    assert sorted(path.name for path in target.iterdir()) == list(first.written)
    again = samples.copy_samples(shipped, target)
    assert (again.written, again.kept) == ((), ())


def test_a_changed_notebook_is_kept_and_a_deleted_one_comes_back(shipped: Path, tmp_path: Path) -> None:
    target = tmp_path / "workbench-notebooks"
    samples.copy_samples(shipped, target)
    (target / "01_quickstart.ipynb").write_text("mine")
    (target / "02_language.ipynb").unlink()
    copied = samples.copy_samples(shipped, target)
    assert (copied.written, copied.kept) == (("02_language.ipynb",), ("01_quickstart.ipynb",))
    assert (target / "01_quickstart.ipynb").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_one_clear_error(shipped: Path) -> None:
    with pytest.raises(CommandError, match="start in a folder you can write to"):
        samples.copy_samples(shipped, Path("/proc/none"))


def test_a_checkout_and_an_installed_package_open_a_copy(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, clone = Path(__file__).resolve().parent.parent.parent, tmp_path / "clone"
    clone.mkdir()
    monkeypatch.chdir(clone)
    assert samples.shipped_folder() == checkout / "notebooks"
    assert lab.sample() == clone / "workbench-notebooks" / "01_quickstart.ipynb"
    assert lab.sample().read_bytes() == (checkout / "notebooks" / "01_quickstart.ipynb").read_bytes()
    assert "workbench-notebooks/" in (checkout / ".gitignore").read_text().splitlines()
    package = tmp_path / "site-packages" / "workbench"
    shutil.copytree(shipped, package / "notebooks")
    for module in (samples, lab):
        monkeypatch.setattr(module, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    assert lab.sample() == tmp_path / "workbench-notebooks" / "01_quickstart.ipynb"


def test_the_server_is_asked_to_stay_on_this_machine(tmp_path: Path) -> None:
    options = lab.arguments(tmp_path / "a b.ipynb", browser=False, port=9000)
    assert "--ServerApp.ip=127.0.0.1" in options
    assert "--ServerApp.open_browser=False" in options
    assert {"--ServerApp.port=9000", "--ServerApp.port_retries=0"} <= set(options)
    assert f"--ServerApp.root_dir={tmp_path}" in options
    assert options[-1] == str(tmp_path / "a b.ipynb")
    assert "--LabApp.default_url=/lab/tree/a%20b.ipynb" in options  # the address that is printed


def test_a_folder_is_opened_as_the_root(tmp_path: Path) -> None:
    options = lab.arguments(tmp_path, browser=True, port=None)
    assert f"--ServerApp.root_dir={tmp_path}" in options
    assert all(option.startswith("--") and "default_url" not in option for option in options)


def test_the_users_own_jupyter_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/home/user/settings")
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    lab.prepare_environment()
    quiet, theirs = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert theirs == "/home/user/settings"
    assert (Path(quiet) / "labconfig" / "page_config.json").is_file()


def test_a_missing_notebook_gets_one_line(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "workbench", "lab", "nowhere.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "workbench lab: no such notebook: nowhere.ipynb\n"
