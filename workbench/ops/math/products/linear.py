"""Linear and bilinear maps of the last dimension."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.math.arithmetic import multiply
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench.nn.functional": "bilinear linear"}


def linear(x: Any, weight: Any, bias: Any = None, name: str | None = None) -> Any:
    """`x @ weight + bias`.

    Args:
        x: `[..., in]`, floating.
        weight: `[in, out]`.
        bias: `[out]`, or None.

    Returns:
        `[..., out]`.

    Raises:
        InvalidArgument: shapes that do not fit.

    Example:
        >>> print(F.linear(wb.ones([1, 2]), wb.to_tensor([[1.0], [2.0]]), wb.to_tensor([0.5])).numpy())
        [[3.5]]
    """
    out = matmul(x, weight, name=name)
    return out if bias is None else out + bias


def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None, name: str | None = None) -> Any:
    """`sum_ij x1[i] weight[k, i, j] x2[j] + bias[k]` for every row.

    Args:
        x1: `[batch, in1]`; x2: `[batch, in2]`.
        weight: `[out, in1, in2]`.
        bias: `[1, out]`, or None.

    Returns:
        `[batch, out]`.

    Raises:
        InvalidArgument: shapes that do not fit.

    Example:
        >>> x, y = wb.to_tensor([[1.0, 2.0]]), wb.to_tensor([[3.0]])
        >>> print(F.bilinear(x, y, wb.ones([1, 2, 1])).numpy())
        [[9.]]
    """
    if len(weight.shape) != 3 or len(x1.shape) != 2 or len(x2.shape) != 2:
        got = ", ".join(shape_text(t.shape) for t in (x1, x2, weight))
        raise ShapeError("bilinear takes two matrices and a weight", "[n, in1], [n, in2] and [out, in1, in2]", got)
    count, left, right = weight.shape
    # [n, in1] @ [in1, out * in2] -> [n, out, in2], then along in2 with x2
    columns = reshape(transpose(weight, [1, 0, 2]), [left, count * right])
    half = reshape(matmul(x1, columns), [-1, count, right])
    out = reduce_sum(multiply(half, reshape(x2, [-1, 1, right])), axis=2, name=name)
    return out if bias is None else out + bias
