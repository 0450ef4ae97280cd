"""What is in the wheel and in the source distribution."""

import fnmatch
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser

import pytest

from tests.packaging.installed import ROOT, Built
from workbench.version import __version__

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def expected_in_wheel(built: Built) -> set[str]:
    """Every module of every listed package, and the data files the patterns name: nothing more or less."""
    settings = tomllib.loads((built.source / "pyproject.toml").read_text())["tool"]["setuptools"]
    files = set()
    for package in settings["packages"]:
        folder = built.source / settings["package-dir"].get(package, package.replace(".", "/"))
        prefix = package.replace(".", "/")
        patterns = settings["package-data"].get(package, [])
        inside = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        files |= {f"{prefix}/{name}" for name in inside if fnmatch.fnmatch(name, "*.py") and "/" not in name}
        files |= {f"{prefix}/{name}" for name in inside for p in patterns if same_depth_match(name, p)}
    return files


def same_depth_match(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch.fnmatch(name, pattern)


def metadata(built: Built) -> Message:
    with zipfile.ZipFile(built.wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_packages_and_their_data_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected_in_wheel(built)
    assert {"workbench/magics/__init__.py", "workbench/assets/digits.npz", "workbench/py.typed"} <= names
    assert "workbench/cli/jupyter/labconfig/page_config.json" in names


def test_every_sample_notebook_is_in_the_wheel(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        shipped = {name for name in archive.namelist() if name.endswith(".ipynb")}
    assert shipped == {f"workbench/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}


def test_the_wheel_runs_on_any_machine_and_names_its_command(built: Built) -> None:
    assert built.wheel.name == f"notebook_workbench-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(built.wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "workbench = workbench.cli:main" in archive.read(name).decode()


def test_a_machine_without_a_gpu_is_asked_for_no_gpu_package(built: Built) -> None:
    fields = metadata(built)
    required = [line for line in fields.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not [line for line in required if "cupy" in line or "nccl" in line or "scikit" in line]
    extra = [line for line in fields.get_all("Requires-Dist", []) if 'extra == "gpu"' in line]
    assert sorted(line.split(";")[0].split(">")[0].split("<")[0] for line in extra) == [
        "cupy-cuda12x[ctk]",
        "nvidia-nccl-cu12",
    ]
    assert fields["Requires-Python"] == ">=3.11"


def test_the_source_distribution_holds_what_the_repository_holds(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("workbench", "magics", "assets", "notebooks", "tests")
    source = {
        path.relative_to(built.source).as_posix()
        for folder in folders
        for path in (built.source / folder).rglob("*")
        if path.is_file()
    }
    assert source - names == set()
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", ".ci/run"} <= names
    assert not [name for name in names if "__pycache__" in name]
