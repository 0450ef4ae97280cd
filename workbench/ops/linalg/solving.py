"""Systems of linear equations."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.dtype import int32
from workbench.framework.values.spec import Spec, broadcast_shapes, require_same_dtype, same_dim, shape_text
from workbench.ops.linalg.matrices import matrix_spec, require_regular, square_spec, transposed
from workbench.ops.math.products.matmul import matmul
from workbench.ops.tensor.shape import squeeze, unsqueeze
from workbench.ops.tensor.triangles import tril, triu

OFFERED = {"workbench.linalg": "cholesky_solve lstsq solve triangular_solve"}


def _infer_solve(what: str) -> Any:
    def infer(x: Spec, y: Spec, **attrs: Any) -> Spec:
        square_spec(what, x)
        matrix_spec(what, y)
        require_same_dtype(what, x, y)
        if not same_dim(x.shape[-1], y.shape[-2]):
            got = f"{shape_text(x.shape)} and {shape_text(y.shape)}"
            raise ShapeError(f"{what} takes as many rows on both sides", "[..., n, n] and [..., n, k]", got)
        return y.with_shape((*broadcast_shapes(x.shape[:-2], y.shape[:-2]), *y.shape[-2:]))

    return infer


def _solve_grad(g: Any, out: Any, x: Any, y: Any) -> Any:
    of_y = SOLVE(transposed(x), g)
    return lambda: -matmul(of_y, transposed(out)), lambda: of_y


@op("solve", "X, Y -> Out", infer=_infer_solve("solve"), grad=_solve_grad, saved="X, Out", shape_only="Y")
def SOLVE(xp: Any, x: Any, y: Any) -> Any:
    """The matrices Z with X Z = Y."""
    return require_regular("solve", lambda: xp.linalg.solve(x, xp.broadcast_to(y, (*_batch(xp, x, y), *y.shape[-2:]))))


def _batch(xp: Any, x: Any, y: Any) -> tuple[int, ...]:
    return tuple(broadcast_shapes(x.shape[:-2], y.shape[:-2]))


def solve(x: Any, y: Any, name: str | None = None) -> Any:
    """The solutions z of x z = y.

    Args:
        x: float32 or float64, [..., n, n].
        y: of the same dtype, [..., n, k], or a vector [n].

    Raises:
        InvalidArgument: shapes that do not fit; when run, a matrix without an inverse. InvalidType: other dtypes.

    Example:
        >>> print(wb.linalg.solve(wb.to_tensor([[3.0, 1.0], [1.0, 2.0]]), wb.to_tensor([9.0, 8.0])).numpy().round(3))
        [2. 3.]
    """
    if len(y.shape) == 1:
        return squeeze(SOLVE(x, unsqueeze(y, -1), name=name), -1)
    return SOLVE(x, y, name=name)


tensor_method("solve")(solve)


def _triangle(xp: Any, x: Any, upper: bool, unitriangular: bool) -> Any:
    part = xp.triu(x) if upper else xp.tril(x)
    if not unitriangular:
        return part
    one = xp.eye(x.shape[-1], dtype=x.dtype)
    return part * (1 - one) + one


def _triangular_grad(g: Any, out: Any, x: Any, y: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    attrs: dict[str, Any] = {"upper": upper, "unitriangular": unitriangular}
    of_y = TRIANGULAR_SOLVE(x, g, transpose=not transpose, **attrs)

    def of_x() -> Any:
        product = -matmul(of_y, transposed(out))
        product = transposed(product) if transpose else product
        return triu(product, int(unitriangular)) if upper else tril(product, -int(unitriangular))

    return of_x, lambda: of_y


@op(
    "triangular_solve",
    "X, Y -> Out",
    attrs={"upper": True, "transpose": False, "unitriangular": False},
    infer=_infer_solve("triangular_solve"),
    grad=_triangular_grad,
    saved="X, Out",
    shape_only="Y",
)
def TRIANGULAR_SOLVE(xp: Any, x: Any, y: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    """The matrices Z with T Z = Y, T being a triangle of X."""
    triangle = _triangle(xp, x, upper, unitriangular)
    return SOLVE.forward(xp, xp.swapaxes(triangle, -1, -2) if transpose else triangle, y)


def triangular_solve(
    x: Any, y: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False, name: str | None = None
) -> Any:
    """The solutions z of t z = y, t being the upper (or lower) triangle of x.

    Args:
        x, y: as for `solve`.
        transpose: of the triangle. unitriangular: its diagonal counts as ones.

    Raises:
        InvalidArgument, InvalidType: as for `solve`.

    Example:
        >>> x, y = wb.to_tensor([[1.0, 1.0], [0.0, 2.0]]), wb.to_tensor([[3.0], [4.0]])
        >>> print(wb.linalg.triangular_solve(x, y).numpy())
        [[1.]
         [2.]]
    """
    attrs: dict[str, Any] = {"upper": bool(upper), "transpose": bool(transpose), "unitriangular": bool(unitriangular)}
    return TRIANGULAR_SOLVE(x, y, name=name, **attrs)


tensor_method("triangular_solve")(triangular_solve)


def cholesky_solve(x: Any, y: Any, upper: bool = False, name: str | None = None) -> Any:
    """The solutions z of a z = x, the Cholesky factor `y` of a being given.

    Args:
        x: [..., n, k]. y: [..., n, n], lower or `upper`.

    Raises:
        InvalidArgument, InvalidType: as for `solve`.

    Example:
        >>> print(wb.linalg.cholesky_solve(wb.to_tensor([[8.0]]), wb.to_tensor([[2.0]])).numpy())
        [[2.]]
    """
    first = TRIANGULAR_SOLVE(y, x, upper=upper, transpose=upper)
    return TRIANGULAR_SOLVE(y, first, upper=upper, transpose=not upper, name=name)


tensor_method("cholesky_solve")(cholesky_solve)


def _infer_lstsq(x: Spec, y: Spec, rcond: float, shows_values: bool) -> tuple[Spec, ...]:
    matrix_spec("lstsq", x)
    matrix_spec("lstsq", y)
    require_same_dtype("lstsq", x, y)
    *batch, rows, columns = x.shape
    if not same_dim(rows, y.shape[-2]) or len(batch) != len(y.shape) - 2:
        got = f"{shape_text(x.shape)} and {shape_text(y.shape)}"
        raise ShapeError("lstsq takes as many equations on both sides", "[..., m, n] and [..., m, k]", got)
    count = -1 if -1 in (rows, columns) else min(rows, columns)
    solution = y.with_shape((*batch, columns, y.shape[-1]))
    left = -1 if count < 0 else y.shape[-1] if rows > columns else 0
    return (
        solution,
        y.with_shape((*batch, left)),
        Spec(tuple(batch), int32),
        x.with_shape((*batch, count if shows_values else 0)),
    )


@op(
    "lstsq",
    "X, Y -> Solution, Residuals, Rank, SingularValues",
    attrs={"rcond": -1.0, "shows_values": True},
    infer=_infer_lstsq,
)
def LSTSQ(xp: Any, x: Any, y: Any, rcond: float, shows_values: bool) -> tuple[Any, ...]:
    """The Z for which X Z - Y is shortest, its squared lengths, the ranks and singular values of X."""
    batch = x.shape[:-2]
    each_solved = [xp.linalg.lstsq(x[i], y[i], rcond=None if rcond < 0 else rcond) for i in xp.ndindex(*batch)]
    solution, _, rank, values = zip(*each_solved, strict=True)
    solved = xp.stack(solution).reshape(*batch, x.shape[-1], y.shape[-1])
    residuals = ((xp.matmul(x, solved) - y) ** 2).sum(axis=-2)
    return (
        solved,
        residuals if x.shape[-2] > x.shape[-1] else residuals[..., :0],
        xp.asarray(rank, "int32").reshape(batch),
        xp.stack(values).reshape(*batch, -1)[..., : None if shows_values else 0],
    )


def lstsq(
    x: Any, y: Any, rcond: float | None = None, driver: str | None = None, name: str | None = None
) -> tuple[Any, Any, Any, Any]:
    """The solutions of x z = y in the sense of least squares; no gradient flows.

    Args:
        x: float32 or float64, [..., m, n]. y: [..., m, k].
        rcond: singular values below this share of the largest count as 0; by default the precision times max(m, n).
        driver: one of Paddle's words, "gelsy" by default; "gelsd" and "gelss" give the singular values, too, the others
            ("gels", "gelsy") leave them empty. Nothing else depends on it.

    Returns:
        the solutions [..., n, k]; the squared lengths of what is left [..., k] (empty if there are no more equations
        than unknowns); the ranks; the singular values.

    Raises:
        InvalidArgument: shapes that do not fit, another driver. InvalidType: other dtypes.

    Example:
        >>> x, y = wb.to_tensor([[1.0], [1.0]]), wb.to_tensor([[1.0], [3.0]])
        >>> wb.linalg.lstsq(x, y)[0].numpy().round(3).tolist()
        [[2.0]]
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise InvalidArgument(f"lstsq's driver is 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    shows_values = driver in ("gelsd", "gelss")
    return LSTSQ(x, y, rcond=-1.0 if rcond is None else float(rcond), shows_values=shows_values, name=name)


tensor_method("lstsq")(lstsq)
