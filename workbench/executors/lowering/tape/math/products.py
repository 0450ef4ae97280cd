"""Products as rows of a tape: mul, matmul_v2, dot and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.tape.math.sums import add_up
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import FLOAT, FLOATS, expression, fill, operands, require, require_dense
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.executors.planning.sizes.size import is_at_least
from workbench.executors.planning.sizes.unknowns import Number
from workbench.framework.values.spec import broadcast_shapes
from workbench.ops.math.products.matmul import DOT, MATMUL, MUL
from workbench.runtime.footprint import kernel_of
from workbench.runtime.native.tape import Pointer, pointer
from workbench.runtime.words.product import AS_IT_IS, FLIPPED, LINE, PANEL, left_pitch, most_terms

MOST_ROWS = 64  # of a tape, for one product
_ITEM = FLOAT.itemsize

TapeRow = tuple[Any, ...]  # a kernel and its arguments


class Way(NamedTuple):
    """How a product is computed.

    Attributes:
        by_blas: else by the kernel `product`.
        copies_left, copies_right: 1 if an operand is copied first, else 0; that may depend on sizes that are open.
    """

    by_blas: bool
    copies_left: Number = 0
    copies_right: Number = 0


def way_of(m: int, n: int, k: int, left_flipped: bool, right_flipped: bool) -> Way:
    """The fastest way for `[m, k] @ [k, n]`, as measured on one core with AVX-512 against OpenBLAS.

    Who computes follows from the shape alone, because bits differ: where sizes are open, that is a decision which other
    sizes may turn. What is copied makes no bits different, and is settled when sizes are known.
    """
    if m < 8 or n < 8:  # few rows do not pay for turning the right side, few columns leave registers empty
        return Way(by_blas=True)
    # Every term would be in another page or cache set; more than the first cache has room for.
    strided = is_at_least(n, 64) * is_at_least(k, 256) if left_flipped else 0
    scattered = 1 if right_flipped else is_at_least(k * n, 1 << 13) * is_at_least(m, 16)
    return Way(False, strided, scattered)


class _BatchDim(NamedTuple):
    """A dimension of a batch: its size, and strides in bytes; that of the result is 0 where it is summed over."""

    size: int
    left: int
    right: int
    out: int


class _Call(NamedTuple):
    """A kernel, how its operands lie, and the memory or function it uses."""

    kernel: str
    strides: tuple[tuple[int, ...], ...]
    memory: tuple[Any, ...]


class _Product:
    """`out = left @ right`, with as few dimensions as will do.

    Args:
        left, right: [..., m, k] and [..., k, n], float32 or float64, broadcast against each other.
        out: [..., m, n]; dimensions of the batch that it has not, or of size 1, are summed over.
    """

    def __init__(self, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
        require(left.dtype == right.dtype == out.dtype, out.dtype in FLOATS)
        self.item = out.itemsize
        all_rows = left.shape[-2] * math.prod(d.size for d in _batch_of(left, right, out) if not d.right)
        self.by_blas = self.item != _ITEM or way_of(all_rows, right.shape[-1], left.shape[-1], False, False).by_blas
        if out.strides[-1] != self.item and out.shape[-1] > 1:
            left, right, out = right.swapaxes(-1, -2), left.swapaxes(-1, -2), out.swapaxes(-1, -2)
        (self.m, self.k), self.n = left.shape[-2:], right.shape[-1]
        require(out.strides[-1] == self.item or self.n == 1)
        self.starts = pointer(left), pointer(right), pointer(out)
        self.left = left.strides[-2], left.strides[-1]
        self.right, self.out_row = (right.strides[-2], right.strides[-1]), out.strides[-2]
        self.batch: list[_BatchDim] = []
        self.summed: list[_BatchDim] = []
        for dim in reversed(_batch_of(left, right, out)):
            self._take(dim)

    def _take(self, dim: _BatchDim) -> None:
        """A dimension more, from the last to the first."""
        if dim.out == 0:
            if not self.summed and (dim.left, dim.right) == (self.k * self.left[1], self.k * self.right[0]):
                self.k *= dim.size
            else:
                self.summed.insert(0, dim)
        elif not self.batch and (dim.left, dim.right, dim.out) == (self.m * self.left[0], 0, self.m * self.out_row):
            self.m *= dim.size
        elif self.batch and dim[1:] == tuple(stride * self.batch[0].size for stride in self.batch[0][1:]):
            self.batch[0] = self.batch[0]._replace(size=self.batch[0].size * dim.size)
        else:
            self.batch.insert(0, dim)

    def rows(self, writer: TapeWriter, adds: bool) -> list[TapeRow]:
        """The rows of a tape that do it."""
        kernel, strides, memory = (self._by_blas(writer) if self.by_blas else None) or self._by_tiles(writer)
        outer, inner = self.batch[:-2], self.batch[-2:]
        require(math.prod(d.size for d in (*self.summed, *outer)) <= MOST_ROWS)
        rows: list[TapeRow] = []
        for number, term in enumerate(_offsets(self.summed)):
            for place in _offsets(outer):
                starts = [s.moved(a + b) for s, a, b in zip(self.starts, term, place, strict=True)]
                left, right, out = ((start, *rest) for start, rest in zip(starts, strides, strict=True))
                sizes = self.m, self.n, self.k, int(adds or number > 0)
                rows.append((kernel, *left, *right, *out, *sizes, *memory, *_loops(inner)))
        return rows

    def _by_tiles(self, writer: TapeWriter) -> _Call:
        require(self.item == _ITEM)
        way = way_of(self.m, self.n, self.k, self.left[1] != _ITEM, self.right[1] != _ITEM)
        copies_right = way.copies_right if self.right[1] == _ITEM else 1
        require(self.right[1] == _ITEM or self.right[0] == _ITEM or self.k == 1)
        copies_left = way.copies_left if self.left[0] == _ITEM else 0
        terms = most_terms(self.k)
        left = _copy(writer, self.m * left_pitch(terms), copies_left)
        panel = _copy(writer, terms * PANEL, copies_right)
        return _Call("product", (self.left, self.right, (self.out_row,)), (left, panel))

    def _by_blas(self, writer: TapeWriter) -> _Call | None:
        """None if it does not take operands that lie so."""
        item = self.item
        left, right = layout((self.m, self.k), self.left, item), layout((self.k, self.n), self.right, item)
        out = layout((self.m, self.n), (self.out_row, item), item)
        if left is None or right is None or out is None or out[0] != AS_IT_IS:
            return None
        return _Call(kernel_of("gemm_batch", item), (left, right, out[1:]), (writer.gemm(item),))


def _copy(writer: TapeWriter, floats: Number, when: Number) -> Pointer | None:
    """Memory for the copy of an operand, where there is one."""
    if type(when) is not int:
        return lines_of(writer, floats)._replace(when=when)
    return lines_of(writer, floats) if when else None


def lines_of(writer: TapeWriter, floats: int) -> Pointer:
    """Memory for so many floats that begins at a cache line: loads across two take twice as long."""
    return pointer(writer.temporary((floats + LINE,))).aligned(_ITEM * LINE)


def _batch_of(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> list[_BatchDim]:
    """The dimensions of a batch that are more than one."""
    sizes = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    strides = []
    for array in (left, right, out):
        missing = len(sizes) + 2 - array.ndim
        require(missing >= 0)
        own = [0 if size == 1 else s for size, s in zip(array.shape[:-2], array.strides[:-2], strict=True)]
        strides.append([0] * missing + own)
    return [_BatchDim(size, *rest) for size, *rest in zip(sizes, *strides, strict=True) if size != 1]


def _offsets(dims: Sequence[_BatchDim]) -> list[tuple[int, int, int]]:
    """Where the elements of a batch begin in the three arrays."""
    offsets = [(0, 0, 0)]
    for dim in dims:
        offsets = [
            (a + i * dim.left, b + i * dim.right, c + i * dim.out) for a, b, c in offsets for i in range(dim.size)
        ]  # fmt: skip
    return offsets


def _loops(dims: Sequence[_BatchDim]) -> tuple[int, ...]:
    """Two dimensions as the kernels take them."""
    padded = [_BatchDim(1, 0, 0, 0)] * (2 - len(dims)) + list(dims)
    return tuple(number for dim in padded for number in dim)


def layout(shape: tuple[int, int], strides: tuple[int, int], item: int) -> tuple[int, int] | None:
    """Whether a matrix lies in memory transposed, and the distance of its rows, or columns, in elements.

    None if BLAS cannot read it.
    """
    (rows, cols), (down, right) = shape, (s // item for s in strides)
    if (right == 1 or cols == 1) and (down >= cols or rows == 1):
        return AS_IT_IS, max(down, cols)
    if (down == 1 or rows == 1) and (right >= rows or cols == 1):
        return FLIPPED, max(right, rows)
    return None


def product_rows(
    writer: TapeWriter, left: np.ndarray, right: np.ndarray, out: np.ndarray, adds: bool = False
) -> list[TapeRow]:
    """The rows of `out = left @ right`, or `out += left @ right`, see `_Product`; none if there are no elements.

    Raises:
        Unsuitable: it has no native form. Nothing is written in any case.
    """
    if not out.size:
        return []
    require(left.shape[-1] > 0, left.size > 0, right.size > 0)
    return _Product(left, right, out).rows(writer, adds)


def write(writer: TapeWriter, rows: Sequence[TapeRow]) -> None:
    for kernel, *arguments in rows:
        writer.row(kernel, *arguments)


def write_apart(writer: TapeWriter, number: int, rows: Sequence[TapeRow]) -> None:
    """Write the rows of one result, which may be late if there is a single one.

    Args:
        number: of the result's slot.
    """
    if len(rows) == 1:
        writer.late_row(number, *rows[0])
    else:
        write(writer, rows)


def gemm(writer: TapeWriter, left: np.ndarray, right: np.ndarray, out: np.ndarray, adds: bool = False) -> None:
    """`out = left @ right`, or `out += left @ right`, as `product_rows` takes them."""
    write(writer, product_rows(writer, left, right, out, adds))


# mul


def _seen_as(array: np.ndarray, shape: Sequence[int]) -> np.ndarray | None:
    """The array in another shape, None if that takes a copy."""
    if type(array) is not np.ndarray and hasattr(array, "seen_as"):  # what only stands for an array knows itself
        seen: np.ndarray | None = array.seen_as(tuple(shape))
        return seen
    view = array.reshape(tuple(shape))
    return view if view.base is not None and (not array.size or np.shares_memory(view, array)) else None


def _matrix(array: np.ndarray, dims: int) -> np.ndarray:
    """The array as a matrix whose rows are the first `dims` dimensions."""
    require(isinstance(array, np.ndarray))
    matrix = _seen_as(array, (math.prod(array.shape[:dims]), math.prod(array.shape[dims:])))
    require(matrix is not None)
    assert matrix is not None
    return matrix


@native(MUL)
def mul(writer: TapeWriter, row: Row) -> None:
    (out,), (x, y) = operands(writer, row)
    x_dims, y_dims = row.node.attrs["x_num_col_dims"], row.node.attrs["y_num_col_dims"]
    gemm(writer, _matrix(x, x_dims), _matrix(y, y_dims), _matrix(out, x_dims))


@native(MUL.backward)
def mul_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_y), (x, y, g) = operands(writer, row)
    x_dims, y_dims = row.node.attrs["x_num_col_dims"], row.node.attrs["y_num_col_dims"]
    require(g is not None)
    left, right, g = _matrix(x, x_dims), _matrix(y, y_dims), _matrix(g, x_dims)
    of_x = [] if g_x is None else product_rows(writer, g, right.T, _matrix(g_x, x_dims))
    of_y = [] if g_y is None else product_rows(writer, left.T, g, _matrix(g_y, y_dims))
    write_apart(writer, 1, of_y)
    write_apart(writer, 0, of_x)


# matmul_v2


def _as_matrices(array: np.ndarray, flipped: bool, is_left: bool) -> np.ndarray:
    """An operand, or its gradient, as the matrices that take part: a vector is a row on the left, else a column."""
    require(isinstance(array, np.ndarray))
    if array.ndim == 1:
        return array[None, :] if is_left else array[:, None]
    return array.swapaxes(-1, -2) if flipped else array


def _result(array: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The result, or its gradient, with the dimensions that vectors have lost."""
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    result = _seen_as(array, (*batch, left.shape[-2], right.shape[-1]))
    require(result is not None)
    assert result is not None
    return result


