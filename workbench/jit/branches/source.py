"""Where in a source file a branch stands, and code objects of files that were rewritten."""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import Any

from workbench.jit.branches.assigned import Function
from workbench.jit.branches.rewriting import Place, Unfit, place_of, rewritten

_FEATURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


class SourceFile:
    """A file of Python source, or a notebook cell.

    Args:
        name: as code objects have it.

    Raises:
        Unfit: there is no such source, or it is not Python.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        lines = linecache.getlines(name)
        if not lines:
            raise Unfit(f"its source {name!r} cannot be read")
        try:
            self.tree = ast.parse("".join(lines), name)
        except SyntaxError as error:
            raise Unfit(f"its source {name!r} is no Python: {error}") from error

    def branch_at(self, code: CodeType, instruction: int) -> ast.AST:
        """The innermost branch or loop whose condition holds an instruction, or which is what the instruction is for.

        Args:
            instruction: its offset in the code object, in bytes.

        Raises:
            Unfit: there is none.
        """
        line, end_line, column, end_column = list(code.co_positions())[instruction // 2]
        if line is None or column is None or end_line is None or end_column is None:
            raise Unfit("its code object does not give its place in the source")
        innermost: Any = None
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.If | ast.While | ast.IfExp):
                continue
            if place_of(node) == (line, column, end_line, end_column):
                return node  # a jump for its condition
            first_line, first_column, last_line, last_column = place_of(node.test)
            around = (first_line, first_column) <= (line, column) and (end_line, end_column) <= (last_line, last_column)
            if around and (innermost is None or place_of(node.test)[:2] >= place_of(innermost.test)[:2]):
                innermost = node
        if innermost is None:
            raise Unfit("it is no `if`, `while` or `... if ... else ...`")
        return innermost

    def functions_around(self, place: Place) -> list[Function]:
        """The functions that hold a place, from the innermost one outwards."""
        holders = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, Function) and place_of(node)[:2] <= place[:2] and place[2:] <= place_of(node)[2:]
        ]
        return sorted(holders, key=lambda node: place_of(node)[:2], reverse=True)

    def rewritten_code(self, code: CodeType, function: Function, chosen: frozenset[Place]) -> CodeType:
        """A function's code with some branches and loops rewritten, see `rewritten`.

        Args:
            code: of the function as it is. function: its node in this file.

        Raises:
            Unfit: one of them cannot be rewritten, or the source is not that of the code.
        """
        if not _is_same(self._compiled(self.tree, code), code):
            raise Unfit(f"its source {self.name!r} is not what it was when the function was made")
        return self._compiled(_Replaced(function, rewritten(function, chosen)).visit(self._copy()), code)

    def _copy(self) -> ast.Module:
        return ast.parse("".join(linecache.getlines(self.name)), self.name)

    def _compiled(self, tree: ast.Module, like: CodeType) -> CodeType:
        """What a function becomes when the file is compiled."""
        try:
            whole = compile(tree, self.name, "exec", like.co_flags & _FEATURES, dont_inherit=True)
        except SyntaxError as error:
            raise Unfit(f"its form as a function is no Python: {error.msg}") from error
        for code in _codes(whole):
            if (code.co_qualname, code.co_firstlineno) == (like.co_qualname, like.co_firstlineno):
                return code
        raise Unfit(f"its source {self.name!r} does not hold it")


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: Function, new: Function) -> None:
        self._place, self._new = place_of(old), new

    def visit_FunctionDef(self, node: Any) -> Any:
        return self._new if place_of(node) == self._place else self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_same(one: CodeType, other: CodeType) -> bool:
    return (one.co_code, one.co_names, one.co_varnames, one.co_freevars) == (
        other.co_code, other.co_names, other.co_varnames, other.co_freevars,
    )  # fmt: skip


def first_line(function: Function) -> int:
    """The line at which the code of a function begins: that of its first decorator, if it has one."""
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])
