"""The source of a function with some of its branches and loops as calls of `flow`, which can record them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from workbench.jit.branches.assigned import Function, assigned, inside, objection

Place = tuple[int, int, int, int]
"""Where a node begins and ends in its file: line and column, line and column."""

FLOW = "_workbench_flow"
_T = TypeVar("_T", bound=ast.AST)


class Unfit(Exception):
    """A branch or a loop has no such form; why."""


def place_of(node: Any) -> Place:
    """Where a node stands in its file."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def rewritten(function: Function, chosen: frozenset[Place]) -> Function:
    """A copy of a function in which the chosen `if`, `while` and `... if ... else ...` are calls of `flow`.

    Raises:
        Unfit: one of them cannot be, with the reason.
    """
    copied: Function = _Rewriting(chosen).visit(copy.deepcopy(function))
    copied.body[:0] = ast.parse(f"from workbench.jit.branches import flow as {FLOW}").body
    return ast.fix_missing_locations(copied)


class _Rewriting(ast.NodeTransformer):
    """Rewrites from the outside inwards; a side of a branch becomes a function that assigns the same variables."""

    def __init__(self, chosen: frozenset[Place]) -> None:
        self._chosen = chosen
        self._made = 0
        self._first: str | None = None

    def visit_FunctionDef(self, node: Any) -> Any:
        """A function: what its branches assign stays its own."""
        around, arguments = self._first, [*node.args.posonlyargs, *node.args.args]
        self._first = arguments[0].arg if arguments else None
        names = assigned(node.body)
        declared = [n for part in node.body for each in inside(part) for n in _declared(each)]
        node.body = self._block(node.body)
        own = [name for name in names if name not in declared]
        if own:  # assigned in functions inside only, they would not be variables of this one
            node.body[:0] = [ast.If(ast.Constant(False), [_assignment(own)], [])]
        self._first = around
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """An expression with variables of its own."""
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """A call; of `super()` it says of what, which Python knows of methods alone."""
        self.generic_visit(node)
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super" and not (node.args or node.keywords)
        if is_super and self._first:
            node.args = [_at(node, ast.Name(name, ast.Load())) for name in ("__class__", self._first)]
        return node

    def visit_If(self, node: ast.If) -> Any:
        """A branch in the middle of statements."""
        if place_of(node) not in self._chosen:
            return self.generic_visit(node)
        _require_fit(node, [*node.body, *node.orelse])
        names = assigned([*node.body, *node.orelse])
        true, false = self._function(node, node.body, names), self._function(node, node.orelse, names)
        call = _call("branch", self._condition(node.test), _name(true), _name(false), _texts(names))
        return [true, false, _at(node, ast.Expr(call))]

    def visit_While(self, node: ast.While) -> Any:
        """A loop."""
        if place_of(node) not in self._chosen:
            return self.generic_visit(node)
        if node.orelse:
            raise Unfit("it has an else")
        _require_fit(node, node.body)
        names = assigned([node.test, *node.body])
        test = self._function(node, [], names, returned=self._condition(node.test))
        body = self._function(node, node.body, names)
        return [test, body, _at(node, ast.Expr(_call("loop", _name(test), _name(body), _texts(names))))]

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """A branch between two expressions."""
        if place_of(node) not in self._chosen:
            return self.generic_visit(node)
        _require_values(node.body, node.orelse)
        test = self._condition(node.test)
        return _at(node, _call("choice", test, _lambda(self.visit(node.body)), _lambda(self.visit(node.orelse))))

    # Branches that return

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements at whose end the function returns: those behind a branch that returns become part of its sides."""
        block: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            if isinstance(statement, ast.If) and self._returns_from_chosen(statement):
                return [*block, *self._returning(statement, statements[i + 1 :])]
            visited = self.visit(statement)
            block.extend(visited if isinstance(visited, list) else [visited])
        return block

    def _returns_from_chosen(self, statement: ast.If) -> bool:
        return any(
            place_of(part) in self._chosen and _has_return(part)
            for part in inside(statement)
            if isinstance(part, ast.If | ast.While)
        )

    def _returning(self, node: ast.If, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
        sides = [_with(rest, node.body), _with(rest, node.orelse)]
        if place_of(node) not in self._chosen:
            body, orelse = map(self._block, sides)
            return [_at(node, ast.If(self.visit(node.test), body, orelse))]
        for side in sides:
            _require_fit(node, side, may_return=True)
        names = assigned([*sides[0], *sides[1]])
        true, false = (self._function(node, side, names) for side in sides)
        call = _call("choice", self._condition(node.test), _name(true), _name(false), _texts(names))
        return [true, false, _at(node, ast.Return(call))]

    # What is made

    def _function(
        self, node: ast.stmt, body: Sequence[ast.stmt], names: Sequence[str], returned: ast.expr | None = None
    ) -> ast.FunctionDef:
        """A function inside the function that assigns the variables of that one."""
        hidden = [name for name in names if name.startswith("__") and not name.endswith("__")]
        if hidden:
            raise Unfit(f"it assigns {hidden[0]!r}, which has another name inside of a class (line {node.lineno})")
        self._made += 1
        inner: list[ast.stmt] = [ast.Nonlocal(list(names))] if names else []
        inner += self._block(body)
        if returned is not None:
            inner.append(ast.Return(returned))
        name = f"_part_{self._made}_of_line_{node.lineno}"
        none = ast.arguments([], [], None, [], [], None, [])
        definition = ast.FunctionDef(name, none, inner or [ast.Pass()], [], None, None)
        definition.type_params = []  # type: ignore[attr-defined, unused-ignore]
        return _at(node, definition)

    def _condition(self, test: ast.expr) -> ast.expr:
        """A condition whose `and`, `or`, `not` and chains of comparisons take tensors."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return _at(test, _call("negated", self._condition(test.operand)))
        if isinstance(test, ast.Compare) and len(test.ops) > 1:
            return self._comparisons(test)
        if not isinstance(test, ast.BoolOp):
            condition: ast.expr = self.visit(test)
            return condition
        _require_values(*test.values)
        what = "both" if isinstance(test.op, ast.And) else "either"
        return _at(test.values[0], _call(what, *(_lambda(self._condition(value)) for value in test.values)))

    def _comparisons(self, test: ast.Compare) -> ast.expr:
        """`a < b < c` as `a < b` and `b < c`, where `b` is computed once."""
        _require_values(test.left, *test.comparators)
        names = [f"_value_{i}" for i in range(1, len(test.comparators))]
        values = [test.left, *(ast.Name(name, ast.Load()) for name in names), test.comparators[-1]]
        pairs = zip(values, test.ops, values[1:], strict=False)
        parts = [_lambda(_at(test, ast.Compare(left, [op], [right]))) for left, op, right in pairs]
        between = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
        middle = [self.visit(value) for value in test.comparators[:-1]]
        return _at(test, ast.Call(ast.Lambda(between, _call("both", *parts)), middle, []))


