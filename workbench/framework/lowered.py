"""Traced expressions as a list of steps: one NumPy function each, every operand a number.

Values are numbered: first the inputs, then the constants, then the result of each step in order. A part that
occurs twice is computed once. Python numbers become arrays without dimensions in the dtype NumPy would have
given them in their place (they are weak: they take the dtype of what they meet), so no step promotes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from workbench.framework.dtype import as_dtype
from workbench.framework.erf import erf, erf_formula
from workbench.framework.expr import Expr, Formula

Dtype = np.dtype[Any]


class Unlowerable(Exception):
    """The expression has no form as NumPy functions for these operands."""


class Step(NamedTuple):
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
    steps: tuple[Step, ...]
    results: tuple[int | None, ...]
    _parts: dict[tuple[bool, ...], Lowered] = field(default_factory=dict)

    @property
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
    def read(self) -> frozenset[int]:
        """The inputs whose values are read."""
        numbers = {i for step in self.steps for i in step.args} | {r for r in self.results if r is not None}
        return frozenset(i for i in numbers if i < len(self.dtypes))

    def only(self, wanted: tuple[bool, ...]) -> Lowered:
        """The steps that some of the results need."""
        found = self._parts.get(wanted)
        if found is None:
            found = self if all(wanted) else self._only(wanted)
            self._parts[wanted] = found
        return found

    def _only(self, wanted: tuple[bool, ...]) -> Lowered:
        results = tuple(r if keep else None for r, keep in zip(self.results, wanted, strict=True))
        return Lowered(self.dtypes, self.constants, *_without_unread(self.first_step, self.steps, results))

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


def _function(step: Step) -> Callable[..., Any]:
    if step.function == "copy":
        return lambda x: np.asarray(x).astype(step.dtype)
    if step.function == "select":
        return np.where
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
    lowering = _Lowering(given)
    try:
        with np.errstate(all="ignore"):
            found = [None if r is None else lowering.operand(r) for r in results]
            return lowering.finished(found)
    except (TypeError, OverflowError, ValueError) as error:
        raise Unlowerable from error


class _Number(NamedTuple):
    """A constant whose dtype is not settled yet."""

    value: Any


class _Lowering:
    """Collects steps. While it does, constants are numbered -1, -2, ... because their count is not known."""

    def __init__(self, dtypes: tuple[Dtype | None, ...]) -> None:
        self.inputs = dtypes
        self.constants: list[np.ndarray[Any, Any]] = []
        self.steps: list[Step] = []
        self.known: dict[Any, int] = {}  # what a value is -> its number
        self.done: dict[int, int | _Number] = {}  # id of an expression -> its value

    def operand(self, root: Expr) -> int | _Number:
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

    def _value(self, node: Expr) -> int | _Number:
        if node.function == "input":
            if self.inputs[node.value] is None:
                raise Unlowerable
            return int(node.value)
        if node.function == "constant":
            return _Number(node.value)
        args = [self.done[id(a)] for a in node.args]
        if node.function == "cast":
            return self._cast(args[0], as_dtype(node.value).numpy)
        if node.function == "where":
            return self._select(*args)
        if node.function == "erf":
            return self._erf(args[0])
        return self._call(node.function, args)

    def _call(self, function: str, args: list[int | _Number]) -> int | _Number:
        ufunc = getattr(np, function)
        if all(isinstance(a, _Number) for a in args):
            return _Number(ufunc(*[a.value for a in args if isinstance(a, _Number)]))
        loop = ufunc.resolve_dtypes((*map(self._kind, args), None))
        operands = tuple(self._settled(a, d) for a, d in zip(args, loop, strict=False))
        return self._add(Step(function, operands, loop[:-1], loop[-1]))

    def _kind(self, operand: int | _Number) -> Any:
        """What NumPy promotes with: a dtype, or int or float for a number that adapts."""
        if not isinstance(operand, _Number):
            return self._dtype(operand)
        kind = type(operand.value)
        return kind if kind in (int, float) else np.asarray(operand.value).dtype

    def _dtype(self, number: int) -> Dtype:
        if number < 0:
            return self.constants[-1 - number].dtype
        dtype = self.inputs[number] if number < len(self.inputs) else self.steps[number - len(self.inputs)].dtype
        assert dtype is not None
        return dtype

    def _settled(self, operand: int | _Number, dtype: Dtype) -> int:
        """The number of an operand; a constant gets its dtype here."""
        if not isinstance(operand, _Number):
            return operand
        array = np.asarray(operand.value, dtype)
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self.known:
            array.flags.writeable = False
            self.constants.append(array)
            self.known[key] = -len(self.constants)
        return self.known[key]

    def _add(self, step: Step) -> int:
        if step not in self.known:
            self.steps.append(step)
            self.known[step] = len(self.inputs) + len(self.steps) - 1
        return self.known[step]

    def _cast(self, operand: int | _Number, dtype: Dtype) -> int | _Number:
        if dtype.kind not in "fiub":
            raise Unlowerable
        if isinstance(operand, _Number):
            return _Number(np.asarray(operand.value).astype(dtype)[()])
        found = self._dtype(operand)
        return operand if found == dtype else self._add(Step("copy", (operand,), (found,), dtype))

    def _select(self, condition: int | _Number, x: int | _Number, y: int | _Number) -> int | _Number:
        """A number takes the dtype of the other choice, as in `numpy_xp.where`."""
        kinds = [self._kind(v) for v in (x, y)]
        if isinstance(kinds[0], type):
            kinds[0] = kinds[1]
        elif isinstance(kinds[1], type):
            kinds[1] = kinds[0]
        dtype = np.result_type(*(np.dtype(k) for k in kinds))
        mask = self._settled(condition, np.dtype(bool))
        found = self._dtype(mask)
        if found.kind != "b":
            zero = self._settled(_Number(0), found)
            mask = self._add(Step("not_equal", (mask, zero), (found, found), np.dtype(bool)))
        choices = [self._choice(v, k, dtype) for v, k in zip((x, y), kinds, strict=True)]
        return self._add(Step("select", (mask, *choices), (np.dtype(bool), dtype, dtype), dtype))

    def _choice(self, operand: int | _Number, own: Dtype, common: Dtype) -> int:
        if isinstance(operand, _Number):
            operand = _Number(np.asarray(operand.value, own)[()])
        return self._settled(self._cast(operand, common), common)

    def _erf(self, operand: int | _Number) -> int | _Number:
        if isinstance(operand, _Number):
            return _Number(erf(operand.value)[()])
        dtype = self._dtype(operand)
        return self._add(Step("erf", (operand,), (dtype,), dtype))

    def finished(self, results: list[int | _Number | None]) -> Lowered:
        """The steps, with every value at its final number."""
        settled = [self._settled(r, np.asarray(r.value).dtype) if isinstance(r, _Number) else r for r in results]
        n, k = len(self.inputs), len(self.constants)

        def final(number: int) -> int:
            if number < 0:
                return n - 1 - number
            return number if number < n else number + k

        steps = tuple(step._replace(args=tuple(map(final, step.args))) for step in self.steps)
        numbers = tuple(None if r is None else final(r) for r in settled)
        return Lowered(self.inputs, tuple(self.constants), *_without_unread(n + k, steps, numbers))


def _without_unread(
    first: int, steps: Sequence[Step], results: Sequence[int | None]
) -> tuple[tuple[Step, ...], tuple[int | None, ...]]:
    """Steps some result needs, and the results in the new numbering."""
    needed = {r for r in results if r is not None}
    for i in reversed(range(len(steps))):
        if first + i in needed:
            needed.update(steps[i].args)
    kept = [i for i in range(len(steps)) if first + i in needed]
    new: dict[int, int] = {first + i: first + k for k, i in enumerate(kept)}
    renumbered = (s._replace(args=tuple(new.get(a, a) for a in s.args)) for s in (steps[i] for i in kept))
    return tuple(renumbered), tuple(None if r is None else new.get(r, r) for r in results)


# Forms that do well with buffers


def for_buffers(lowered: Lowered) -> Lowered:
    """The same values by steps that all can write into given memory, casts of truth values merged."""
    return _masks_as_numbers(_with_erf_spelled_out(lowered))


@lru_cache(maxsize=8)
def _erf_steps(dtype: Dtype) -> Lowered:
    x = Expr("input", value=0, dtype=dtype)
    wide = x if dtype in (np.float32, np.float64) else x.astype("float32")
    result = erf_formula(Formula, wide)
    return lower([result if wide is x else result.astype(dtype)], (dtype,))


def _with_erf_spelled_out(lowered: Lowered) -> Lowered:
    """`erf` as the arithmetic it consists of."""
    if not any(step.function == "erf" for step in lowered.steps):
        return lowered
    join = _Lowering(lowered.dtypes)
    numbers: list[int] = list(range(len(lowered.dtypes)))
    numbers += [join._settled(_Number(c), c.dtype) for c in lowered.constants]
    for step in lowered.steps:
        args = tuple(numbers[a] for a in step.args)
        numbers.append(_spliced(join, args[0], step) if step.function == "erf" else join._add(step._replace(args=args)))
    return join.finished([None if r is None else numbers[r] for r in lowered.results])


def _spliced(join: _Lowering, operand: int, step: Step) -> int:
    inner = _erf_steps(step.loop[0])
    numbers = [operand, *(join._settled(_Number(c), c.dtype) for c in inner.constants)]
    for part in inner.steps:
        numbers.append(join._add(part._replace(args=tuple(numbers[a] for a in part.args))))
    (result,) = inner.results
    assert result is not None
    return numbers[result]


def _masks_as_numbers(lowered: Lowered) -> Lowered:
    """Comparisons that only serve as factors give 0.0 and 1.0 at once.

    A ufunc that mixes bool with float converts one operand in small pieces each time; one whose result alone is
    converted is faster, and the cast step between disappears.
    """
    first, steps = lowered.first_step, list(lowered.steps)
    readers = _readers(lowered)
    replaced: dict[int, int] = {}  # value -> the one that serves in its place
    for i, step in enumerate(steps):
        if step.dtype.kind != "b" or step.function in ("copy", "select") or len(readers.get(first + i, ())) != 1:
            continue
        (reader,) = readers[first + i]
        wanted = _number_dtype(steps[reader], first + i) if reader is not None else None
        if reader is None or wanted is None:
            continue
        steps[i] = step._replace(dtype=wanted, converts=True)
        if steps[reader].function == "copy":
            replaced[first + reader] = first + i
    if not replaced:
        return Lowered(lowered.dtypes, lowered.constants, tuple(steps), lowered.results)
    steps = [s._replace(args=tuple(replaced.get(a, a) for a in s.args)) for s in steps]
    results = tuple(None if r is None else replaced.get(r, r) for r in lowered.results)
    return Lowered(lowered.dtypes, lowered.constants, *_without_unread(first, steps, results))


def _readers(lowered: Lowered) -> dict[int, list[int | None]]:
    """Value -> the steps that read it, once per operand; None stands for a result."""
    readers: dict[int, list[int | None]] = {}
    for i, step in enumerate(lowered.steps):
        for number in step.args:
            readers.setdefault(number, []).append(i)
    for result in lowered.results:
        if result is not None:
            readers.setdefault(result, []).append(None)
    return readers


def _number_dtype(step: Step, number: int) -> Dtype | None:
    """The dtype in which a step reads a truth value as a number; None if it reads it as a truth value."""
    found = step.dtype if step.function == "copy" else step.loop[step.args.index(number)]
    return None if found.kind == "b" else found


def attrs_key(attrs: dict[str, Any]) -> Any:
    """Attributes as a key under which what was traced for them can be kept: 1, 1.0, True and -0.0, 0.0 differ.

    Raises:
        TypeError: on use as a key, for an attribute that cannot be hashed.
    """
    values = tuple(attrs.values())
    key = (tuple(attrs), values, tuple(map(type, values)))
    return (key, repr(values)) if 0.0 in values else key
