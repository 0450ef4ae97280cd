"""The device's kernels by the names that rules ask for: what launches stand for a row of a tape.

Row programs and element-wise work are generated; products are the driver's; what moves, draws and looks up is written
by hand (`cuda.kernels`). Who adds a kernel notes it here with `@device_kernel` under the name of the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.driver import Product
from workbench.cuda.kernels.elementwise import Iteration, elementwise_kernel, iteration, read_by
from workbench.cuda.kernels.random import chances_kernel, integers_kernel, normal_kernel, truths_kernel, uniform_kernel
from workbench.cuda.kernels.rows import rows_kernel
from workbench.cuda.kernels.transposes import move_kernel
from workbench.errors import NotFound
from workbench.executors.lowering.cuda.device_calls import LaunchMaker
from workbench.executors.lowering.operands import Call
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered, lower
from workbench.framework.rows.kernel import SIZES, all_kernels
from workbench.framework.values.dtype import as_dtype
from workbench.runtime.footprint import DOUBLE, FLOAT, body_of, footprint_of, kernel_for, kernel_of
from workbench.runtime.native.tape import pointed, pointer
from workbench.runtime.row_kernels import ROW_KERNELS
from workbench.runtime.words.product import FLIPPED

_MOST_PRODUCTS = 64  # launches for one row: a product for each matrix of a batch that no single one takes


class KernelWords(NamedTuple):
    """What a rule asks for: a kernel and its arguments, of which all that points to memory lies inside.

    Attributes:
        kernel: its name. words: its arguments; arrays and pointers where it takes memory, else numbers.
    """

    kernel: str
    words: tuple[Any, ...]

    @classmethod
    def checked(cls, kernel: str, words: Sequence[Any]) -> KernelWords:
        """After a look at what the kernel touches.

        Raises:
            OutOfBounds: it would touch what lies outside. Unsuitable: nobody knows what it touches.
        """
        kernel = kernel_for(kernel, words)
        try:
            footprint = footprint_of(kernel)
        except NotFound as error:
            raise Unsuitable from error
        for index, first, end in footprint.touched(*words):
            pointed(kernel, index, words[index], first, end)
        return cls(kernel, tuple(words))


Maker = Callable[[LaunchMaker, KernelWords], list[Call]]
_MAKERS: dict[str, Maker] = {}


def device_kernel(*names: str) -> Callable[[Maker], Maker]:
    """Note what makes the launches for kernels of these names, of float32 and of float64.

    Raises:
        ValueError: a name is noted already.
    """

    def note(make: Maker) -> Maker:
        for name in names:
            if name in _MAKERS:
                raise ValueError(f"two device kernels are named {name!r}")
            _MAKERS[name] = make
        return make

    return note


@cache
def device_kernels() -> frozenset[str]:
    """The names of all kernels there are on a device; those noted here are made for float64, too."""
    return frozenset(
        [*_MAKERS, *(kernel_of(body, DOUBLE) for body in _MAKERS), *(kernel.name for kernel in all_kernels())]
    )


def launches_of(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    """The launches of a kernel.

    Raises:
        Unsuitable: there is none of that name, or it does not take what it is given.
    """
    if given.kernel in ROW_KERNELS:
        return _row_program(writer, given)
    make = _MAKERS.get(body_of(given.kernel)[0])
    if make is None:
        raise Unsuitable
    return make(writer, given)


# Generated kernels


def vector_launches(
    writer: LaunchMaker, form: Lowered, shape: tuple[int, ...], arrays: Sequence[Any], outs: Sequence[Any]
) -> list[Call]:
    """Element-wise work, see `LaunchMaker.vector`."""
    wanted = tuple(out is not None and r is not None for out, r in zip(outs, form.results, strict=True))
    form = form.only(wanted)
    targets = [out for out, is_wanted in zip(outs, wanted, strict=True) if is_wanted]
    reads = [arrays[n] for n in read_by(form)]
    if any(a is None for a in reads) or any(out.shape != shape for out in targets):
        raise Unsuitable
    if not all(shape) or not targets:
        return []
    _require_no_overlap(reads, targets, shape)
    operands = [*(np.broadcast_to(a, shape) for a in reads), *targets]
    one = iteration(shape, [_strides(a) for a in operands])
    in_dtypes = [None if a is None else a.dtype for a in arrays]
    out_dtypes = [out.dtype if is_wanted else None for out, is_wanted in zip(outs, wanted, strict=True)]
    kernel = elementwise_kernel("chain", form, one, out_dtypes, in_dtypes)
    return writer.launch(kernel.kernel, kernel.launch(one), [writer.at(a) for a in (*reads, *targets)])


def _strides(array: Any) -> tuple[int, ...]:
    """In elements."""
    if any(s % array.itemsize for s in array.strides):
        raise Unsuitable
    return tuple(0 if d == 1 else s // array.itemsize for d, s in zip(array.shape, array.strides, strict=True))


def _require_no_overlap(reads: Sequence[Any], targets: Sequence[Any], shape: tuple[int, ...]) -> None:
    """No thread may write what another one reads: memory is shared by operands that lie there alike, or not at all."""
    for number, out in enumerate(targets):
        mine = pointer(out)
        for other in (*reads, *targets[:number]):
            theirs = pointer(other)
            if mine.end <= theirs.begin or theirs.end <= mine.begin:
                continue
            alike = other.shape == out.shape and other.strides == out.strides and other.itemsize == out.itemsize
            if not (alike and mine.address == theirs.address) or any(out is one for one in targets[:number]):
                raise Unsuitable


def _row_program(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    one = ROW_KERNELS[given.kernel]
    program, layout, words = one.program, one.layout, given.words
    count, names = len(one.inputs) + len(one.outputs), SIZES[layout]
    operands, sizes = words[:count], [int(n) for n in words[-len(names) :]]
    told = words[count + 1 : len(words) - len(names)]
    attrs = dict(zip([*program.numbers, *program.integers], told, strict=True))
    kernel = rows_kernel(one, [a.dtype for a in operands], sizes)
    labelled = any(operand.is_integer for _, operand in one.inputs)
    addresses = [*(writer.at(a) for a in operands), writer.status_at(labelled)]
    return writer.launch(kernel.kernel, kernel.launch(sizes, attrs), addresses)


# Products


@device_kernel("gemm_batch")
def _gemm_batch(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    a, flip_a, lda, b, flip_b, ldb, c, ldc, m, n, k, adds, _, *loops = given.words
    _, item = body_of(given.kernel)
    dtype = "float32" if item == FLOAT else "float64"
    product = Product(
        m, n, k, dtype, transpose_a=flip_a == FLIPPED, transpose_b=flip_b == FLIPPED, lda=lda, ldb=ldb, ldc=ldc,
        accumulate=bool(adds),
    )  # fmt: skip
    return _products(writer, product, (a, b, c), loops, item)


@device_kernel("product")
def _product(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, adds, _, _, *loops = given.words
    flip_a, lda = _matrix(m, k, a_row, a_col, 4)
    flip_b, ldb = _matrix(k, n, b_row, b_col, 4)
    product = Product(
        m, n, k, "float32", transpose_a=flip_a, transpose_b=flip_b, lda=lda, ldb=ldb, ldc=max(c_row // 4, n),
        accumulate=bool(adds),
    )  # fmt: skip
    return _products(writer, product, (a, b, c), loops, 4)


def _matrix(rows: int, columns: int, down: int, right: int, item: int) -> tuple[bool, int]:
    """Whether a matrix lies transposed, and its leading dimension; strides are in bytes."""
    if (right == item or columns == 1) and (down >= columns * item or rows == 1):
        return False, max(down // item, columns) if rows > 1 else columns
    if (down == item or rows == 1) and (right >= rows * item or columns == 1):
        return True, max(right // item, rows) if columns > 1 else rows
    raise Unsuitable


def _products(
    writer: LaunchMaker, product: Product, places: Sequence[Any], loops: Sequence[int], item: int
) -> list[Call]:
    """A batch of products over two loops, given as (size, and the distances of a, b and c in bytes)."""
    outer, inner = loops[:4], loops[4:]
    if inner[0] == 1:
        outer, inner = inner, outer
    if outer[0] > _MOST_PRODUCTS or any(distance % item for distance in inner[1:]):
        raise Unsuitable
    strides = [distance // item for distance in inner[1:]]
    if inner[0] > 1:
        product = _batched(product, inner[0], strides)
    a, b, c = (writer.at(place) for place in places)
    return [
        writer.product(product, a + i * outer[1], b + i * outer[2], c + i * outer[3]) for i in range(outer[0])
    ]  # fmt: skip


def _batched(product: Product, count: int, strides: Sequence[int]) -> Product:
    fields = {**vars(product), "batch": count}
    return Product(**{**fields, "stride_a": strides[0], "stride_b": strides[1], "stride_c": strides[2]})


# What moves elements


@device_kernel("move_bytes")
def _move_bytes(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    source, out, nbytes = given.words
    return [writer.copy(writer.at(out), writer.at(source), nbytes)] if nbytes else []


@device_kernel("clear_bytes")
def _clear_bytes(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    out, nbytes = given.words
    return [writer.fill(writer.at(out), 0, nbytes)] if nbytes else []


@device_kernel("copy_rows")
def _copy_rows(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    source, out, count, *loops = given.words
    return _moved(writer, source, out, 4, [*_dims(loops), (count, 4, 4)])


@device_kernel("transpose")
def _transpose(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    source, source_pitch, out, out_pitch, rows, cols, *loops = given.words
    _, item = body_of(given.kernel)
    return _moved(writer, source, out, item, [*_dims(loops), (cols, item, out_pitch), (rows, source_pitch, item)])


@device_kernel("move_entries")
def _move_entries(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    source, out, item, *loops = given.words
    return _moved(writer, source, out, item, _dims(loops))


def _dims(loops: Sequence[int]) -> list[tuple[int, int, int]]:
    """Sizes and strides in bytes of source and result."""
    return [(loops[n], loops[n + 1], loops[n + 2]) for n in range(0, len(loops), 3)]


@device_kernel("floats_of", "wide_integers")
def _converted(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    x, out, _ = given.words
    value = Expr("input", value=0, dtype=x.dtype)
    form = lower([Expr("cast", (value,), value=as_dtype(out.dtype).name, dtype=out.dtype)], [x.dtype])
    return vector_launches(writer, form, out.shape, [x.reshape(out.shape)], [out])


_ENTRY = {1: "uint8", 2: "float16", 4: "float32", 8: "float64"}


def _moved(
    writer: LaunchMaker, source: Any, out: Any, item: int, dims: Sequence[tuple[int, int, int]]
) -> list[Call]:  # fmt: skip
    if item not in _ENTRY or any(stride % item for _, *strides in dims for stride in strides):
        raise Unsuitable
    shape = [size for size, _, _ in dims]
    one = iteration(shape, [[there // item for _, there, _ in dims], [here // item for _, _, here in dims]])
    one = one if one.shape else Iteration((1,), ((0,), (1,)))
    kernel = move_kernel(_ENTRY[item], one)
    return writer.launch(kernel.kernel, kernel.launch(one), [writer.at(source), writer.at(out)])


# Random numbers


@device_kernel("draw_uniform")
def _draw_uniform(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    stream, _, out, count = given.words
    kernel = uniform_kernel(out.dtype)
    how = kernel.launch(count, np.float64(1), np.float64(0), np.float64(1))
    return writer.launch(kernel.kernel, how, [writer.at(stream), writer.at(out)])


@device_kernel("draw_normal")
def _draw_normal(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    stream, _, out, count = given.words
    kernel = normal_kernel(out.dtype)
    how = kernel.launch(count, np.float64(1), np.float64(0))
    return writer.launch(kernel.kernel, how, [writer.at(stream), writer.at(out)])


@device_kernel("draw_truths")
def _draw_truths(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    stream, _, out, count, least = given.words
    kernel = truths_kernel()
    return writer.launch(kernel.kernel, kernel.launch(count, np.uint32(least)), [writer.at(stream), writer.at(out)])


@device_kernel("draw_integers")
def _draw_integers(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    stream, _, out, count, low, span = given.words
    kernel = integers_kernel(out.dtype)
    how = kernel.launch(count, np.int64(low), np.uint64(span))
    return writer.launch(kernel.kernel, how, [writer.at(stream), writer.at(out)])


@device_kernel("draw_chances")
def _draw_chances(writer: LaunchMaker, given: KernelWords) -> list[Call]:
    stream, _, x, out, count = given.words
    kernel = chances_kernel(out.dtype)
    return writer.launch(kernel.kernel, kernel.launch(count), [writer.at(stream), writer.at(x), writer.at(out)])
