"""Prepared calls of the matrix products `mul` and `matmul_v2` and their gradients (see `bound`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec, broadcast_shapes
from workbench.ops.bound import Calls, Scratch, copied, multiplied, seen_as


def _fits(*arrays: Any) -> bool:
    """Whether all are dense and of one dtype that is multiplied as it is; half precision goes through float32."""
    given = [a for a in arrays if a is not None]
    if not all(isinstance(a, np.ndarray) and a.dtype == given[0].dtype for a in given):
        return False
    return not as_dtype(given[0].dtype).is_float or bool(given[0].dtype.itemsize > 2)


def _matrix(array: np.ndarray, cols: int) -> np.ndarray | None:
    """The array as a matrix whose rows are the first `cols` dimensions, None if that takes a copy."""
    return seen_as(array, (math.prod(array.shape[:cols]), math.prod(array.shape[cols:])))


def bind_mul(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, x_num_col_dims: int, y_num_col_dims: int
) -> Calls | None:
    """`bind` of mul."""
    (out,), (x, y) = outs, arrays
    if not _fits(x, y, out) or not out.flags.c_contiguous:
        return None
    a, b, product = _matrix(x, x_num_col_dims), _matrix(y, y_num_col_dims), _matrix(out, x_num_col_dims)
    if a is None or b is None or product is None:
        return None
    return [multiplied(a, b, product)]


def bind_mul_grad(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, x_num_col_dims: int, y_num_col_dims: int
) -> Calls | None:
    """`bind` of mul_grad."""
    x, y, g = arrays
    if not _fits(x, y, g, *outs) or g is None:
        return None
    a, b, g2 = _matrix(x, x_num_col_dims), _matrix(y, y_num_col_dims), _matrix(g, x_num_col_dims)
    if a is None or b is None or g2 is None:
        return None
    calls: Calls = []
    for out, left, right in ((outs[0], g2, b.T), (outs[1], a.T, g2)):
        if out is None:
            continue
        if not out.flags.c_contiguous:
            return None
        calls.append(multiplied(left, right, out.reshape(left.shape[0], right.shape[1])))
    return calls


# matmul_v2


def _as_matrices(x: np.ndarray, trans: bool, left: bool) -> np.ndarray:
    """An operand as the matrices that take part: a vector is one row on the left, one column on the right."""
    if x.ndim == 1:
        return x[None, :] if left else x[:, None]
    return x.swapaxes(-1, -2) if trans else x


def _rows(x: np.ndarray) -> np.ndarray:
    """All rows of contiguous matrices in one."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _batched(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Calls:
    """`a @ b` into contiguous `out` as `forward` does: one product where the right side is a single matrix."""
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
        return [multiplied(_rows(a), b, out.reshape(math.prod(a.shape[:-1]), b.shape[1]))]
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return [multiplied(a, b, out.reshape(*batch, a.shape[-2], b.shape[-1]))]


def _is_prepared(x: Spec, y: Spec, trans_x: bool) -> bool:
    """Whether a product is one of matrices, or of batches of rows with one matrix, in their own precision."""
    return x.dtype.name in ("float32", "float64") and len(y.shape) == 2 <= len(x.shape) and (
        len(x.shape) == 2 or not trans_x
    )  # fmt: skip


def prepare_matmul(x: Spec, y: Spec, trans_x: bool, trans_y: bool) -> Callable[..., Any] | None:
    """`prepare` of matmul_v2."""
    if not _is_prepared(x, y, trans_x):
        return None
    if len(x.shape) == 2:
        return lambda a, b: np.matmul(a.T if trans_x else a, b.T if trans_y else b)
    rows, inner, columns = math.prod(x.shape[:-1]), x.shape[-1], y.shape[0 if trans_y else 1]

    def body(a: Any, b: Any) -> Any:
        b = b.T if trans_y else b
        if not a.flags.c_contiguous:
            return np.matmul(a, b)
        return np.matmul(a.reshape(rows, inner), b).reshape(*a.shape[:-1], columns)

    return body


def grad_prepare_matmul(
    wanted: Sequence[bool], x: Spec, y: Spec, trans_x: bool, trans_y: bool
) -> Callable[..., Any] | None:
    """`grad_prepare` of matmul_v2."""
    if not _is_prepared(x, y, trans_x):
        return None
    rows, inner, columns = math.prod(x.shape[:-1]), x.shape[-1], y.shape[0 if trans_y else 1]
    by_x, by_y = wanted if len(wanted) == 2 else (True, True)

    def matrices(a: Any, b: Any, g: Any) -> Any:
        a, b = a.T if trans_x else a, b.T if trans_y else b
        gx: Any = np.matmul(g, b.T) if by_x else None
        gy: Any = np.matmul(a.T, g) if by_y else None
        return gx.T if trans_x and by_x else gx, gy.T if trans_y and by_y else gy

    def batches(a: Any, b: Any, g: Any) -> Any:
        shape, b = a.shape, b.T if trans_y else b
        g = np.ascontiguousarray(g).reshape(rows, columns)
        gx: Any = np.matmul(g, b.T).reshape(shape) if by_x else None
        gy: Any = np.matmul(a.reshape(rows, inner).T, g) if by_y else None
        return gx, gy.T if trans_y and by_y else gy

    return matrices if len(x.shape) == 2 else batches


def bind_matmul(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, trans_x: bool, trans_y: bool
) -> Calls | None:
    """`bind` of matmul_v2."""
    (out,), (x, y) = outs, arrays
    if not _fits(x, y, out) or not out.flags.c_contiguous:
        return None
    return _batched(_as_matrices(x, trans_x, True), _as_matrices(y, trans_y, False), out)


def bind_matmul_grad(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, trans_x: bool, trans_y: bool
) -> Calls | None:
    """`bind` of matmul_v2_grad; where broadcasting has to be undone there is none."""
    x, y, g = arrays
    if not _fits(x, y, g, *outs) or g is None:
        return None
    a, b = _as_matrices(x, trans_x, True), _as_matrices(y, trans_y, False)
    g_seen = seen_as(g, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
    if g_seen is None:
        return None
    gx = _stored(outs[0], _of_left(a, b, g_seen), a, trans_x and x.ndim > 1, scratch)
    gy = _stored(outs[1], _of_right(a, b, g_seen), b, trans_y and y.ndim > 1, scratch)
    return None if gx is None or gy is None else gx + gy


Sides = tuple[np.ndarray, np.ndarray]


def _of_left(a: np.ndarray, b: np.ndarray, g: np.ndarray) -> Sides:
    return g, b.swapaxes(-1, -2)


def _of_right(a: np.ndarray, b: np.ndarray, g: np.ndarray) -> Sides:
    """`aᵀ, g`; over all rows at once where the right side was a single matrix."""
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous and g.flags.c_contiguous:
        a, g = _rows(a), _rows(g)
    return a.swapaxes(-1, -2), g


def _stored(out: np.ndarray | None, sides: Sides, like: np.ndarray, trans: bool, scratch: Scratch) -> Calls | None:
    """The product of `sides`, a gradient of the matrices `like`, into `out`, which has the shape of the operand.

    A product that has to be transposed is made beside it: written through a transposed view, BLAS would compute the
    transposed product, and other bits.
    """
    if out is None:
        return []
    left, right = sides
    shape = (*broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
    if shape != like.shape or not out.flags.c_contiguous:
        return None
    if not trans:
        return _batched(left, right, out.reshape(shape))
    product = scratch(shape, out.dtype)
    return [*_batched(left, right, product), copied(product.swapaxes(-1, -2), out)]