def _with(rest: Sequence[ast.stmt], side: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A side of a branch and what comes behind it."""
    if side and isinstance(side[-1], ast.Return | ast.Raise):
        return list(side)
    return [*side, *copy.deepcopy(list(rest))]


def _has_return(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Return) for part in inside(node))


def _declared(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global | ast.Nonlocal) else []


def _require_fit(node: ast.stmt, body: Sequence[ast.stmt], *, may_return: bool = False) -> None:
    reason = objection(body, may_return=may_return)
    if reason:
        raise Unfit(f"{reason} (line {node.lineno})")


def _require_values(*nodes: ast.expr) -> None:
    """Expressions that can be computed in a function of their own."""
    for node in nodes:
        if any(isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await) for part in inside(node)):
            raise Unfit(f"it assigns a variable with :=, yields or awaits (line {node.lineno})")


def _assignment(names: Sequence[str]) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store()) for name in names], ast.Constant(None))


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(FLOW, ast.Load()), name, ast.Load()), list(args), [])


def _lambda(value: ast.expr) -> ast.expr:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)


def _name(function: ast.FunctionDef) -> ast.expr:
    return ast.Name(function.name, ast.Load())


def _texts(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _at(node: ast.AST, fresh: _T) -> _T:
    return ast.copy_location(fresh, node)
