"""Small faults made on purpose, from the syntax tree of a module: one node of a function replaced by another.

A fault is told by its function, the code before and the code after, never by a line or a file, so that it stays what
it is when code moves.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

Function = ast.FunctionDef | ast.AsyncFunctionDef
Edit = tuple[str, ast.expr | ast.stmt, str]  # rule, the node, what stands in its place

_SHOWN = 96  # characters of code in a line
_TOLD = {"__repr__", "__str__", "text", "plan_text"}  # functions that only tell what there is
_QUIET = (ast.Raise, ast.Assert, ast.JoinedStr)  # what only makes messages


@dataclass(frozen=True)
class Change:
    """One node replaced.

    Attributes:
        function: its qualified name, as in `__qualname__`.
        rule: what is done to it. before, after: the code, in the form `ast.unparse` gives it.
        number: of several equal ones in the function, the first is 0.
        start, end: which bytes of the source are replaced by `text`.
    """

    function: str
    rule: str
    before: str
    after: str
    number: int
    start: int
    end: int
    text: str

    @property
    def key(self) -> str:
        """Short, and the same wherever the function stands."""
        parts = self.function, self.rule, self.before, self.after, str(self.number)
        return sha256("\0".join(parts).encode()).hexdigest()[:8]

    def apply(self, source: bytes) -> bytes:
        """The source with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.function}: {_short(self.before)}  ->  {_short(self.after)}"


def changes(source: bytes) -> list[Change]:
    """All faults the rules make in the functions of a module."""
    places = _Places(source)
    possible: list[Change] = []
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for function, body in functions(source):
        if function.rpartition(".")[2] in _TOLD:
            continue
        for rule, node, after in _edits(function, body):
            before, text = ast.unparse(node), after if isinstance(node, ast.stmt) else f"({after})"
            told = function, rule, before, after
            possible.append(Change(*told, seen[told], *places.of(node), text))
            seen[told] += 1
    return possible


def replaced(source: bytes, function: str, before: str, after: str) -> list[Change]:
    """The one fault of a given form, as often as it can be made.

    Args:
        function: the qualified name of the function, or its end.
        before: a statement or an expression, however it is written. after: what stands there instead.
    """
    kind = ast.stmt if after == "pass" or not _is_expression(before) else ast.expr
    places, wanted, possible = _Places(source), ast.unparse(ast.parse(before)), []
    for name, body in functions(source):
        if not f".{name}".endswith(f".{function}"):
            continue
        for node in _own(body):
            if isinstance(node, kind) and ast.unparse(node) == wanted:
                text = after if kind is ast.stmt else f"({after})"
                possible.append(Change(name, "named", wanted, after, len(possible), *places.of(node), text))
    return possible


@cache
def functions(source: bytes) -> tuple[tuple[str, Function], ...]:
    """All functions of a module, with their qualified names."""
    return tuple(_functions(ast.parse(source), ""))


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function's body, in order, without those of functions in it and without annotations."""
    todo: list[ast.AST] = list(reversed(function.body))
    while todo:
        node = todo.pop()
        if isinstance(node, Function | ast.ClassDef):
            continue
        yield node
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.AnnAssign):
            children.remove(node.annotation)
        todo.extend(reversed(children))


# The rules


def _edits(name: str, function: Function) -> Iterator[Edit]:
    quiet = {id(part) for node in _own(function) if isinstance(node, _QUIET) for part in ast.walk(node)}
    for node in _own(function):
        if id(node) in quiet:
            continue
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield from _conditions(node)
        elif isinstance(node, ast.Compare):
            yield from _comparisons(node)
        elif isinstance(node, ast.BoolOp):
            yield from _junctions(node)
        elif isinstance(node, ast.Call):
            yield from _calls(node)
        elif isinstance(node, ast.BinOp | ast.Constant | ast.Return):
            yield from _values(node)
        elif isinstance(node, ast.stmt) and _may_go(node, name):
            yield "statement dropped", node, "pass"


def _conditions(node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
    yield "condition negated", node.test, f"not ({ast.unparse(node.test)})"
    leaves = isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], _LEAVING)
    if leaves:
        yield "guard dropped", node.test, "False"


_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def _comparisons(node: ast.Compare) -> Iterator[Edit]:
    for i, operator in enumerate(node.ops):
        other = copy(node)
        other.ops = [*node.ops[:i], _COMPARISONS[type(operator)](), *node.ops[i + 1 :]]
        yield "comparison swapped", node, ast.unparse(other)


def _junctions(node: ast.BoolOp) -> Iterator[Edit]:
    other = copy(node)
    other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "and / or swapped", node, ast.unparse(other)
    for i in range(len(node.values)):
        other = copy(node)
        other.values = [*node.values[:i], *node.values[i + 1 :]]
        yield "operand dropped", node, ast.unparse(other if len(other.values) > 1 else other.values[0])


_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _calls(node: ast.Call) -> Iterator[Edit]:
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    other = copy(node)
    if called in _OPPOSITES:
        other.func = ast.Name(_OPPOSITES[called])
        yield "opposite taken", node, ast.unparse(other)
    elif called in ("sorted", "reversed") and len(node.args) == 1:
        yield "order left", node, f"list({ast.unparse(node.args[0])})"
    elif called not in ("isinstance", "getattr") and len(node.args) > 1 and _same_kind(*node.args[:2]):
        other.args = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments swapped", node, ast.unparse(other)


def _same_kind(a: ast.expr, b: ast.expr) -> bool:
    """Whether two arguments could be taken for one another."""
    return type(a) is type(b) and isinstance(a, _NAMING) and ast.unparse(a) != ast.unparse(b)


_NAMING = (ast.Name, ast.Attribute, ast.Subscript)


def _values(node: ast.BinOp | ast.Constant | ast.Return) -> Iterator[Edit]:
    if isinstance(node, ast.Constant):
        if type(node.value) is int:
            yield "off by one", node, str(node.value + 1)
    elif isinstance(node, ast.Return):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            yield "answer negated", node.value, str(not node.value.value)
    elif isinstance(node.op, ast.Add | ast.Sub) and not any(map(_is_text, (node.left, node.right))):
        other = copy(node)
        other.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "plus / minus swapped", node, ast.unparse(other)


def _is_text(node: ast.expr) -> bool:
    return isinstance(getattr(node, "value", None), str) or isinstance(node, ast.JoinedStr | ast.List)


def _may_go(node: ast.stmt, name: str) -> bool:
    """Whether the code still runs without a statement, most likely."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign) and not name.endswith("__init__"):
        return not any(isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) for t in node.targets
                       for part in ast.walk(t))  # fmt: skip
    return isinstance(node, ast.AugAssign | ast.Delete)


# Where a node stands


class _Places:
    """From lines and columns to bytes."""

    def __init__(self, source: bytes) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def of(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset


def _is_expression(code: str) -> bool:
    (only,) = ast.parse(code).body
    return isinstance(only, ast.Expr)


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
