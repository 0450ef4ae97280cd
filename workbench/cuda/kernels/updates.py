"""Kernels of optimizers: the formula of an update over a flat bucket of parameters, in one launch.

A bucket is what lies together: parameters of one dtype, their gradients, and each accumulator, all in the same order.
Rate and powers of beta are single numbers in memory, so a captured graph follows them. The powers go on in a launch of
their own behind it, because every thread of the first one reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cuda.kernels.elementwise import (
    ElementwiseKernel,
    Iteration,
    elementwise_kernel,
    lowered_for_device,
    read_by,
)
from workbench.cuda.kernels.launch import Launch
from workbench.cuda.kernels.numbers import HALVES, NoKernel
from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.expr.lowered import Lowered
from workbench.framework.op.record import Op
from workbench.framework.outside import is_from_outside
from workbench.framework.values.dtype import as_dtype

SCALARS = 2  # the number of the slot of the rate, behind the parameter and the gradient


@dataclass(frozen=True)
class BucketUpdate:
    """The update of a bucket.

    Attributes:
        formula: its operands are `x` and the number of an input slot, `y` and the number of an output slot.
        powers: the same for the powers of beta, None if there are none.
        scalars: numbers of the input slots that hold a single number.
    """

    formula: ElementwiseKernel
    powers: ElementwiseKernel | None
    scalars: frozenset[int]

    def launches(self, count: int) -> list[Launch]:
        """For so many elements: the formula, then the powers."""
        launches = [self.formula.launch(_dimensions(self.formula, self.scalars, count))]
        if self.powers is not None:
            launches.append(self.powers.launch(_dimensions(self.powers, self.scalars, 1)))
        return launches


def update_kernel(op: Op, dtypes: Sequence[Any], attrs: dict[str, Any]) -> BucketUpdate:
    """Make the kernels of an optimizer's op.

    Args:
        dtypes: of its input slots, None for a slot that is absent. attrs: complete.

    Raises:
        NoKernel: the formula is not true element by element.
    """
    body: Any = op.update
    if body is None:
        raise NoKernel(f"{op.type} is no update")
    names = [None if d is None else as_dtype(d).name for d in dtypes]
    count, betas = len(names), list(body.betas)
    first_power = count - len(betas)
    scalars = frozenset([SCALARS, *range(first_power, count)])
    work = "float32" if names[0] in HALVES else str(names[0])
    held = [None if d is None else ("float32" if d in HALVES else d) for d in names]
    given = [None if d is None else Expr("input", value=n, dtype=as_dtype(d).numpy) for n, d in enumerate(held)]
    results = _results(op, [_in(work, e) for e in given], first_power, attrs)
    after = [_in("float32" if held[n] != "float64" else "float64", given[n]) for n in range(first_power, count)]
    moved = [e * attrs[beta] for e, beta in zip(after, betas, strict=True) if e is not None]
    outs = [names[0], *names[SCALARS + 1 :]]
    whole = lowered_for_device([*results, *moved], held)
    is_power = [False] * len(results) + [True] * len(moved)
    formula = _part(op, whole, [not p for p in is_power], names, outs, scalars)
    powers = _part(op, whole, is_power, names, outs, scalars) if moved else None
    return BucketUpdate(formula, powers, scalars)


def _in(dtype: str, one: Expr | None) -> Any:
    return one if one is None or as_dtype(one.dtype).name == dtype else one.astype(dtype)


def _results(op: Op, given: Sequence[Any], first_power: int, attrs: dict[str, Any]) -> list[Any]:
    """The new parameter and accumulators, as expressions."""
    param, grad, rate, *state = given[:first_power]
    body: Any = op.update
    try:
        results = body.formula(Recording, param, grad, rate, *state, *given[first_power:], **attrs)
    except Exception as error:
        if is_from_outside(error):
            raise
        raise NoKernel(f"the formula of {op.type} is no element-wise expression: {error}") from error
    return list(results)


def _part(
    op: Op, whole: Lowered, wanted: Sequence[bool], names: Sequence[Any], outs: Sequence[Any], scalars: frozenset[int]
) -> ElementwiseKernel:
    part = whole.only(tuple(wanted))
    operands = [n not in scalars for n in read_by(part)]
    operands += [True for number in part.results if number is not None]
    return elementwise_kernel(op.type, part, _flat(operands, _ANY), outs, names)


_ANY = 7
"""Some count of elements: a kernel for one serves all."""


def _flat(is_long: Sequence[bool], count: int) -> Iteration:
    return Iteration((count,), tuple((1,) if long else (0,) for long in is_long))


def _dimensions(kernel: ElementwiseKernel, scalars: frozenset[int], count: int) -> Iteration:
    is_long = [name[0] == "y" or int(name[1:]) not in scalars for name, _ in kernel.kernel.operands]
    return _flat(is_long, count)
