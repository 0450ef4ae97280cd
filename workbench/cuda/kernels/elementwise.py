"""Kernels of element-wise expressions: one thread an element, whatever the strides and the dtypes of the operands.

They are made from `Lowered`, the steps of expressions with the dtypes NumPy computes them in. An operand is read in one
of three ways: where it lies as the result does, at the same number; where it is one number, at zero; else at a place
that follows from the dimensions, of which neighbours are joined as far as all operands allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, named
from workbench.cuda.kernels.numbers import PREAMBLE, NoKernel, applied, converted, held, literal, load, rounded, store
from workbench.cuda.kernels.numbers import stored as type_in_memory
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import ExprStep, Lowered, Lowering, Number, Unlowerable
from workbench.framework.quiet import quietly
from workbench.framework.values.dtype import as_dtype

THREADS = 256
MOST_NARROW = 1 << 31
"""Up to so many elements are numbered in 32 bits, which divide several times as fast."""
DENSE, ONE, STRIDED = "dense", "one", "strided"


class _DeviceLowering(Lowering):
    """Lowers expressions that may hold bfloat16, which NumPy itself does not have."""

    def _cast(self, operand: int | Number, dtype: np.dtype[Any]) -> int | Number:
        if isinstance(operand, Number):
            return Number(np.asarray(operand.value).astype(dtype)[()])
        held_as = self._dtype(operand)
        return operand if held_as == dtype else self.add(ExprStep("copy", (operand,), (held_as,), dtype))


def lowered_for_device(results: Sequence[Expr | None], dtypes: Sequence[Any]) -> Lowered:
    """Expressions as steps, of halves as well.

    Raises:
        NoKernel: a function refuses its operands.
    """
    lowering = _DeviceLowering(tuple(None if d is None else as_dtype(d).numpy for d in dtypes))
    try:
        return quietly(lambda: lowering.finished([None if r is None else lowering.operand(r) for r in results]))
    except (TypeError, ValueError, OverflowError, Unlowerable) as error:
        raise NoKernel(f"the expression has no steps for {', '.join(map(str, dtypes))}: {error}") from error


class Iteration(NamedTuple):
    """The dimensions a kernel goes through, neighbours joined, and the strides of its operands in elements."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def way(self, operand: int) -> str:
        """How an operand is read."""
        strides = self.strides[operand]
        if not any(strides):
            return ONE
        return DENSE if strides == dense_strides(self.shape) else STRIDED


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of an array that lies row by row without gaps."""
    return tuple(prod(shape[a + 1 :]) for a in range(len(shape)))


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Strides of an array seen in a larger shape: 0 where it is repeated."""
    ahead = len(to) - len(shape)
    own = [0 if d == 1 else s for d, s in zip(shape, strides, strict=True)]
    return (*([0] * ahead), *own)


