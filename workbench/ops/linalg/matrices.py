"""Square matrices: inverses, determinants, powers."""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.dtype import float32, float64
from workbench.framework.values.spec import Spec, same_dim
from workbench.ops.arguments import one_int
from workbench.ops.math.compare import where
from workbench.ops.math.products.matmul import matmul
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full_like, zeros_like
from workbench.ops.tensor.shape import unsqueeze
from workbench.ops.tensor.transpose import transpose
from workbench.ops.tensor.triangles import tril

OFFERED = {"workbench": "inverse=inv", "workbench.linalg": "det inv matrix_power slogdet"}


def matrix_spec(what: str, x: Spec) -> Spec:
    """Check that a spec is that of matrices, `[..., m, n]`, of float32 or float64.

    Raises:
        DtypeError, ShapeError: it is not.
    """
    if x.dtype not in (float32, float64):
        raise DtypeError(f"{what} takes matrices of floating numbers", "float32 or float64", x.dtype)
    if len(x.shape) < 2:
        raise ShapeError(f"{what} takes matrices", "[..., m, n]", x)
    return x


def square_spec(what: str, x: Spec) -> Spec:
    """`matrix_spec` of square ones."""
    matrix_spec(what, x)
    if not same_dim(x.shape[-1], x.shape[-2]):
        raise ShapeError(f"{what} takes square matrices", "[..., n, n]", x)
    return x


def transposed(x: Any) -> Any:
    """Matrices with rows and columns exchanged."""
    rank = len(x.shape)
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def identity_like(x: Any) -> Any:
    """Identity matrices in the shape of `x`."""
    ones = full_like(x, 1.0)
    return tril(ones) - tril(ones, -1)


def _inverse_grad(g: Any, y: Any, x: Any) -> Any:
    back = transposed(y)
    return -matmul(matmul(back, g), back)


@op("inverse", "Input -> Output", infer=lambda x: square_spec("inv", x), grad=_inverse_grad, saved="Output")
def INVERSE(xp: Any, x: Any) -> Any:
    """The inverses of matrices."""
    return require_regular("inv", lambda: xp.linalg.inv(x))


def require_regular(what: str, compute: Any) -> Any:
    """What `compute` gives.

    Raises:
        InvalidArgument: NumPy finds a matrix singular, or not positive definite.
    """
    try:
        return compute()
    except ArithmeticError as error:
        raise InvalidArgument(f"{what}: {error}") from None
    except ValueError as error:  # LinAlgError
        raise InvalidArgument(f"{what}: {error}") from None


def inv(x: Any, name: str | None = None) -> Any:
    """The inverses of square matrices.

    Args:
        x: float32 or float64, [..., n, n].

    Raises:
        InvalidArgument: other shapes; when run, a matrix without an inverse. InvalidType: other dtypes.

    Example:
        >>> print(wb.linalg.inv(wb.to_tensor([[2.0, 0.0], [0.0, 4.0]])).numpy())
        [[0.5  0.  ]
         [0.   0.25]]
    """
    return INVERSE(x, name=name)


tensor_method("inverse", "inv")(inv)


def _as_matrices(numbers: Any) -> Any:
    """Numbers `[...]` as matrices `[..., 1, 1]`."""
    return unsqueeze(unsqueeze(numbers, -1), -1)


@op(
    "determinant",
    "Input -> Out",
    infer=lambda x: square_spec("det", x).with_shape(x.shape[:-2]),
    grad=lambda g, y, x: _as_matrices(g * y) * transposed(INVERSE(x)),
    saved="Input, Out",
)
def DETERMINANT(xp: Any, x: Any) -> Any:
    """The determinants of matrices."""
    return xp.asarray(xp.linalg.det(x), dtype=x.dtype)


def det(x: Any, name: str | None = None) -> Any:
    """The determinants of square matrices, [..., n, n] -> [...]. Args and Raises: as for `inv`.

    Example:
        >>> wb.linalg.det(wb.to_tensor([[2.0, 1.0], [0.0, 4.0]])).item()
        8.0
    """
    return DETERMINANT(x, name=name)


tensor_method("det")(det)


@op(
    "slogdeterminant",
    "Input -> Out",
    infer=lambda x: square_spec("slogdet", x).with_shape((2, *x.shape[:-2])),
    grad=lambda g, y, x: _as_matrices(g[1]) * transposed(INVERSE(x)),
    saved="Input",
)
def SLOGDETERMINANT(xp: Any, x: Any) -> Any:
    """The signs of determinants and the logarithms of their sizes."""
    sign, logarithm = xp.linalg.slogdet(x)
    return xp.stack([xp.asarray(sign), xp.asarray(logarithm)]).astype(x.dtype)


def slogdet(x: Any, name: str | None = None) -> Any:
    """The signs of determinants and the logarithms of their sizes, [..., n, n] -> [2, ...].

    Args and Raises: as for `inv`.

    Example:
        >>> print(wb.linalg.slogdet(wb.to_tensor([[1.0, 0.0], [0.0, -1.0]])).numpy())
        [-1.  0.]
    """
    return SLOGDETERMINANT(x, name=name)


tensor_method("slogdet")(slogdet)


def matrix_power(x: Any, n: int, name: str | None = None) -> Any:
    """Square matrices to an integer power; negative ones are powers of the inverses.

    Args and Raises: as for `inv`; n is an int.

    Example:
        >>> print(wb.linalg.matrix_power(wb.to_tensor([[1.0, 1.0], [0.0, 1.0]]), 3).numpy())
        [[1. 3.]
         [0. 1.]]
    """
    square_spec("matrix_power", Spec(tuple(x.shape), x.dtype))
    base, left = (INVERSE(x) if n < 0 else x), abs(one_int("matrix_power's n", n))
    if not left:
        return where(zeros_like(x, dtype="bool"), x, identity_like(x))  # its gradient is zeros, whatever x holds
    power = None
    while left:
        power = power if not left % 2 else base if power is None else matmul(power, base)
        left //= 2
        base = matmul(base, base) if left else base
    return assign(power) if power is x else power


tensor_method("matrix_power")(matrix_power)


def shorter_side(rows: int, columns: int) -> int:
    """Of matrices; -1 where a side is not known."""
    return -1 if -1 in (rows, columns) else min(rows, columns)
