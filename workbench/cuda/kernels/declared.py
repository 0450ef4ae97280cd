"""Kernels of ops, from what they declare: element-wise bodies and their gradients, and updates of parameters.

`has_kernel` says of a type whether a kernel can be made for it at all; `covered` counts. Kernels written by hand are in
files of their own: what moves elements, draws, and looks up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from workbench.cuda.kernels.elementwise import (
    ElementwiseKernel,
    Iteration,
    broadcast_strides,
    dense_strides,
    elementwise_kernel,
    iteration,
    lowered_for_device,
    read_by,
)
from workbench.cuda.kernels.numbers import HALVES, NoKernel
from workbench.cuda.kernels.sums import SumOver, broadcast_axes, sum_over
from workbench.cuda.kernels.updates import update_kernel
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered
from workbench.framework.op.elementwise import trace
from workbench.framework.op.record import Op
from workbench.framework.outside import is_from_outside
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec, broadcast_shapes


def elementwise_op(
    op: Op, ins: Sequence[Spec | None], outs: Sequence[Spec | None], attrs: dict[str, Any]
) -> tuple[ElementwiseKernel, Iteration]:
    """The kernel of an element-wise op, or of the backward op of one, for dense operands.

    Args:
        ins, outs: one per slot, None for what is absent or not wanted.

    Raises:
        NoKernel: the body asks for more than expressions tell, or a gradient is summed over what was broadcast.
    """
    lowered = elementwise_steps(op, [None if s is None else s.dtype.name for s in ins], attrs)
    lowered = lowered.only(tuple(o is not None for o in outs))
    shape = broadcast_shapes(*[s.shape for s in ins if s is not None])
    operands = [ins[n] for n in read_by(lowered)]
    operands += [o for o, number in zip(outs, lowered.results, strict=True) if number is not None]
    if any(o is not None and o.shape != shape for o in outs):
        raise NoKernel(f"{op.type} sums over dimensions that were broadcast: a kernel of rows comes after this one")
    strides = [broadcast_strides(spec.shape, dense_strides(spec.shape), shape) for spec in operands if spec is not None]
    one = iteration(shape, strides)
    in_dtypes = [None if s is None else s.dtype.name for s in ins]
    out_dtypes = [None if s is None else s.dtype.name for s in outs]
    return elementwise_kernel(op.type, lowered, one, out_dtypes, in_dtypes), one


class SummedResult(NamedTuple):
    """A result that is summed over what was broadcast.

    Attributes:
        output: the number of its slot. source: that of the input whose elements are summed; None: the kernel writes
            what is summed, in the place of this output.
        dtype: of the elements that are summed.
    """

    output: int
    source: int | None
    dtype: str
    sum: SumOver


@dataclass(frozen=True)
class SummedOp:
    """An element-wise op some of whose results are smaller than what its operands broadcast to: mostly gradients.

    Attributes:
        kernel: writes every element of `writes`; None where all results are sums of inputs. one: its dimensions.
        reads, writes: the slots of its operands, inputs and outputs in order.
        sums: what follows it.
    """

    kernel: ElementwiseKernel | None
    one: Iteration
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    sums: tuple[SummedResult, ...]


def summed_op(op: Op, ins: Sequence[Spec | None], outs: Sequence[Spec | None], attrs: dict[str, Any]) -> SummedOp:
    """The kernels of an element-wise op, or of the backward op of one, with the sums over what was broadcast.

    Args and Raises: as of `elementwise_op`.
    """
    in_dtypes = [None if s is None else s.dtype.name for s in ins]
    lowered = elementwise_steps(op, in_dtypes, attrs).only(tuple(o is not None for o in outs))
    shape = broadcast_shapes(*[s.shape for s in ins if s is not None])
    sums, out_dtypes = list[SummedResult](), list[str | None]()
    for number, (out, made_by) in enumerate(zip(outs, lowered.results, strict=True)):
        out_dtypes.append(None if out is None else out.dtype.name)
        if out is None or made_by is None or out.shape == shape:
            continue
        given = ins[made_by] if made_by < len(ins) else None
        source = made_by if given is not None and given.shape == shape else None
        wide = "float32" if out.dtype.name in HALVES else out.dtype.name
        dtype = wide if source is None or given is None else given.dtype.name
        out_dtypes[number] = dtype
        axes = broadcast_axes(out.shape, shape)
        sums.append(SummedResult(number, source, dtype, sum_over(shape, axes, dtype, out.dtype.name)))
    as_they_are = {one.output for one in sums if one.source is not None}
    rest = lowered.only(tuple(o is not None and n not in as_they_are for n, o in enumerate(outs)))
    writes = tuple(n for n, number in enumerate(rest.results) if number is not None)
    reads = tuple(read_by(rest))
    shapes = [*[ins[n].shape for n in reads if ins[n] is not None], *[shape for _ in writes]]  # type: ignore[union-attr]
    one = iteration(shape, [broadcast_strides(own, dense_strides(own), shape) for own in shapes])
    kernel = elementwise_kernel(op.type, rest, one, out_dtypes, in_dtypes) if writes else None
    return SummedOp(kernel, one, reads, writes, tuple(sums))


def sum_of_terms(count: int, dtype: Any, elements: int) -> tuple[ElementwiseKernel, Iteration]:
    """The kernel of a sum of dense arrays, in their order; of halves it is rounded once."""
    name = as_dtype(dtype).name
    computed = "float32" if name in HALVES else name
    terms = [Expr("input", value=n, dtype=as_dtype(computed).numpy) for n in range(count)]
    lowered = lowered_for_device([reduce(add, terms)], [computed] * count)
    one = iteration((elements,), [(1,)] * (count + 1))
    return elementwise_kernel("sum_of_terms", lowered, one, [name], [name] * count), one


def dropout_gradient(
    dtype: Any, factor: float, shape: Sequence[int], mask_shape: Sequence[int]
) -> tuple[ElementwiseKernel, Iteration]:
    """The kernel of a dropout's gradient, `g * (mask * factor)`: of g, and of the mask (uint8), which is broadcast."""
    name = as_dtype(dtype).name
    computed = "float32" if name in HALVES else name
    mask: Any = Expr("input", value=1, dtype="uint8")
    product = Expr("input", value=0, dtype=computed) * (mask.astype(computed) * factor)
    lowered = lowered_for_device([product], [computed, "uint8"])
    strides = [broadcast_strides(own, dense_strides(own), shape) for own in (shape, mask_shape, shape)]
    one = iteration(shape, strides)
    return elementwise_kernel("dropout_gradient", lowered, one, [name], [name, "uint8"]), one


