"""The package is installed by a name of its own: what the index calls `workbench` is another project."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.version import DISTRIBUTION, installing

ROOT = Path(__file__).resolve().parent.parent.parent
READ = (".py", ".md", ".ipynb", ".toml", ".js", ".json", ".html", ".css", ".cfg", ".yml", ".yaml", "")
FOLDERS = ("workbench", "magics", "assets", "notebooks", "tests", ".ci")
OTHERS = re.compile(r"(?<![-\w])workbench\[[a-z]|pip install (?:-[-\w]+ )*['\"]?workbench\b")  # another project


def texts() -> Iterator[tuple[Path, str]]:
    """Every file a person may read a command in, and what is in it."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    for path in [*files, *ROOT.iterdir()]:
        if path.suffix in READ and path.is_file() and not {"node_modules", "__pycache__"} & set(path.parts):
            yield path.relative_to(ROOT), path.read_text("utf-8", errors="replace")


def project() -> dict:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def test_nothing_tells_users_to_install_another_project() -> None:
    read = dict(texts())
    assert len(read) > 1500 and {Path("README.md"), Path("notebooks/08_fleet.ipynb"), Path(".ci/run")} <= read.keys()
    told = {str(path): OTHERS.findall(text) for path, text in read.items() if path.name != Path(__file__).name}
    assert {path: commands for path, commands in told.items() if commands} == {}


@pytest.mark.parametrize(
    "command",
    [
        "pip install 'workbench[ps]'",
        "needs workbench[processes,ps].",
        "pip install workbench",
        "pip install -U workbench",
    ],
)
def test_the_old_form_is_seen(command: str) -> None:
    assert OTHERS.search(command)
    assert not OTHERS.search(command.replace("workbench", DISTRIBUTION))


def test_the_name_stands_in_the_project_and_its_own_extras() -> None:
    assert project()["name"] == DISTRIBUTION
    own = [line for extra in project()["optional-dependencies"].values() for line in extra if "workbench" in line]
    assert own and all(line.startswith(f"{DISTRIBUTION}[") for line in own)


def test_messages_name_extras_that_there_are() -> None:
    extras = set()
    for path in (ROOT / "workbench").rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        named = [call.args for call in calls if isinstance(call.func, ast.Name) and call.func.id == installing.__name__]
        extras |= {
            argument.value for arguments in named for argument in arguments if isinstance(argument, ast.Constant)
        }
    assert {"processes", "ps"} <= extras <= project()["optional-dependencies"].keys()
    assert installing("processes", "ps") == f"pip install '{DISTRIBUTION}[processes,ps]'"
