"""Reading tests: which of them assert something, and which answers they drop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
_CHECKS = ("raises", "warns", "deprecated_call", "fail", "expect")  # of pytest, of Playwright
_VERDICTS = ("bool", "int", "list[bool]", "set[str]")  # what a helper says that a test has to look at
_SKIPS = ("skip", "skipif", "xfail", "importorskip")


@dataclass(frozen=True)
class Helper:
    """A function below tests/.

    Attributes:
        module: dotted. name: of a method the last part only.
    """

    module: str
    name: str
    node: ast.FunctionDef = field(repr=False, compare=False)
    in_class: bool = False

    @property
    def where(self) -> str:
        return f"{self.module}::{self.name}"


class Suite:
    """The functions of all modules of a folder named `tests`, and what they call."""

    def __init__(self, root: Path = TESTS) -> None:
        self.helpers: list[Helper] = []
        self._by_name: dict[tuple[str, str], Helper] = {}
        self._methods: dict[str, list[Helper]] = {}
        self._imported: dict[str, dict[str, tuple[str, str]]] = {}
        for path in sorted(root.rglob("*.py")):
            module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            self._read(module, ast.parse(path.read_text("utf-8")))
        self.asserting = self._asserting()

    def _read(self, module: str, tree: ast.Module) -> None:
        self._imported[module] = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        methods = {id(f) for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in c.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                helper = Helper(module, node.name, node, id(node) in methods)
                self.helpers.append(helper)
                if helper.in_class:
                    self._methods.setdefault(node.name, []).append(helper)
                else:
                    self._by_name.setdefault((module, node.name), helper)

    @property
    def tests(self) -> list[Helper]:
        """Those named like tests."""
        return [helper for helper in self.helpers if helper.name.startswith("test_")]

    def called(self, module: str, call: ast.Call) -> list[Helper]:
        """What a call may run, of the functions below tests/."""
        if isinstance(call.func, ast.Attribute):
            return self._methods.get(call.func.attr, [])
        if not isinstance(call.func, ast.Name):
            return []
        name = call.func.id
        helper = self._by_name.get((module, name)) or self._by_name.get(self._imported[module].get(name, ("", "")))
        return [helper] if helper is not None else []

    def _asserting(self) -> set[Helper]:
        """Those that assert, or call such."""
        asserting = {helper for helper in self.helpers if _asserts(helper.node)}
        calls = {h: [g for call in _calls(h.node) for g in self._run_by(h, call)] for h in self.helpers}
        while more := {h for h in self.helpers if h not in asserting and not asserting.isdisjoint(calls[h])}:
            asserting |= more
        return asserting

    def _run_by(self, helper: Helper, call: ast.Call) -> Iterator[Helper]:
        """What a call runs; functions may be handed on, too."""
        yield from self.called(helper.module, call)
        for handed in call.args:
            if isinstance(handed, ast.Name):
                yield from self.called(helper.module, ast.Call(handed, [], []))

    def dropped(self, helper: Helper) -> list[str]:
        """Calls in a test whose verdict nobody looks at, but for those that are to raise."""
        quiet = {id(n) for w in ast.walk(helper.node) if isinstance(w, ast.With) and _raises(w) for n in ast.walk(w)}
        return [
            f"{helper.where}: {ast.unparse(node)}"
            for node in ast.walk(helper.node)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and id(node) not in quiet
            if isinstance(node.value.func, ast.Name)  # of a method it is not known whose it is
            if any(_gives_a_verdict(callee.node) for callee in self.called(helper.module, node.value))
        ]


@cache
def suite() -> Suite:
    """Ours."""
    return Suite()


def skips(function: ast.FunctionDef) -> bool:
    """Whether a test says of itself that it does not run, or need not pass."""
    marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in function.decorator_list]
    return any(_last_name(called) in _SKIPS for called in (*marks, *(call.func for call in _calls(function))))


def _calls(function: ast.FunctionDef) -> list[ast.Call]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def _asserts(function: ast.FunctionDef) -> bool:
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    names = [_last_name(call.func) for call in _calls(function)]
    return any(name in (*_CHECKS, "AssertionError") or name.startswith("assert_") for name in names)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _raises(node: ast.With) -> bool:
    return any(isinstance(i.context_expr, ast.Call) and _last_name(i.context_expr.func) == "raises" for i in node.items)


def _gives_a_verdict(function: ast.FunctionDef) -> bool:
    return function.returns is not None and ast.unparse(function.returns) in _VERDICTS
