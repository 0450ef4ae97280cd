"""The NumPy form of a row program: its body on arrays. This is what its kernels are held against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.rows.program import Operand, RowProgram
from workbench.framework.rows.recording import Per
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import Spec
from workbench.framework.values.sums import BLOCK, add_up

Check = Callable[..., None]


_ADD_UP: Any = np.add.reduce
_LARGEST: Any = np.maximum.reduce


class RowArrays:
    """A `rows` that computes with arrays of `xp`, see `recording`.

    Args:
        shape: of the elements. axes: which make up a row. what: the op, for messages.
    """

    def __init__(self, xp: Any, shape: tuple[int, ...], axes: tuple[int, ...], what: str) -> None:
        self.xp, self.shape, self.axes, self.what = xp, shape, axes, what
        self.count = prod(shape[a] for a in axes)
        self.kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
        self.is_short = self.count < BLOCK and getattr(xp, "add", None) is np.add  # no sum is worth cutting into blocks
        self.places = tuple(d if a in axes else 1 for a, d in enumerate(shape))

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.xp, name)
        setattr(self, name, function)  # the next look-up is a plain attribute
        return function

    def sum(self, x: Any) -> Any:
        if self.is_short:
            return _ADD_UP(x, self.axes, x.dtype, None, True)
        if x.dtype.kind != "f":
            return x.sum(axis=self.axes, keepdims=True, dtype=x.dtype)
        return add_up(x, self.axes, keepdims=True)

    def mean(self, x: Any) -> Any:
        return self.sum(x) / (self.count or math.nan)

    def prod(self, x: Any) -> Any:
        return x.prod(axis=self.axes, keepdims=True, dtype=x.dtype)

    def max(self, x: Any) -> Any:
        if self.is_short:
            return _LARGEST(x, self.axes, None, None, True)
        return x.max(axis=self.axes, keepdims=True)

    def min(self, x: Any) -> Any:
        return x.min(axis=self.axes, keepdims=True)

    def top(self, x: Any) -> Any:
        return self.max(x) if self.count else self.xp.full(self.kept, -self.xp.inf, x.dtype)

    def across(self, x: Any) -> Any:
        return add_up(x, tuple(a for a in range(len(self.shape)) if a not in self.axes), keepdims=True)

    def running_sum(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Any:
        return self._running(self.xp.add, x, 0, reverse, exclusive)

    def running_prod(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Any:
        return self._running(self.xp.multiply, x, 1, reverse, exclusive)

    def running_max(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Any:
        return self._running(self.xp.maximum, x, -math.inf, reverse, exclusive)

    def running_min(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Any:
        return self._running(self.xp.minimum, x, math.inf, reverse, exclusive)

    def running_logsumexp(self, x: Any, reverse: bool = False) -> Any:
        return self._running(self.xp.logaddexp, x, -math.inf, reverse, False)

    def _running(self, ufunc: Any, x: Any, start: float, reverse: bool, exclusive: bool) -> Any:
        if not self.count:
            return self.xp.empty(self.shape, x.dtype)
        x = self._turned(x, reverse)
        if exclusive:
            first = self.xp.full(self.kept, start, x.dtype)
            x = self.xp.concatenate([first, x[self._cut(0, self.count - 1)]], self._axis)
        return self._turned(ufunc.accumulate(x, self._axis, x.dtype), reverse)

    def recur(self, a: Any, b: Any, reverse: bool = False) -> Any:
        dtype = self.xp.result_type(a, b)
        out, held = self.xp.empty(self.shape, dtype), self.xp.zeros(self.kept, dtype)
        a, b = self._turned(a, reverse), self._turned(b, reverse)
        seen = self.xp.flip(out, self._axis) if reverse else out
        for k in range(self.count):
            at = self._cut(k, k + 1)
            held = a[at] * held + b[at]
            seen[at] = held
        return out

    def last_place(self, mask: Any) -> Any:
        places = self.xp.where(mask, self.xp.arange(self.count).reshape(self.places), 0)
        return self._running(self.xp.maximum, places, 0, False, False)

    def before(self, x: Any, first: float) -> Any:
        shifted = self.xp.full(self.shape, first, x.dtype)
        shifted[self._cut(1, None)] = x[self._cut(None, -1)]
        return shifted

    def after(self, x: Any, last: float) -> Any:
        shifted = self.xp.full(self.shape, last, x.dtype)
        shifted[self._cut(None, -1)] = x[self._cut(1, None)]
        return shifted

    @property
    def _axis(self) -> int:
        """The only one, along which a row runs."""
        (axis,) = self.axes
        return axis

    def _cut(self, begin: int | None, end: int | None) -> tuple[slice, ...]:
        return (slice(None),) * self._axis + (slice(begin, end),)

    def _turned(self, x: Any, reverse: bool) -> Any:
        """Elements in the order in which they are gone over."""
        x = self.xp.broadcast_to(x, self.shape)
        return self.xp.flip(x, self._axis) if reverse else x

    def at(self, label: Any, ignored: int) -> Any:
        place = self.xp.arange(self.count, dtype=label.dtype).reshape(self.places)
        return (place == label) & (label != ignored)

    def pick(self, x: Any, label: Any, ignored: int) -> Any:
        if not self.count:
            return self.xp.zeros(self.kept, x.dtype)
        (axis,) = self.axes
        is_ignored = label == ignored
        picked = self.xp.take_along_axis(x, self.xp.where(is_ignored, 0, label), axis)
        return self.xp.where(is_ignored, x.dtype.type(0), picked)

    def place(self, value: Any, label: Any, ignored: int) -> Any:
        return self.xp.where(self.at(label, ignored), value, value.dtype.type(0))


def numpy_form(
    program: RowProgram, check: Check | None = None, require: Callable[[RowArrays, dict[str, Any]], None] | None = None
) -> Callable[..., Any]:
    """`forward(xp, *arrays, **attrs)` of an op, the body of a program.

    Args:
        check: `(xp, what, label, count, ignored)` raises if a label is no place of a row.
        require: `(rows, attrs)` raises for rows the op does not take.
    """
    one, whole, what = len(program.outputs) == 1, program, program.name.removesuffix("_grad")

    def forward(xp: Any, *arrays: Any, wanted: Any = None, **attrs: Any) -> Any:
        program = whole.chosen(attrs)
        first = _first_full(program, arrays)
        axes = program.axes(first.ndim, attrs)
        rows = RowArrays(xp, first.shape, axes, what)
        if require is not None:
            require(rows, attrs)
        given = [None if a is None else _seen(rows, a, x) for a, x in zip(arrays, program.inputs, strict=True)]
        if check is not None:
            _check_labels(xp, check, program, rows, arrays, attrs)
        results = program.body(rows, *given, **program.told(attrs))
        shown = [
            None if r is None else _shown(program, rows, r, x, first, attrs, arrays)
            for r, x in zip((results,) if one else results, program.outputs, strict=True)
        ]
        return shown[0] if one else tuple(shown)

    forward.__module__ = program.body.__module__
    return forward


def settled(program: RowProgram, specs: Sequence[Spec], attrs: dict[str, Any]) -> Callable[..., Any] | None:
    """`body(*arrays)`: the NumPy form of a program with one output, with all settled that specs and attributes settle.

    Args:
        specs: of the inputs, all there. Returns: None where dtypes have to be brought together first.
    """
    program = program.chosen(attrs)
    (x,) = program.outputs
    dtypes = {spec.dtype.name for spec in specs}
    if len(dtypes) > 1 or not dtypes <= {"float32", "float64"}:
        return None
    first = next(spec for spec, y in zip(specs, program.inputs, strict=True) if y.per is Per.ELEMENT)
    axes = program.axes(len(first.shape), attrs)
    rows = RowArrays(numpy_xp, first.shape, axes, program.name)
    shape = first.shape if x.per is Per.ELEMENT else _row_shape(program, rows, attrs)
    body, told = program.body, program.told(attrs)
    if len(specs) == 1:
        return lambda array: body(rows, array, **told).reshape(shape)
    dtype, seen_as = first.dtype.numpy, {Per.ROW: rows.kept, Per.PLACE: rows.places}
    targets = [seen_as.get(y.per) for y in program.inputs]

    def run(*arrays: Any) -> Any:
        result = body(rows, *[a if t is None else a.reshape(t) for a, t in zip(arrays, targets)], **told)
        if result.shape == shape:
            return result
        out = np.empty(shape, dtype)
        out[...] = result
        return out

    return run


def _row_shape(program: RowProgram, rows: RowArrays, attrs: dict[str, Any]) -> tuple[int, ...]:
    """Of an output with one number per row."""
    return rows.kept if program.row_shape is None else program.row_shape(rows.shape, rows.axes, attrs)


def _first_full(program: RowProgram, arrays: Sequence[Any]) -> Any:
    return next(a for a, x in zip(arrays, program.inputs, strict=True) if a is not None and x.per is Per.ELEMENT)


def _check_labels(
    xp: Any, check: Check, program: RowProgram, rows: RowArrays, arrays: Sequence[Any], attrs: dict[str, Any]
) -> None:
    for array, x in zip(arrays, program.inputs, strict=True):
        if array is not None and x.is_integer:
            check(xp, f"{rows.what}: {x.slot.lower()}", array, rows.count, attrs[program.integers[0]])


def _seen(rows: RowArrays, array: Any, x: Operand) -> Any:
    """An operand in a shape in which it broadcasts against elements, halves as float32."""
    if array.dtype.char in HALVES:
        array = array.astype("float32")
    if x.per is Per.ROW:
        return array.reshape(rows.kept)
    return array.reshape(rows.places) if x.per is Per.PLACE else array


def _shown(
    program: RowProgram, rows: RowArrays, result: Any, x: Operand, first: Any, attrs: dict[str, Any],
    arrays: Sequence[Any],
) -> Any:  # fmt: skip
    """A result in the shape and dtype of its output; None where the input that it is like is absent."""
    dtype = result.dtype if x.is_wide or x.is_integer else first.dtype
    if x.like:
        like = arrays[[y.slot for y in program.inputs].index(x.like)]
        if like is None:
            return None
        result, dtype = rows.xp.broadcast_to(result, _seen(rows, like, x).shape).reshape(like.shape), like.dtype
    elif x.per is Per.ELEMENT:
        result = rows.xp.broadcast_to(result, first.shape)
    else:
        result = result.reshape(_row_shape(program, rows, attrs))
    if result.dtype != dtype:
        return result.astype(dtype)
    return result if result.flags.writeable else result.copy()
