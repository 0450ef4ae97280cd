"""Traced expressions as a list of steps: one NumPy function each, every operand a number.

Values are numbered: first the inputs, then the constants, then the result of each step in order. A part that
occurs twice is computed once. Python numbers become arrays without dimensions in the dtype NumPy would have
given them in their place (they are weak: they take the dtype of what they meet), so no step promotes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from workbench.framework.expr.erf import erf
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.numpy_functions import choose
from workbench.framework.outside import is_from_outside
from workbench.framework.quiet import quietly
from workbench.framework.values.dtype import as_dtype

Dtype = np.dtype[Any]


class Unlowerable(Exception):
    """The expression has no form as NumPy functions for these operands."""


class ExprStep(NamedTuple):
    """One function of numbered values.

    Attributes:
        function: the name of a ufunc, or `"copy"` (a cast), `"select"` (condition, x, y), `"erf"`.
        loop: the dtype each operand is computed in.
        dtype: of the result.
        converts: the function gives truth values, which are kept as numbers of `dtype`.
    """

    function: str
    args: tuple[int, ...]
    loop: tuple[Dtype, ...]
    dtype: Dtype
    converts: bool = False


@dataclass(frozen=True, eq=False)
class Lowered:
    """Expressions as steps.

    Attributes:
        dtypes: of the inputs, None for those that are absent.
        results: the number of each result's value; None for one that is not asked for.
    """

    dtypes: tuple[Dtype | None, ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    steps: tuple[ExprStep, ...]
    results: tuple[int | None, ...]
    _parts: dict[tuple[bool, ...], Lowered] = field(default_factory=dict, init=False)

    @cached_property
    def first_step(self) -> int:
        """The number of the value the first step gives."""
        return len(self.dtypes) + len(self.constants)

    def dtype_of(self, number: int) -> Dtype | None:
        """The dtype of a value."""
        if number < len(self.dtypes):
            return self.dtypes[number]
        if number < self.first_step:
            return self.constants[number - len(self.dtypes)].dtype
        return self.steps[number - self.first_step].dtype

    @cached_property
    def only_step(self) -> ExprStep | None:
        """The step, if it is a single ufunc that gives the single result."""
        one = len(self.steps) == 1 and self.results == (self.first_step,)
        return self.steps[0] if one and self.steps[0].function not in ("copy", "select", "erf") else None

    @cached_property
    def read(self) -> frozenset[int]:
        """The inputs whose values are read."""
        numbers = {i for step in self.steps for i in step.args} | {r for r in self.results if r is not None}
        return frozenset(i for i in numbers if i < len(self.dtypes))

    def only(self, wanted: tuple[bool, ...]) -> Lowered:
        """The steps that some of the results need."""
        part = self._parts.get(wanted)
        if part is None:
            part = self if all(wanted) else self._only(wanted)
            self._parts[wanted] = part
        return part

    def _only(self, wanted: tuple[bool, ...]) -> Lowered:
        results = tuple(r if keep else None for r, keep in zip(self.results, wanted, strict=True))
        return Lowered(self.dtypes, self.constants, *without_unread(self.first_step, self.steps, results))

    def evaluate(self, arrays: Sequence[Any]) -> list[Any]:
        """The results for the given inputs, None for those that are not asked for."""
        values = [*arrays, *self.constants]
        for function, args, dying in self._calls:
            values.append(function(*[values[i] for i in args]))
            for number in dying:
                values[number] = None
        return [None if r is None else values[r] for r in self.results]

    @cached_property
    def _calls(self) -> list[tuple[Callable[..., Any], tuple[int, ...], list[int]]]:
        """Function, operands, and the values of earlier steps nobody reads afterwards."""
        seen = {r for r in self.results if r is not None}
        calls = []
        for step in reversed(self.steps):
            dying = [i for i in dict.fromkeys(step.args) if i >= self.first_step and i not in seen]
            seen.update(dying)
            calls.append((_function(step), step.args, dying))
        return calls[::-1]


def _function(step: ExprStep) -> Callable[..., Any]:
    if step.function == "copy":
        return lambda x: np.asarray(x).astype(step.dtype)
    if step.function == "select":
        return choose
    return erf if step.function == "erf" else getattr(np, step.function)


def lower(results: Sequence[Expr | None], dtypes: Sequence[Any]) -> Lowered:
    """Expressions as steps.

    Args:
        results: traced expressions, which may share parts; None = not asked for.
        dtypes: the dtype of every input, None for one that is absent (and not read).

    Raises:
        Unlowerable: a dtype NumPy itself does not have (bfloat16), or operands a function refuses.
    """
    given = tuple(None if d is None else np.dtype(d) for d in dtypes)
    if any(d is not None and d.kind not in "fiub" for d in given):
        raise Unlowerable
    lowering = Lowering(given)
    try:
        return quietly(lambda: lowering.finished([None if r is None else lowering.operand(r) for r in results]))
    except (TypeError, OverflowError, ValueError) as error:
        if is_from_outside(error):
            raise
        raise Unlowerable from error


class Number(NamedTuple):
    """A constant whose dtype is not settled yet."""

    value: Any


class Lowering:
    """Collects steps. While it does, constants are numbered -1, -2, ... because their count is not known."""

    def __init__(self, dtypes: tuple[Dtype | None, ...]) -> None:
        self.inputs = dtypes
        self.constants: list[np.ndarray[Any, Any]] = []
        self.steps: list[ExprStep] = []
        self.known: dict[Any, int] = {}  # what a value is -> its number
        self.done: dict[int, int | Number] = {}  # id of an expression -> its value

    def operand(self, root: Expr) -> int | Number:
        """The value of an expression; without recursion, since fused chains are long."""
        todo = [root]
        while todo:
            node = todo[-1]
            missing = [a for a in node.args if id(a) not in self.done]
            if missing:
                todo += missing
                continue
            todo.pop()
            if id(node) not in self.done:
                self.done[id(node)] = self._value(node)
        return self.done[id(root)]

    def _value(self, node: Expr) -> int | Number:
        if node.function == "input":
            if self.inputs[node.value] is None:
                raise Unlowerable
            return int(node.value)
        if node.function == "constant":
            return Number(node.value)
        args = [self.done[id(a)] for a in node.args]
        if node.function == "cast":
            return self._cast(args[0], as_dtype(node.value).numpy)
        if node.function == "where":
            return self._select(*args)
        if node.function == "erf":
            return self._erf(args[0])
        return self._call(node.function, args)

    def _call(self, function: str, args: list[int | Number]) -> int | Number:
        ufunc = getattr(np, function)
        if all(isinstance(a, Number) for a in args):
            return Number(ufunc(*[a.value for a in args if isinstance(a, Number)]))
        loop = ufunc.resolve_dtypes((*map(self._kind, args), None))
        operands = tuple(self.settle(a, d) for a, d in zip(args, loop, strict=False))
        return self.add(ExprStep(function, operands, loop[:-1], loop[-1]))

    def _kind(self, operand: int | Number) -> Any:
        """What NumPy promotes with: a dtype, or int or float for a number that adapts."""
        if not isinstance(operand, Number):
            return self._dtype(operand)
        kind = type(operand.value)
        return kind if kind in (int, float) else np.asarray(operand.value).dtype

    def _dtype(self, number: int) -> Dtype:
        if number < 0:
            return self.constants[-1 - number].dtype
        dtype = self.inputs[number] if number < len(self.inputs) else self.steps[number - len(self.inputs)].dtype
        assert dtype is not None
        return dtype

    def settle(self, operand: int | Number, dtype: Dtype) -> int:
        """The number of an operand; a constant gets its dtype here."""
        if not isinstance(operand, Number):
            return operand
        array = np.asarray(operand.value, dtype)
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self.known:
            array.flags.writeable = False
            self.constants.append(array)
            self.known[key] = -len(self.constants)
        return self.known[key]

    def add(self, step: ExprStep) -> int:
        if step not in self.known:
            self.steps.append(step)
            self.known[step] = len(self.inputs) + len(self.steps) - 1
        return self.known[step]

    def _cast(self, operand: int | Number, dtype: Dtype) -> int | Number:
        if dtype.kind not in "fiub":
            raise Unlowerable
        if isinstance(operand, Number):
            return Number(np.asarray(operand.value).astype(dtype)[()])
        held = self._dtype(operand)
        return operand if held == dtype else self.add(ExprStep("copy", (operand,), (held,), dtype))

    def _select(self, condition: int | Number, x: int | Number, y: int | Number) -> int | Number:
        """A number takes the dtype of the other choice, as in `numpy_xp.where`."""
        kinds = [self._kind(v) for v in (x, y)]
        if isinstance(kinds[0], type):
            kinds[0] = kinds[1]
        elif isinstance(kinds[1], type):
            kinds[1] = kinds[0]
        dtype = np.result_type(*(np.dtype(k) for k in kinds))
        mask = self.settle(condition, np.dtype(bool))
        held = self._dtype(mask)
        if held.kind != "b":
            zero = self.settle(Number(0), held)
            mask = self.add(ExprStep("not_equal", (mask, zero), (held, held), np.dtype(bool)))
        choices = [self._choice(v, k, dtype) for v, k in zip((x, y), kinds, strict=True)]
        return self.add(ExprStep("select", (mask, *choices), (np.dtype(bool), dtype, dtype), dtype))

    def _choice(self, operand: int | Number, own: Dtype, common: Dtype) -> int:
        if isinstance(operand, Number):
            operand = Number(np.asarray(operand.value, own)[()])
        return self.settle(self._cast(operand, common), common)

    def _erf(self, operand: int | Number) -> int | Number:
        if isinstance(operand, Number):
            return Number(erf(operand.value)[()])
        dtype = self._dtype(operand)
        return self.add(ExprStep("erf", (operand,), (dtype,), dtype))

    def finished(self, results: list[int | Number | None]) -> Lowered:
        """The steps, with every value at its final number."""
        settled = [self.settle(r, np.asarray(r.value).dtype) if isinstance(r, Number) else r for r in results]
        n, k = len(self.inputs), len(self.constants)

        def final(number: int) -> int:
            if number < 0:
                return n - 1 - number
            return number if number < n else number + k

        steps = tuple(step._replace(args=tuple(map(final, step.args))) for step in self.steps)
        numbers = tuple(None if r is None else final(r) for r in settled)
        return Lowered(self.inputs, tuple(self.constants), *without_unread(n + k, steps, numbers))


def without_unread(
    first: int, steps: Sequence[ExprStep], results: Sequence[int | None]
) -> tuple[tuple[ExprStep, ...], tuple[int | None, ...]]:
    """Steps some result needs, and the results in the new numbering."""
    needed = {r for r in results if r is not None}
    for i in reversed(range(len(steps))):
        if first + i in needed:
            needed.update(steps[i].args)
    kept = [i for i in range(len(steps)) if first + i in needed]
    new: dict[int, int] = {first + i: first + k for k, i in enumerate(kept)}
    renumbered = (s._replace(args=tuple(new.get(a, a) for a in s.args)) for s in (steps[i] for i in kept))
    return tuple(renumbered), tuple(None if r is None else new.get(r, r) for r in results)


def attrs_key(attrs: dict[str, Any]) -> Any:
    """Attributes as a key under which what was traced for them can be kept: 1, 1.0, True and -0.0, 0.0 differ.

    Raises:
        TypeError: on use as a key, for an attribute that cannot be hashed.
    """
    values = tuple([tuple(v) if type(v) is list else v for v in attrs.values()])
    key = (tuple(attrs), values, tuple(map(type, values)))
    return (key, repr(values)) if 0.0 in values else key
