"""The README says what is true: its commands and links exist, and CI runs its first two lines."""

import re
import shlex
import tomllib

import pytest
from typer.testing import CliRunner

from tests.packaging.readme import ROOT, commands, first_two
from workbench.cli.app import app

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_two_commands_are_the_promised_ones() -> None:
    lab, tests = first_two()
    assert lab == "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/workbench lab"
    assert tests == "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest"


def test_ci_runs_both_as_printed() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "-m tests.packaging.readme lab" in script
    assert "-m tests.packaging.readme tests" in script


@pytest.mark.parametrize("line", [line for line in commands(README) if "workbench " in line])
def test_each_workbench_command_exists(line: str) -> None:
    words = shlex.split(line.split("&&")[-1])
    assert words[0] == ".venv/bin/workbench"
    assert CliRunner().invoke(app, [words[1], "--help"]).exit_code == 0


def test_each_extra_that_is_named_exists() -> None:
    named = {extra for group in re.findall(r"-e '\.\[([\w,]+)\]'", README) for extra in group.split(",")}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert named
    assert named <= set(declared)


def test_links_and_files_that_are_named_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    files = re.findall(r"`((?:tests|notebooks|assets|workbench|magics|\.ci)/[\w./]*)`", README)
    assert [name for name in links + files if not (ROOT / name.partition("#")[0]).exists()] == []
