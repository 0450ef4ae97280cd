"""The device's kernels for what integers name: rows of tables, entries along an axis, labels, the best of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.cuda.kernels.embedding import look_up_kernel, table_gradient
from workbench.cuda.kernels.ordering import SortStep, best_steps, extreme_kernel, sort_steps
from workbench.cuda.kernels.picking import number_kernel, one_hot_kernel, place_kernel, take_kernel
from workbench.cuda.kernels.scattering import ADD, PUT, SliceKernels, along_kernel, slice_kernels
from workbench.cuda.kernels.sums import sum_over
from workbench.executors.lowering.cuda.device_calls import LaunchMaker
from workbench.executors.lowering.cuda.launches import KernelWords, device_kernel, vector_launches
from workbench.executors.lowering.operands import Call
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import lower

_WORD = 4  # bytes; the CPU's kernels that only move things count these


def _places(writer: LaunchMaker, *arrays: Any) -> list[int]:
    """Addresses of operands, then that of the word which says that a number names nothing."""
    if not all(isinstance(a, np.ndarray) for a in arrays):
        raise Unsuitable
    return [*(writer.at(a) for a in arrays), writer.status_at()]


# Tables


@device_kernel("take_rows")
def _take_rows(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    table, ids, out, outer, height, count, width, padding = given.words
    width = width * _WORD // table.itemsize
    if outer == 1 and table.dtype.kind == "f":
        look_up = look_up_kernel(table.dtype, ids.dtype)
        how = look_up.launch(count, height, width, padding)
        return writer.launch(look_up.kernel, how, _places(writer, table, ids, out))
    if padding >= 0:
        raise Unsuitable
    take = take_kernel(table.dtype, ids.dtype)
    return writer.launch(take.kernel, take.gather(outer, height, count, width), _places(writer, table, ids, out))


@device_kernel("add_rows")
def _add_rows(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, ids, out, outer, height, count, width, padding = given.words
    if outer != 1:
        if padding >= 0:
            raise Unsuitable
        return _slices(
            writer, slice_kernels(x.dtype, ADD, False, ids.dtype), x, ids, out, (outer, height, count, width)
        )
    table = table_gradient(x.dtype, ids.dtype)
    rank, add_up = table.launches(count, height, width, padding)
    order = writer.temporary((count,), np.int64), writer.temporary((count,), np.int32)
    ranked = writer.launch(table.rank, rank, [writer.at(a) for a in (ids, *order)])
    places = [*(writer.at(a) for a in (x, *order, out)), *([writer.status_at()] if _has_status(table.add_up) else [])]
    return [*ranked, *writer.launch(table.add_up, add_up, places)]


def _has_status(kernel: Any) -> bool:
    return any(name == "status" for name, _ in kernel.operands)


@device_kernel("add_rows_at")
def _add_rows_at(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, ids, out, outer, height, count, width = given.words
    kernels = slice_kernels(x.dtype, ADD, True, ids.dtype)
    return _slices(writer, kernels, x, ids, out, (outer, height, count, width), base=out)


@device_kernel("put_rows_at")
def _put_rows_at(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, ids, out, outer, height, count, width = given.words
    kernels = slice_kernels(x.dtype, PUT, True, ids.dtype)
    return _slices(writer, kernels, x, ids, out, (outer, height, count, width * _WORD // x.itemsize), base=out)


def _slices(
    writer: LaunchMaker, kernels: SliceKernels, x: Any, ids: Any, out: Any, sizes: Sequence[int], base: Any = None
) -> list[Call]:  # fmt: skip
    rank, put = kernels.launches(*sizes)
    order = writer.temporary((sizes[2],), np.int64), writer.temporary((sizes[2],), np.int32)
    ranked = writer.launch(kernels.rank, rank, [writer.at(a) for a in (ids, *order)])
    ends = [out] if base is None else [base, out]
    return [*ranked, *writer.launch(kernels.put, put, _places(writer, x, *order, *ends))]


# Entries along an axis, by coordinates and by labels


@device_kernel("take_along")
def _take_along(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, index, out, outer, height, count, inner, _ = given.words
    take = take_kernel(x.dtype, index.dtype)
    return writer.launch(take.kernel, take.along(outer, height, count, inner), _places(writer, x, index, out))


@device_kernel("put_along")
def _put_along(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, index, out, outer, height, count, inner, _, clears = given.words
    return _along(writer, PUT, x, index, out, (outer, height, count, inner), clears)


@device_kernel("add_along")
def _add_along(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, index, out, outer, height, count, inner, clears = given.words
    return _along(writer, ADD, x, index, out, (outer, height, count, inner), clears)


def _along(
    writer: LaunchMaker, way: str, x: Any, index: Any, out: Any, sizes: Sequence[int], clears: int
) -> list[Call]:  # fmt: skip
    along = along_kernel(x.dtype, way, not clears, index.dtype)
    ends = [out] if clears else [out, out]
    return writer.launch(along.kernel, along.launch(*sizes), _places(writer, x, index, *ends))


@device_kernel("number_entries")
def _number_entries(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    index, sizes, out, count, depth = given.words
    if not isinstance(sizes, np.ndarray):
        raise Unsuitable
    number = number_kernel(depth, index.dtype)
    return writer.launch(number.kernel, number.launch(count, sizes.tolist()), _places(writer, index, out))


@device_kernel("pick_label")
def _pick_label(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, label, out, outer, classes, inner, ignored = given.words
    take = take_kernel(x.dtype, label.dtype)
    return writer.launch(take.kernel, take.labels(outer, classes, inner, ignored), _places(writer, x, label, out))


@device_kernel("place_label")
def _place_label(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, label, out, outer, classes, inner, ignored = given.words
    place = place_kernel(x.dtype, label.dtype)
    return writer.launch(place.kernel, place.launch(outer, classes, inner, ignored), _places(writer, x, label, out))


@device_kernel("one_hot")
def _one_hot(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    label, out, count, classes = given.words
    one_hot = one_hot_kernel(out.dtype, label.dtype)
    return writer.launch(one_hot.kernel, one_hot.launch(count, classes), _places(writer, label, out))


# Sums and orders of rows


@device_kernel("count_labels")
def _count_labels(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    label, out, count, ignored = given.words
    kept = writer.temporary((count,), out.dtype)
    own = Expr("input", value=0, dtype=label.dtype)
    is_kept = Expr("not_equal", (own, Expr("constant", value=ignored, dtype=label.dtype)), dtype=np.bool_)
    told = lower([Expr("cast", (is_kept,), value=str(out.dtype), dtype=out.dtype)], [label.dtype])
    number = Expr("input", value=0, dtype=out.dtype)
    at_least = Expr("maximum", (number, Expr("constant", value=out.dtype.type(1), dtype=out.dtype)), dtype=out.dtype)
    total = out.reshape(-1)
    return [
        *vector_launches(writer, told, (count,), [label.reshape(-1)], [kept]),
        *_summed(writer, kept, total),
        *vector_launches(writer, lower([at_least], [out.dtype]), (1,), [total], [total]),
    ]


@device_kernel("sum_squares")
def _sum_squares(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, out, count = given.words
    squares = writer.temporary((count,), x.dtype)
    number = Expr("input", value=0, dtype=x.dtype)
    form = lower([Expr("multiply", (number, number), dtype=x.dtype)], [x.dtype])
    return [*vector_launches(writer, form, (count,), [x.reshape(-1)], [squares]), *_summed(writer, squares, out)]


def _summed(writer: LaunchMaker, x: Any, out: Any) -> list[Call]:
    """The sum of all of a flat array."""
    total = sum_over(x.shape, (0,), x.dtype)
    between = [writer.temporary((total.partial,), np.dtype(total.held))] if total.second is not None else []
    places = [writer.at(a) for a in (x, *between, out)]
    calls: list[Call] = []
    for number, (kernel, how) in enumerate(total.launches()):
        calls += writer.launch(kernel, how, places[number : number + 2])
    return calls


@device_kernel("clear_rows_at")
def _clear_rows_at(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    ids, out, outer, height, count, width = given.words
    width = width * _WORD // out.itemsize
    zeros = writer.temporary((outer, count, width), out.dtype)
    cleared = [writer.fill(writer.at(zeros), 0, zeros.nbytes)] if zeros.size else []
    kernels = slice_kernels(out.dtype, PUT, True, ids.dtype)
    return [*cleared, *_slices(writer, kernels, zeros, ids, out, (outer, height, count, width), base=out)]


@device_kernel("sort_rows")
def _sort_rows(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, out, indices, _, outer, width, inner, kept, descending = given.words
    if kept == width:
        steps = sort_steps(x.dtype, outer, width, inner, bool(descending))
    else:
        steps = best_steps(x.dtype, outer, width, inner, kept, bool(descending))
    return _ordered(writer, steps, x, out, indices, outer * inner)


@device_kernel("best_of_rows")
def _best_of_rows(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, out, indices, rows, width, count = given.words
    if count == 1:
        extreme = extreme_kernel(x.dtype, 1, True, indices.dtype)
        take = take_kernel(x.dtype, indices.dtype)
        return [
            *writer.launch(extreme.kernel, extreme.launch(rows, width, 1), [writer.at(x), writer.at(indices)]),
            *writer.launch(take.kernel, take.along(rows, width, 1, 1), _places(writer, x, indices, out)),
        ]
    return _ordered(writer, best_steps(x.dtype, rows, width, 1, count, True), x, out, indices, rows)


def _ordered(
    writer: LaunchMaker, steps: Sequence[SortStep], x: Any, out: Any, indices: Any, rows: int
) -> list[Call]:  # fmt: skip
    """The launches of a sort, each of which reads what the one before has written."""
    source, calls = [x], list[Call]()
    for number, step in enumerate(steps):
        is_last, shape = number == len(steps) - 1, (rows, step.kept)
        target = [out, indices] if is_last else [writer.temporary(shape, x.dtype), writer.temporary(shape, np.int64)]
        calls += writer.launch(step.kernel, step.launch, [writer.at(a) for a in (*source, *target)])
        source = target
    return calls