@native(MATMUL)
def matmul(writer: TapeWriter, row: Row) -> None:
    (out,), (x, y) = operands(writer, row)
    attrs = row.node.attrs
    left, right = _as_matrices(x, attrs["trans_x"], True), _as_matrices(y, attrs["trans_y"], False)
    if out.size and not left.shape[-1]:
        fill(writer, out, 0.0)
        return
    gemm(writer, left, right, _result(out, left, right))


@native(MATMUL.backward)
def matmul_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_y), (x, y, g) = operands(writer, row)
    trans_x, trans_y = row.node.attrs["trans_x"], row.node.attrs["trans_y"]
    require(g is not None)
    left, right = _as_matrices(x, trans_x, True), _as_matrices(y, trans_y, False)
    g = _result(g, left, right)
    of_x: list[TapeRow] = []
    of_y: list[TapeRow] = []
    if g_x is not None:
        of_x = product_rows(writer, g, right.swapaxes(-1, -2), _as_matrices(g_x, trans_x, True))
    if g_y is not None:
        of_y = product_rows(writer, left.swapaxes(-1, -2), g, _as_matrices(g_y, trans_y, False))
    write_apart(writer, 1, of_y)
    write_apart(writer, 0, of_x)


# dot


@native(DOT)
def dot(writer: TapeWriter, row: Row) -> None:
    (out,), (x, y) = operands(writer, row)
    require_dense(out)
    products = writer.temporary(x.shape, out.dtype)
    expression(writer, lambda x, y: x * y, [products], [x, y])
    add_up(writer, products, out.reshape((*x.shape[:-1], 1)))


@native(DOT.backward)
def dot_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_y), (x, y, g) = operands(writer, row)
    require(g is not None)
    require_dense(g)
    g = g.reshape((*x.shape[:-1], 1))
    for out, other in ((of_x, y), (of_y, x)):
        if out is not None:
            expression(writer, lambda g, other: g * other, [out], [g, other])
