"""Matrix products: mul (the one of `fc`), matmul_v2, dot.

Half precision is multiplied in float32 and rounded once. No body makes a transposed copy: BLAS reads views.
"""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.record import Cost
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import Spec, broadcast_shapes, require_same_dtype, same_dim, shape_text, size_of
from workbench.framework.values.sums import add_up
from workbench.ops.precision import rounded, wide
from workbench.ops.tensor.shape import FLATTEN, RESHAPE_LIKE, UNSQUEEZE

OFFERED = {"workbench": "bmm dot matmul mm"}


def _require_numbers(what: str, *specs: Spec) -> None:
    require_same_dtype(what, *specs)
    if specs[0].dtype.kind == "bool":
        raise DtypeError(f"{what} takes numbers", "a floating-point or integer dtype", specs[0].dtype)


def _product(xp: Any, a: Any, b: Any, like: Any) -> Any:
    return rounded(xp.matmul(wide(a), wide(b)), like)


def _work(m: int, k: int, n: int, batch: int, *specs: Spec) -> Cost:
    moved = sum(size_of(s.shape) * s.dtype.itemsize for s in specs)
    return Cost(2 * batch * m * k * n, moved + batch * m * n * specs[0].dtype.itemsize)


# mul: both sides flattened to matrices


def _infer_mul(x: Spec, y: Spec, x_num_col_dims: int, y_num_col_dims: int) -> Spec:
    _require_numbers("mul", x, y)
    for side, spec, cols in (("x", x, x_num_col_dims), ("y", y, y_num_col_dims)):
        if not 0 < cols < len(spec.shape):
            raise ShapeError(
                f"{side}_num_col_dims splits the dimensions of {side.upper()} into rows and columns",
                f"an int in [1, {len(spec.shape)})",
                cols,
            )
    inner, rows = x.shape[x_num_col_dims:], y.shape[:y_num_col_dims]
    if not same_dim(size_of(inner), size_of(rows)):
        raise ShapeError(
            "the columns of X and the rows of Y are equally many",
            f"{size_of(inner)} rows, from {shape_text(inner)} of X",
            f"{size_of(rows)}, from {shape_text(rows)} of Y",
        )
    return x.with_shape(x.shape[:x_num_col_dims] + y.shape[y_num_col_dims:])


def _matrix(array: Any, cols: int) -> Any:
    """`array` as a matrix whose rows are the first `cols` dimensions."""
    return array.reshape(math.prod(array.shape[:cols]), math.prod(array.shape[cols:]))


def _matrix_value(x: Any, cols: int) -> Any:
    """The same for a gradient rule."""
    rank = len(x.shape)
    if rank - cols > 1:
        x = FLATTEN(x, start_axis=cols, stop_axis=rank - 1)
    return FLATTEN(x, start_axis=0, stop_axis=cols - 1) if cols > 1 else x


def _mul_rule(g: Any, out: Any, x: Any, y: Any, x_num_col_dims: int, y_num_col_dims: int) -> Any:
    g2 = _matrix_value(g, x_num_col_dims)

    def of_x() -> Any:
        return RESHAPE_LIKE(MATMUL(g2, _matrix_value(y, y_num_col_dims), trans_y=True), x)

    def of_y() -> Any:
        return RESHAPE_LIKE(MATMUL(_matrix_value(x, x_num_col_dims), g2, trans_x=True), y)

    return of_x, of_y


def _mul_grad(
    xp: Any, x: Any, y: Any, g: Any, wanted: Any, x_num_col_dims: int, y_num_col_dims: int
) -> tuple[Any, Any]:
    a, b, g2 = _matrix(x, x_num_col_dims), _matrix(y, y_num_col_dims), _matrix(g, x_num_col_dims)
    gx = _product(xp, g2, b.T, x).reshape(x.shape) if wanted[0] else None
    gy = _product(xp, a.T, g2, y).reshape(y.shape) if wanted[1] else None
    return gx, gy


def _mul_cost(x: Spec, y: Spec, x_num_col_dims: int, y_num_col_dims: int) -> Cost:
    rows, inner = size_of(x.shape[:x_num_col_dims]), size_of(x.shape[x_num_col_dims:])
    return _work(rows, inner, size_of(y.shape[y_num_col_dims:]), 1, x, y)


@op(
    "mul",
    "X, Y -> Out",
    attrs={"x_num_col_dims": 1, "y_num_col_dims": 1},
    same_rows="Out",
    traits="product",
    infer=_infer_mul,
    grad=_mul_rule,
    grad_forward=_mul_grad,
    cost=_mul_cost,
)
def MUL(xp: Any, x: Any, y: Any, x_num_col_dims: int, y_num_col_dims: int) -> Any:
    """X and Y as matrices, multiplied; rows keep the first dimensions of X, columns the last ones of Y."""
    product = _product(xp, _matrix(x, x_num_col_dims), _matrix(y, y_num_col_dims), x)
    return product.reshape(x.shape[:x_num_col_dims] + y.shape[y_num_col_dims:])


# matmul_v2: batches of matrices; a vector counts as a matrix of one row (left) or one column (right)


