"""What statements assign, and what keeps them from being a function of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_REASONS: dict[type[ast.AST], str] = {
    ast.Raise: "it raises an exception, which would depend on values",
    ast.Assert: "it asserts something, which would depend on values",
    ast.Yield: "it yields",
    ast.YieldFrom: "it yields",
    ast.Await: "it awaits",
    ast.Delete: "it deletes something",
    ast.Global: "it assigns a global variable",
    ast.Nonlocal: "it assigns a variable of an enclosing function",
}


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it, as far as it belongs to the same function."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from inside(child)


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that nodes assign in the function they belong to, each once."""
    return list(dict.fromkeys(name for node in nodes for name in _assigned(node)))


def _assigned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _COMPREHENSIONS):  # names of its own, but for `:=`
        yield from (part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        return
    yield from _names(node)
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _assigned(child)


def _names(node: Any) -> Iterator[str]:
    """The names that a node itself assigns."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, Function | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def objection(nodes: Iterable[ast.AST], *, may_return: bool = False) -> str | None:
    """Why statements cannot be run aside, on either side of a branch; None if they can."""
    return next((reason for node in nodes for reason in _objections(node, may_return, in_loop=False)), None)


def _objections(node: ast.AST, may_return: bool, *, in_loop: bool) -> Iterator[str]:
    if type(node) in _REASONS:
        yield _REASONS[type(node)]
    elif isinstance(node, ast.Return) and not may_return:
        yield "it returns out of a loop, a `with` or a `try`"
    elif isinstance(node, ast.Break | ast.Continue) and not in_loop:
        yield f"a {type(node).__name__.lower()} leads out of it"
    elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield f"it sets the attribute {node.attr!r} of an object"
    if isinstance(node, _SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        yield from _objections(child, may_return, in_loop=in_loop or isinstance(node, _LOOPS))
