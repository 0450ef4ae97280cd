"""A pytest plug-in for runs of the mutation command, in the copy: which functions each test reaches, what failed.

It is handed a task, a JSON file named by WORKBENCH_MUTATION:

* `modules`: path -> name of a module whose functions are listened to, if this is a run that listens;
* `tests`: the tests to run, in this order; all that are collected if there are none;
* `log`: where a line is written for whatever happens, so that it is there even after a crash.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

import pytest

with open(os.environ["WORKBENCH_MUTATION"], encoding="utf-8") as file:
    TASK: dict[str, Any] = json.load(file)
LISTENED: set[str] = set(TASK["modules"])
REACHED: set[str] = set()


class Loader(SourceFileLoader):
    """Loads a module whose functions say that they were called."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        _listen(tree, "")
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


class Finder(MetaPathFinder):
    """Finds the modules that are listened to."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or os.path.realpath(spec.origin) not in LISTENED:
            return None
        spec.loader = Loader(name, spec.origin)
        return spec


def _listen(node: ast.AST, prefix: str) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            _listen(child, f"{prefix}{child.name}.<locals>.")
            named = ast.parse(f"__reached__({prefix + child.name!r})").body
            child.body[_after_docstring(child) : _after_docstring(child)] = named
        else:
            _listen(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def _after_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return int(ast.get_docstring(function, clean=False) is not None)


if LISTENED:
    builtins.__reached__ = REACHED.add  # type: ignore[attr-defined]
    sys.meta_path.insert(0, Finder())


def write(**line: Any) -> None:
    with open(TASK["log"], "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if TASK["tests"]:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in TASK["tests"] if name in by_name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    REACHED.clear()
    write(begun=item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        write(failed=report.nodeid)
    elif report.when == "call" and report.passed:
        write(passed=report.nodeid, seconds=report.duration, reached=sorted(REACHED))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        write(failed=report.nodeid)