def iteration(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Iteration:
    """The dimensions of a result, without those of size 1, and with neighbours joined where all operands allow it."""
    dims = [d for d in range(len(shape)) if shape[d] != 1]
    joined: list[tuple[int, tuple[int, ...]]] = []
    for d in dims:
        own = tuple(s[d] for s in strides)
        if joined and joined[-1][1] == tuple(s * shape[d] for s in own):
            joined[-1] = (joined[-1][0] * shape[d], own)
        else:
            joined.append((shape[d], own))
    sizes = tuple(size for size, _ in joined)
    return Iteration(sizes, tuple(tuple(own[k] for _, own in joined) for k in range(len(strides))))


@dataclass(frozen=True)
class ElementwiseKernel:
    """A kernel of some expressions for operands that lie in certain ways.

    Attributes:
        kernel: its operands are the inputs that are read, then the results that are asked for.
        ways: of every operand. rank: of the iteration, 1 where no operand needs places.
    """

    kernel: CudaKernel
    ways: tuple[str, ...]
    rank: int

    def launch(self, one: Iteration) -> Launch:
        """The launch for dimensions; `one` has to have the ways and the rank the kernel was made for."""
        numbers: list[np.generic] = [np.int64(one.elements)]
        numbers += [np.int64(size) for size in one.shape[1:]] if self.rank > 1 else []
        for way, strides in zip(self.ways, one.strides, strict=True):
            numbers += [np.int64(s) for s in strides] if way == STRIDED else []
        return Launch((blocks_for(one.elements, THREADS), 1, 1), (THREADS, 1, 1), tuple(numbers))


def read_by(lowered: Lowered) -> list[int]:
    """The inputs that a kernel of expressions reads, in order."""
    return sorted(lowered.read)


def elementwise_kernel(
    name: str, lowered: Lowered, one: Iteration, out_dtypes: Sequence[Any] | None = None,
    in_dtypes: Sequence[Any] | None = None,
) -> ElementwiseKernel:  # fmt: skip
    """Make a kernel.

    Args:
        lowered: what it computes. one: of the operands, those inputs that are read and then the results asked for.
        out_dtypes: of the results in memory, where they are not the ones that are computed.
        in_dtypes: of all inputs in memory, likewise.
    """
    source = _ExpressionText(lowered, one, out_dtypes, in_dtypes)
    body = source.text()
    entry = named(name, body)
    head = f'\nextern "C" __global__ void __launch_bounds__({THREADS}) {entry}({source.parameters()}) {{\n'
    operands = tuple((operand, as_dtype(dtype).name) for operand, dtype in source.operands)
    kernel = CudaKernel(entry, PREAMBLE + head + body + "}\n", operands)
    return ElementwiseKernel(kernel, source.ways, source.rank)


class _ExpressionText:
    """The text of one kernel."""

    def __init__(self, lowered: Lowered, one: Iteration, out_dtypes: Any, in_dtypes: Any) -> None:
        self.lowered = lowered
        self.reads = read_by(lowered)
        self.writes = [(n, number) for n, number in enumerate(lowered.results) if number is not None]
        self.in_dtypes = {n: in_dtypes[n] if in_dtypes else lowered.dtypes[n] for n in self.reads}
        self.out_dtypes = {n: out_dtypes[n] if out_dtypes else lowered.dtype_of(number) for n, number in self.writes}
        self.operands = [(f"x{n}", self.in_dtypes[n]) for n in self.reads]
        self.operands += [(f"y{n}", self.out_dtypes[n]) for n, _ in self.writes]
        self.ways = tuple(one.way(k) for k in range(len(self.operands)))
        self.rank = max(len(one.shape), 1) if STRIDED in self.ways else 1
        self.index = "unsigned int" if one.elements < MOST_NARROW else "long long"

    def parameters(self) -> str:
        """Of the function: addresses, the count, sizes of dimensions but the first, strides."""
        given = [f"{type_in_memory(dtype)}* {name}" for name, dtype in self.operands]
        given.append("long long count")
        given += [f"long long size{d}" for d in range(1, self.rank)]
        for (name, _), way in zip(self.operands, self.ways, strict=True):
            given += [f"long long {name}_{d}" for d in range(self.rank)] if way == STRIDED else []
        return ", ".join(given)

    def text(self) -> str:
        lines = [
            f"  typedef {self.index} place;",
            "  for (place i = blockIdx.x * (place)blockDim.x + threadIdx.x; i < (place)count;",
            "       i += gridDim.x * (place)blockDim.x) {",
            *self._places(),
            *(f"    const {held(d)} v{n} = {self._loaded(n, d)};" for n, d in self._held_inputs()),
            *(f"    const {held(step.dtype)} v{n} = {self._computed(step)};" for n, step in self._numbered_steps()),
            *(self._stored(n, number) for n, number in self.writes),
            "  }",
        ]
        return "\n".join(lines) + "\n"

    def _places(self) -> list[str]:
        """The place in every dimension."""
        if self.rank == 1:
            return ["    const place at0 = i;"] if STRIDED in self.ways else []
        lines = ["    place rest = i;"]
        for d in range(self.rank - 1, 0, -1):
            lines += [f"    const place at{d} = rest % (place)size{d};", f"    rest /= (place)size{d};"]
        return [*lines, "    const place at0 = rest;"]

    def _index(self, name: str) -> str:
        way = self.ways[[operand for operand, _ in self.operands].index(name)]
        if way == ONE:
            return "0"
        return "i" if way == DENSE else " + ".join(f"at{d} * {name}_{d}" for d in range(self.rank))

    def _held_inputs(self) -> list[tuple[int, Any]]:
        return [(n, self.lowered.dtypes[n]) for n in self.reads]

    def _loaded(self, number: int, dtype: Any) -> str:
        value = load(f"x{number}", self._index(f"x{number}"))
        return converted(value, self.in_dtypes[number], dtype)

    def _stored(self, number: int, value: int) -> str:
        computed = self.lowered.dtype_of(value)
        text = converted(self._value(value), computed, self.out_dtypes[number])
        line = store(f"y{number}", self._index(f"y{number}"), text, self.out_dtypes[number])
        only_once = self._index(f"y{number}") == "0"
        return f"    if (i == 0) {line}" if only_once else f"    {line}"

    def _numbered_steps(self) -> list[tuple[int, ExprStep]]:
        return [(self.lowered.first_step + k, step) for k, step in enumerate(self.lowered.steps)]

    def _value(self, number: int) -> str:
        constant = number - len(self.lowered.dtypes)
        if 0 <= constant < len(self.lowered.constants):
            array = self.lowered.constants[constant]
            return literal(array[()], array.dtype)
        return f"v{number}"

    def _computed(self, step: ExprStep) -> str:
        kinds = [self.lowered.dtype_of(number) for number in step.args]
        values = [self._value(number) for number in step.args]
        if step.function == "copy":
            return converted(values[0], kinds[0], step.dtype)
        given = [converted(v, kind, loop) for v, kind, loop in zip(values, kinds, step.loop, strict=True)]
        if step.function == "select":
            return f"{given[0]} ? {given[1]} : {given[2]}"
        types = {held(loop) for loop in step.loop}
        if len(types) > 1:
            raise NoKernel(f"no kernel of GPUs computes {step.function} of {' and '.join(sorted(types))}")
        return rounded(applied(step.function, given, types.pop()), step.dtype)
