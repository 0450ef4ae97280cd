"""The gradient rule of a row op: the row program of its backward op, run on tensors by public ops.

So the formula of a gradient stands once. The kernels and the NumPy form of `<type>_grad` are made from it; where
somebody differentiates that op in turn, its parts become operators of a program, or are computed one by one.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple

from workbench.errors import Unimplemented
from workbench.framework.expr.expr import Expr, in_order
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.infix import constant_like, is_number
from workbench.framework.op.record import find_op, look_up
from workbench.framework.rows.program import RowForm, RowProgram, Traced
from workbench.framework.rows.recording import ACROSS, AT, BESIDE, COUNT, PICK, SCANS, SUMS, Per, kinds_of
from workbench.framework.values.dtype import DType, as_dtype, int64, promote, wide_dtype

INFIX: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "negative": operator.neg,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip
"""Functions for which Python's operators find the op; those take numbers, too."""

NAMED = {
    "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "isfinite": "isfinite_v2",
    "isinf": "isinf_v2", "isnan": "isnan_v2", "floor_divide": "elementwise_floordiv",
    "maximum": "elementwise_max", "minimum": "elementwise_min", "power": "elementwise_pow",
    "remainder": "elementwise_mod",
}  # fmt: skip
"""Ops that are not called like the function they compute."""

MEAN, PLACE = "row_mean", "row_place"
REDUCED_BY = {
    "row_sum": "reduce_sum", MEAN: "reduce_mean", "row_prod": "reduce_prod", "row_max": "reduce_max",
    "row_top": "reduce_max", "row_min": "reduce_min", ACROSS: "reduce_sum",
}  # fmt: skip


