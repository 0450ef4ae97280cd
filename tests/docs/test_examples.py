"""The examples in public docstrings: there is one for every name, it runs as it stands, and no text is only for us."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.test_public_names import MODULES, find
from tests.test_public_names import public as names_of
from workbench import facade, static
from workbench.framework import names
from workbench.framework.values.dtype import DType

TABLES = {
    "": facade.TENSOR | facade.offered("workbench"),
    "nn.functional": facade.FUNCTIONAL | facade.offered("workbench.nn.functional"),
    "static": facade.STATIC | facade.offered("workbench.static"),
    "static.nn": facade.STATIC_NN,
    "profiler": facade.PROFILER,
    "io": facade.IO,
    "base.dygraph": facade.BASE_DYGRAPH,
}
LISTED = ["jit", "optimizer", "optimizer.lr", "nn", "nn.initializer", "nn.utils", "regularizer"]
RULE = re.compile(r"\b[A-Z]-\d+\b")
WITHOUT = {  # what functions return or raise; their examples are there
    "Run", "CapturedStep", "StaticFunction", "TranslatedLayer", "NeedsValue",
}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    """Everything users reach by a public name."""
    for module, table in TABLES.items():
        for name in facade.names(table):
            yield from named(module, name)
    for module in LISTED:
        for name in importlib.import_module(f"workbench.{module}").__all__:
            yield from named(module, name)


def named(module: str, name: str) -> Iterator[tuple[str, Any]]:
    value = getattr(importlib.import_module(f"workbench.{module}".rstrip(".")), name)
    if not inspect.ismodule(value) and not isinstance(value, DType) and name not in WITHOUT:
        yield f"{module}.{name}".lstrip("."), value


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_runs_and_prints_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    example = doctest.DocTestParser().get_doctest(
        text, {"wb": wb, "np": np, "static": static, "F": wb.nn.functional}, name, None, 0
    )
    assert example.examples, f"the docstring of {name} has no example"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CPU_NUM", "1")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    wb.disable_static()
    told: list[str] = []
    try:
        with (
            static.program_guard(static.Program(), static.Program()),
            static.scope_guard(static.Scope()),
            names.guard(),
        ):
            runner.run(example, out=told.append)
    finally:
        wb.disable_static()
        wb.seed(0)  # none, as before
    assert not runner.failures, "".join(told)


def texts(value: Any) -> Iterator[str]:
    """The docstrings that `?` shows of a public object, of its methods and its fields."""
    yield inspect.getdoc(value) or ""
    for kind in (value if inspect.isclass(value) else type(value)).__mro__:
        own = vars(kind).items() if kind.__module__.startswith("workbench.") else ()
        yield from (inspect.getdoc(member) or "" for name, member in own if name == "__init__" or name[0] != "_")


@pytest.mark.parametrize("path", MODULES)
def test_no_rule_is_told_by_its_number(path: str) -> None:
    told = {path: find(path), **dict(names_of(path))}
    assert {name for name, value in told.items() for text in texts(value) if RULE.search(text)} == set()