def _infer_matmul(x: Spec, y: Spec, trans_x: bool, trans_y: bool) -> Spec:
    _require_numbers("matmul", x, y)
    if not x.shape or not y.shape:
        raise ShapeError("matmul takes tensors of at least one dimension", "shape [..., m, n] or [n]", f"{x} and {y}")
    a, b = _as_matrices(x.shape, trans_x, True), _as_matrices(y.shape, trans_y, False)
    if not same_dim(a[-1], b[-2]):
        raise ShapeError(
            "the inner dimensions of a matrix product are equal",
            f"{a[-1]} rows on the right, for a left side of {shape_text(a)}",
            f"{b[-2]}, on a right side of {shape_text(b)}",
        )
    out = broadcast_shapes(a[:-2], b[:-2])
    out += a[-2:-1] if len(x.shape) > 1 else ()
    out += b[-1:] if len(y.shape) > 1 else ()
    return x.with_shape(out or (1,))


def _as_matrices(shape: tuple[int, ...], trans: bool, left: bool) -> tuple[int, ...]:
    """The shape of the matrices that take part."""
    if len(shape) == 1:
        return (1, *shape) if left else (*shape, 1)
    return (*shape[:-2], shape[-1], shape[-2]) if trans else shape


def _lifted(x: Any, trans: bool, left: bool) -> Any:
    """An array as the matrices that take part."""
    if x.ndim == 1:
        return x[None, :] if left else x[:, None]
    return x.swapaxes(-1, -2) if trans else x