def rule_from_body(own: RowProgram, backward: RowProgram, by_products: Sequence[str]) -> Callable[..., Any]:
    """`grad(g, out, *inputs, **attrs)` of an op, see `record`.

    Args:
        own, backward: the row programs of the op and of its backward op.
        by_products: the outputs that no gradient goes through.
    """
    outputs = [x.slot for x in own.outputs]
    kept = [outputs.index(x.slot) for x in backward.inputs[len(own.inputs) : len(backward.inputs) - len(outputs)]]
    again = {len(own.inputs) + k: n for k, n in enumerate(kept) if outputs[n] in by_products}
    receivers = [x.like for x in backward.outputs]
    recipes: dict[Any, list[RowRecipe]] = {}

    def rule(g: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
        gs, outs = ((g,), (out,)) if len(outputs) == 1 else (g, out)
        rows = RowTensors(backward, [*inputs, *[outs[n] for n in kept], *gs], attrs)
        key = rows.program.name, rows.form
        if key not in recipes:
            forward = own.chosen(attrs).traced(RowForm(rows.form.given[: len(inputs)], rows.form.options))
            recipes[key] = recipes_of(rows.program.traced(rows.form), forward, again)
        if len(inputs) == 1:
            return rows.shown(0, recipes[key][0])
        shown = {slot: partial(rows.shown, n, recipes[key][n]) for n, slot in enumerate(receivers)}
        return tuple([shown.get(x.slot) for x in own.inputs])

    return rule


# The parts of a result, in order


class PartStep(NamedTuple):
    """A part of a result.

    Attributes:
        number: of its value. compute: `(rows, part, *values of its arguments)` -> its value. args: their numbers.
    """

    number: int
    compute: Callable[..., Any]
    part: Expr
    args: tuple[int, ...]


class RowRecipe(NamedTuple):
    """How a result is computed.

    Attributes:
        steps: its parts in order, None where there is no result. kind: how many numbers it has.
    """

    steps: list[PartStep] | None
    kind: Per


def recipes_of(backward: Traced, forward: Traced, again: dict[int, int]) -> list[RowRecipe]:
    """Those of the results of a backward op.

    Of an output that no gradient goes through, such as a mean, the backward op reads what was saved. Its rule computes
    it once more if it is made of an input that has a gradient: a second derivative goes through it.

    Args:
        again: such outputs, by the number of the input in which the backward op finds them.
    """
    receivers = [x.like for x in backward.program.outputs]
    parts = _Parts([e for e in (*backward.results, *forward.results) if e is not None], backward.program)
    for n, output in again.items():
        expr = forward.results[output]
        read = [] if expr is None else [p.value for p in in_order([expr]) if p.function == "input"]
        if expr is not None and any(backward.program.inputs[i].slot in receivers for i in read):
            parts.instead[n] = parts.put(expr)
    results = [None if e is None else (parts.put(e), parts.kinds[id(e)]) for e in backward.results]
    numbers = {id(part): n for n, part in enumerate(in_order([r[0] for r in results if r is not None]))}
    return [RowRecipe(None, Per.ALL) if r is None else RowRecipe(_steps(r[0], numbers), r[1]) for r in results]


def _steps(expr: Expr, numbers: dict[int, int]) -> list[PartStep]:
    return [
        PartStep(numbers[id(p)], _COMPUTED.get(p.function, _called), p, tuple([numbers[id(arg)] for arg in p.args]))
        for p in in_order([expr])
    ]


class _Parts:
    """Expressions each part of which stands there once, in terms of what ops compute.

    Args:
        results: of programs. program: the one whose inputs these read.

    Attributes:
        instead: expressions that stand for inputs, by the input's number. kinds: of the parts as they were given.
    """

    def __init__(self, results: Sequence[Expr], program: RowProgram) -> None:
        self.instead: dict[int, Expr] = {}
        self.kinds = kinds_of(list(results), tuple(x.per for x in program.inputs))
        self._uses = Counter([id(arg) for part in in_order(results) for arg in part.args] + [id(e) for e in results])
        self._put: dict[int, Expr] = {}
        self._met: dict[Any, Expr] = {}

    def put(self, expr: Expr) -> Expr:
        """The expression that stands for another one."""
        for part in in_order([expr]):
            if id(part) not in self._put:
                self._put[id(part)] = self._once(part)
        return self._put[id(expr)]

    def _once(self, part: Expr) -> Expr:
        if part.function == "input" and part.value in self.instead:
            return self.instead[part.value]
        function, given = self._named(part)
        args = tuple([self._put[id(arg)] for arg in given])
        key = function, tuple(map(id, args)), repr(part.value), part.dtype
        return self._met.setdefault(key, Expr(function, args, part.value, part.dtype))

    def _named(self, part: Expr) -> tuple[str, tuple[Expr, ...]]:
        """A part as the function that an op computes, and what that is of."""
        args = part.args
        if part.function == "divide" and args[1].function == COUNT and args[0].function == "row_sum":
            return (MEAN, args[0].args) if self._uses[id(args[0])] == 1 else ("divide", args)
        if part.function == "divide" and _is_constant(args[0], 1):
            return "reciprocal", args[1:]
        if part.function == "where" and args[0].function == AT and _is_constant(args[2], 0):
            return (PLACE, (args[1], *args[0].args)) if self.kinds[id(args[1])] is Per.ROW else ("where", args)
        return part.function, args


def _is_constant(part: Expr, value: int) -> bool:
    return part.function == "constant" and part.value == value


# Their values


class RowTensors:
    """The rows of tensors, and what a row program computes of them; each part when a result is asked for that needs it.

    Args:
        tensors: the inputs of the program, None for one that is absent. attrs: of the op.
    """

    def __init__(self, program: RowProgram, tensors: Sequence[Any], attrs: dict[str, Any]) -> None:
        self.program = program = program.chosen(attrs)
        self.tensors, self.told = tensors, program.told(attrs)
        options = tuple([bool(self.told[name]) for name in program.options])
        self.form = RowForm(tuple([tensor is not None for tensor in tensors]), options)
        there = [(t, x) for t, x in zip(tensors, program.inputs, strict=True) if t is not None]
        self.first = next(t for t, x in there if x.per is Per.ELEMENT)
        self.shape = tuple(self.first.shape)
        self.axes = program.axes(len(self.shape), attrs)
        self.others = tuple([axis for axis in range(len(self.shape)) if axis not in self.axes])
        dtypes = {t.dtype for t, x in there if not x.is_integer}
        self.dtype: DType = wide_dtype(reduce(promote, dtypes))
        self._values: dict[int, Any] = {}

    def shown(self, number: int, recipe: RowRecipe) -> Any:
        """A result in the shape and dtype of the input that it is like, None without that."""
        x = self.program.outputs[number]
        like = self.tensors[[y.slot for y in self.program.inputs].index(x.like)]
        if like is None or recipe.steps is None:
            return None
        values = self._values
        for step in recipe.steps:
            if step.number not in values:
                values[step.number] = step.compute(self, step.part, *[values[arg] for arg in step.args])
        result = values[recipe.steps[-1].number]
        if is_number(result):
            return find_op("fill_any_like")(like, value=float(result))
        if x.per is not Per.ELEMENT:
            result = result if len(like.shape) == len(self.shape) else find_op("reshape_like")(result, like)
        elif recipe.kind is not Per.ELEMENT:
            result = find_op("broadcast_to_like")(result, like)
        return _in_dtype(result, like.dtype)

    def input(self, number: int) -> Any:
        """An input, in a shape in which it broadcasts against elements."""
        x, value, rank = self.program.inputs[number], self.tensors[number], len(self.shape)
        value = _in_dtype(value, int64 if x.is_integer else self.dtype)
        if x.per is Per.ELEMENT:
            return value
        shape = value.shape
        if len(shape) == rank or (len(shape) < rank and set(shape) <= {1}):
            return value  # it broadcasts as it is
        lost = self.axes if x.per is Per.ROW else self.others
        sizes = [1 if axis in lost else size for axis, size in enumerate(self.shape)]
        if 0 not in sizes and sizes.count(-1) <= 1:
            return find_op("reshape2")(value, shape=sizes)
        return find_op("reshape_like")(value, find_op("reduce_sum")(self.first, dim=lost, keep_dim=True))

    def count(self) -> Any:
        """How many elements a row has: a number, or a tensor where sizes are unknown."""
        sizes = [self.shape[axis] for axis in self.axes]
        if -1 not in sizes:
            return float(prod(sizes))
        ones = find_op("fill_any_like")(self.first, value=1.0, dtype=self.dtype.name)
        return find_op("reduce_sum")(ones, dim=self.axes, keep_dim=True)

    def placed(self, value: Any, label: Any, ignored: Any) -> Any:
        """A number per row at the place of the row that a label names, 0 elsewhere."""
        (axis,) = self.axes
        return find_op("place_label")(label, value, self.first, axis=axis, ignore_index=ignored)

    def picked(self, x: Any, label: Any, ignored: Any) -> Any:
        """The element of each row that a label names."""
        (axis,) = self.axes
        return find_op("pick_label")(x, label, axis=axis, ignore_index=ignored)

    def is_at(self, label: Any, ignored: Any) -> Any:
        """Whether an element is the one that a label names."""
        return self.placed(find_op("fill_any_like")(label, value=1.0, dtype=self.dtype.name), label, ignored) != 0.0

    def tensor(self, value: Any) -> Any:
        """A number as a tensor."""
        return constant_like(self, value) if is_number(value) else value


def _in_dtype(tensor: Any, dtype: DType) -> Any:
    return tensor if tensor.dtype is dtype else tensor.astype(dtype)


def _cast(rows: RowTensors, part: Expr, x: Any) -> Any:
    """In an expression, float32 stands for the dtype of the rows."""
    dtype = rows.dtype if part.value == "float32" else as_dtype(part.value)
    return x if is_number(x) else _in_dtype(x, dtype)


def _reduced(rows: RowTensors, part: Expr, x: Any) -> Any:
    axes = rows.others if part.function == ACROSS else rows.axes
    return find_op(REDUCED_BY[part.function])(x, dim=axes, keep_dim=True) if axes else x


def _running_sum(rows: RowTensors, part: Expr, x: Any) -> Any:
    (axis,) = rows.axes
    reverse, exclusive = part.value
    return find_op("cumsum")(x, axis=axis, reverse=reverse, exclusive=exclusive)


def _called(rows: RowTensors, part: Expr, *values: Any) -> Any:
    """A function of numbers and tensors."""
    if all(map(is_number, values)):
        return getattr(numpy_xp, part.function)(*values)
    if part.function in INFIX:
        return INFIX[part.function](*values)
    type = NAMED.get(part.function, part.function)
    if part.function in (*SCANS, BESIDE) or look_up(type) is None:
        raise Unimplemented(f"{rows.program.name!r} has no derivative: no op computes {part.function}")
    return find_op(type)(*map(rows.tensor, values))


_COMPUTED: dict[str, Callable[..., Any]] = {
    "input": lambda rows, part: rows.input(part.value),
    "constant": lambda rows, part: part.value,
    "number": lambda rows, part: rows.told[part.value],
    "cast": _cast,
    COUNT: lambda rows, part: rows.count(),
    AT: lambda rows, part, *args: rows.is_at(*args),
    PICK: lambda rows, part, *args: rows.picked(*args),
    PLACE: lambda rows, part, *args: rows.placed(*args),
    SUMS: _running_sum,
    **dict.fromkeys(REDUCED_BY, _reduced),
}
"""What computes a part, by its function; other parts are functions of numbers."""
