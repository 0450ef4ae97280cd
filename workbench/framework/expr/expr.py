"""Expressions: what an element-wise body yields when it is run with a recording `xp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.framework.values.dtype import as_dtype

UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10",
    "logical_not", "rint", "sign", "sin", "sqrt", "square", "tan", "tanh", "arccos", "arcsin", "arctan", "cosh", "sinh",
    "trunc", "negative", "reciprocal",
)  # fmt: skip
BINARY = (
    "add", "arctan2", "divide", "equal", "floor_divide", "greater", "greater_equal", "less", "less_equal",
    "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal", "power", "remainder",
    "subtract", "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip
FUNCTIONS = (*UNARY, *BINARY, "where", "cast")


class Expr:
    """A node of a traced body: an input, a constant or a function of other nodes."""

    __slots__ = ("args", "dtype", "function", "value")
    symbolic = True
    shape = ()
    __array_ufunc__ = None

    def __init__(self, function: str, args: tuple[Expr, ...] = (), value: Any = None, dtype: Any = "float32") -> None:
        self.function, self.args, self.value, self.dtype = function, args, value, np.dtype(dtype)

    def astype(self, dtype: Any) -> Expr:
        dtype = as_dtype(dtype)
        return Expr("cast", (self,), dtype.name, dtype.numpy)

    def evaluate(self, xp: Any, *inputs: Any) -> Any:
        """The value of the expression for the given inputs; shared parts are computed once."""
        return self._evaluate(xp, inputs, {})

    def _evaluate(self, xp: Any, inputs: tuple[Any, ...], known: dict[int, Any]) -> Any:
        if self.function == "input":
            return inputs[self.value]
        if self.function == "constant":
            return self.value
        if id(self) not in known:
            args = [a._evaluate(xp, inputs, known) for a in self.args]
            if self.function == "cast":
                known[id(self)] = xp.asarray(args[0]).astype(as_dtype(self.value).numpy)
            else:
                known[id(self)] = getattr(xp, self.function)(*args)
        return known[id(self)]

    def __repr__(self) -> str:
        if self.function == "input":
            return f"x{self.value}"
        if self.function == "constant":
            return repr(self.value)
        extra = f", {self.value}" if self.function == "cast" else ""
        return f"{self.function}({', '.join(map(repr, self.args))}{extra})"


def in_order(results: Sequence[Expr]) -> list[Expr]:
    """Every part of the expressions once, after its own arguments; as deep as they may be."""
    order: list[Expr] = []
    listed: set[int] = set()
    rest = list(reversed(results))
    while rest:
        part = rest[-1]
        missing = [arg for arg in part.args if id(arg) not in listed]
        if missing:
            rest += reversed(missing)
            continue
        rest.pop()
        if id(part) not in listed:
            listed.add(id(part))
            order.append(part)
    return order


_BOOLEAN = {
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_not",
    "logical_xor", "isnan", "isinf", "isfinite",
}  # fmt: skip


def _node(function: str, *args: Any) -> Expr:
    nodes = tuple(a if isinstance(a, Expr) else Expr("constant", value=a) for a in args)
    return Expr(function, nodes, dtype=_result_dtype(function, nodes))


def _result_dtype(function: str, nodes: tuple[Expr, ...]) -> np.dtype[Any]:
    """Constants take the dtype of what they meet, but truth values that meet a number are numbers; among themselves
    their own.
    """
    if function in _BOOLEAN:
        return np.dtype(bool)
    values = nodes[1:] if function == "where" else nodes
    met = [n.dtype for n in values if n.function != "constant"] or [n.dtype for n in values]
    dtype = np.result_type(*met)
    is_number = any(n.function == "constant" and not isinstance(n.value, bool | np.bool_) for n in values)
    return np.dtype(np.float32) if dtype.kind == "b" and is_number else dtype


def _install_operators() -> None:
    named = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "mod": "remainder",
        "floordiv": "floor_divide", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    }  # fmt: skip
    for python, function in named.items():
        setattr(Expr, f"__{python}__", lambda a, b, f=function: _node(f, a, b))
        setattr(Expr, f"__r{python}__", lambda a, b, f=function: _node(f, b, a))
    compared = {
        "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    }  # fmt: skip
    for python, function in compared.items():
        setattr(Expr, f"__{python}__", lambda a, b, f=function: _node(f, a, b))
    for python, function in (("neg", "negative"), ("invert", "logical_not")):
        setattr(Expr, f"__{python}__", lambda a, f=function: _node(f, a))
    Expr.__hash__ = object.__hash__  # type: ignore[method-assign]


_install_operators()


class _Recording:
    """An `xp` that builds expressions; anything not in `functions` is refused."""

    functions: tuple[str, ...] = FUNCTIONS

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name not in self.functions:
            raise AttributeError(f"an element-wise body may not use xp.{name}; it may use {', '.join(FUNCTIONS)}")
        return lambda *args: _node(name, *args)

    def cast(self, x: Expr, dtype: str) -> Expr:
        return x.astype(dtype)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any = "float32") -> Expr:
        """Constants that rules make with `fill_constant` or `zeros_like`."""
        return Expr("constant", value=value, dtype=dtype)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        return value


Recording: Any = _Recording()


class _FormulaRecording(_Recording):
    functions = (*FUNCTIONS, "copysign")


Formula: Any = _FormulaRecording()  # for what a listed function itself consists of, see `erf`