def _batched(xp: Any, a: Any, b: Any) -> Any:
    """`a @ b`; one large product instead of a batch of small ones where the right side is a single matrix."""
    a, b = wide(a), wide(b)
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
        return xp.matmul(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return xp.matmul(a, b)


def _matmul_rule(g: Any, out: Any, x: Any, y: Any, trans_x: bool, trans_y: bool) -> Any:
    """Gradients as products of matrices; a vector's loses its extra dimension in the end."""
    if len(x.shape) == 1 and len(y.shape) == 1:
        return lambda: g * y, lambda: g * x
    if len(x.shape) == 1:
        row, g_row = UNSQUEEZE(x, axes=[0]), UNSQUEEZE(g, axes=[-2])
        # [..., 1, k] comes back to [k] when broadcasting is undone
        return lambda: _left(g_row, y, False, trans_y), lambda: _right(g_row, row, False, trans_y)
    if len(y.shape) == 1:
        column, g_column = UNSQUEEZE(y, axes=[1]), UNSQUEEZE(g, axes=[-1])

        def of_y() -> Any:
            as_column = _right(g_column, x, trans_x, False)
            return FLATTEN(as_column, start_axis=-2, stop_axis=-1)

        return lambda: _left(g_column, column, trans_x, False), of_y
    return lambda: _left(g, y, trans_x, trans_y), lambda: _right(g, x, trans_x, trans_y)


def _left(g: Any, y: Any, trans_x: bool, trans_y: bool) -> Any:
    if trans_x:
        return MATMUL(y, g, trans_x=trans_y, trans_y=True)
    return MATMUL(g, y, trans_y=not trans_y)


def _right(g: Any, x: Any, trans_x: bool, trans_y: bool) -> Any:
    if trans_y:
        return MATMUL(g, x, trans_x=True, trans_y=trans_x)
    return MATMUL(x, g, trans_x=not trans_x)


def _matmul_grad(xp: Any, x: Any, y: Any, g: Any, wanted: Any, trans_x: bool, trans_y: bool) -> tuple[Any, Any]:
    a, b = _lifted(x, trans_x, True), _lifted(y, trans_y, False)
    if x.ndim == 1 or y.ndim == 1:
        g = g.reshape(*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    gx = gy = None
    if wanted[0]:
        gx = _lowered(_batched(xp, g, b.swapaxes(-1, -2)), a.shape, x, trans_x)
    if wanted[1]:
        gy = _lowered(_of_right(xp, a, b, g), b.shape, y, trans_y)
    return gx, gy


def _of_right(xp: Any, a: Any, b: Any, g: Any) -> Any:
    """`aᵀ @ g`; one product over all rows where the right side was a single matrix."""
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous and g.flags.c_contiguous:
        a, g = (
            a.reshape(math.prod(a.shape[:-1]), a.shape[-1]),
            g.reshape(math.prod(g.shape[:-1]), g.shape[-1]),
        )
    return xp.matmul(wide(a).swapaxes(-1, -2), wide(g))


def _lowered(product: Any, shape: Any, like: Any, trans: bool) -> Any:
    """A gradient of the matrices that took part as one of the operand, broadcasting undone."""
    if product.shape != shape:
        extra = product.ndim - len(shape)
        axes = tuple(i for i in range(product.ndim) if i < extra or (shape[i - extra] == 1 and product.shape[i] != 1))
        product = add_up(product, axes).reshape(shape)
    if trans and like.ndim > 1:
        product = product.swapaxes(-1, -2)
    return rounded(product.reshape(like.shape), like)


def _matmul_cost(x: Spec, y: Spec, trans_x: bool, trans_y: bool) -> Cost:
    a, b = _as_matrices(x.shape, trans_x, True), _as_matrices(y.shape, trans_y, False)
    return _work(a[-2], a[-1], b[-1], size_of(broadcast_shapes(a[:-2], b[:-2])), x, y)


@op(
    "matmul_v2",
    "X, Y -> Out",
    attrs={"trans_x": False, "trans_y": False},
    traits="product, layout_free",
    infer=_infer_matmul,
    grad=_matmul_rule,
    grad_forward=_matmul_grad,
    cost=_matmul_cost,
)
def MATMUL(xp: Any, x: Any, y: Any, trans_x: bool = False, trans_y: bool = False) -> Any:
    if x.ndim == 2 == y.ndim and x.dtype.char not in HALVES:  # quick: dynamic mode multiplies small matrices
        return xp.matmul(x.T if trans_x else x, y.T if trans_y else y)
    a, b = _lifted(x, trans_x, True), _lifted(y, trans_y, False)
    product = rounded(_batched(xp, a, b), x)
    if x.ndim > 1 < y.ndim:
        return product
    shape = product.shape[:-2] + product.shape[-2:-1] * (x.ndim > 1) + product.shape[-1:] * (y.ndim > 1)
    return product.reshape(shape or (1,))


@tensor_method("matmul")
def matmul(x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None) -> Any:
    """The matrix product of the last two dimensions; those before them broadcast.

    Args:
        x, y: [..., m, k] and [..., k, n], of one dtype. A vector [k] is a row on the left and a column on the
            right, and its extra dimension is dropped from the result.
        transpose_x, transpose_y: swap the last two dimensions first; no effect on vectors.

    Returns:
        [..., m, n]; for two vectors [1], in dynamic mode [].

    Raises:
        InvalidArgument: inner dimensions that differ, batch dimensions that do not broadcast.
        InvalidType: two dtypes.

    Example:
        >>> print(wb.matmul(wb.to_tensor([[1.0, 2.0]]), wb.to_tensor([[3.0], [4.0]])).numpy())
        [[11.]]
    """
    if len(x.shape) == 1 == len(y.shape) and zero_dim():
        return DOT(x, y, zero_dim=True, name=name)
    return MATMUL(x, y, trans_x=bool(transpose_x), trans_y=bool(transpose_y), name=name)


@tensor_method("mm")
def mm(input: Any, mat2: Any, name: str | None = None) -> Any:
    """`matmul(input, mat2)` without transpositions.

    Example:
        >>> print(wb.mm(wb.to_tensor([[1.0, 2.0]]), wb.to_tensor([[3.0], [4.0]])).numpy())
        [[11.]]
    """
    return MATMUL(input, mat2, name=name)


@tensor_method("bmm")
def bmm(x: Any, y: Any, name: str | None = None) -> Any:
    """The products of two batches of matrices: [b, m, k] and [b, k, n] -> [b, m, n].

    Raises:
        InvalidArgument: not three dimensions each, or two different batches.

    Example:
        >>> wb.bmm(wb.ones([5, 2, 3]), wb.ones([5, 3, 4])).shape
        [5, 2, 4]
    """
    if len(x.shape) != 3 or len(y.shape) != 3 or not same_dim(x.shape[0], y.shape[0]):
        raise ShapeError(
            "bmm takes two batches of matrices",
            "[b, m, k] and [b, k, n]",
            f"{shape_text(x.shape)} and {shape_text(y.shape)}",
        )
    return MATMUL(x, y, name=name)


# dot


def _infer_dot(x: Spec, y: Spec, zero_dim: bool) -> Spec:
    _require_numbers("dot", x, y)
    if len(x.shape) not in (1, 2) or len(x.shape) != len(y.shape) or not all(map(same_dim, x.shape, y.shape)):
        raise ShapeError("dot takes two vectors, or two matrices row by row, of one shape", x, y)
    return x.with_shape(x.shape[:-1] or (() if zero_dim else (1,)))


def _dot_grad(g: Any, out: Any, x: Any, y: Any, zero_dim: bool) -> tuple[Any, ...]:
    g = UNSQUEEZE(g, axes=[-1]) if len(g.shape) < len(x.shape) else g
    return lambda: g * y, lambda: g * x


@op("dot", "X, Y -> Out", attrs={"zero_dim": False}, infer=_infer_dot, grad=_dot_grad)
def DOT(xp: Any, x: Any, y: Any, zero_dim: bool) -> Any:
    return rounded(xp.asarray((wide(x) * wide(y)).sum(axis=-1, keepdims=x.ndim == 1 and not zero_dim)), x)


@tensor_method("dot")
def dot(x: Any, y: Any, name: str | None = None) -> Any:
    """The inner product of two vectors, [n] -> [1], in dynamic mode []; or of the rows of two matrices, [m, n] -> [m].

    Raises:
        InvalidArgument: the shapes differ. InvalidType: the dtypes differ.

    Example:
        >>> print(wb.dot(wb.to_tensor([1.0, 2.0]), wb.to_tensor([3.0, 4.0])).numpy())
        11.0
    """
    return DOT(x, y, zero_dim=zero_dim(), name=name)