def elementwise_steps(op: Op, dtypes: Sequence[str | None], attrs: dict[str, Any]) -> Lowered:
    """What an element-wise op computes; halves are computed in float32 and rounded when they are stored."""
    computed = ["float32" if d in HALVES else d for d in dtypes]
    if any(slot.is_list for slot in (*op.inputs, *op.outputs)):
        raise NoKernel(f"{op.type} takes lists")
    try:
        traced = trace(op, tuple("float32" if d is None else d for d in computed), **attrs)
        results = list(traced) if isinstance(traced, tuple) else [traced]
        return lowered_for_device([_expression(r, op, computed, k) for k, r in enumerate(results)], computed)
    except NoKernel:
        raise
    except Exception as error:
        if is_from_outside(error):
            raise
        raise NoKernel(f"the body of {op.type} is no expression: {error}") from error


def _expression(result: Any, op: Op, dtypes: Sequence[str | None], number: int) -> Expr | None:
    """A result; where a rule has no gradient it is zero."""
    if result is not None or op.forward_of is None:
        return result
    own = [d for s, d in zip(op.forward_of.inputs, dtypes, strict=False) if s.name not in op.forward_of.no_grad]
    dtype = own[number]
    return None if dtype is None else Expr("constant", value=as_dtype(dtype).numpy.type(0), dtype=as_dtype(dtype).numpy)


def _elementwise_is_possible(op: Op) -> bool:
    attempts = ("float32", "int64", "bool")
    for dtype in attempts:
        try:
            elementwise_steps(op, [dtype] * len(op.inputs), op.complete({}))
            return True
        except (NoKernel, TypeError):
            continue
    return False


def _update_is_possible(op: Op) -> bool:
    try:
        update_kernel(op, ["float32"] * len(op.inputs), op.complete({}))
    except NoKernel:
        return False
    return True


_WAYS: list[tuple[str, Callable[[Op], bool]]] = [
    ("an element-wise body", lambda op: op.is_elementwise and _elementwise_is_possible(op)),
    ("a row program", lambda op: op.rows is not None),
    ("the formula of an update", lambda op: op.update is not None and _update_is_possible(op)),
]


def has_kernel(op: Op) -> str:
    """What the kernel of an op is made from, an empty text if there is none."""
    return next((way for way, is_made in _WAYS if is_made(op)), "")


def covered(ops: Sequence[Op]) -> dict[str, list[str]]:
    """The types with a kernel, by what it is made from."""
    types: dict[str, list[str]] = {}
    for op in ops:
        way = has_kernel(op)
        if way:
            types.setdefault(way, []).append(op.type)
    return {way: sorted(members) for way, members in types.items()}
