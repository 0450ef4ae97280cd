"""The same values in another dtype."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.elementwise import elementwise
from workbench.framework.values.dtype import as_dtype
from workbench.ops.pointwise import Tensor

OFFERED = {"workbench": "cast"}


@elementwise(
    "cast",
    "X -> Out",
    attrs={"dtype": "float32"},
    infer=lambda x, dtype: x.with_dtype(as_dtype(dtype)),
    grad=lambda g, out, x, dtype: g.astype(x.dtype),
    saved="",
    shape_only="X",
    shaped_like={},
)
def CAST(xp: Any, x: Any, dtype: str) -> Any:
    """x in another dtype; floats lose their fraction when they become integers."""
    return xp.cast(x, dtype)


def cast(x: Tensor, dtype: Any) -> Tensor:
    """x in another dtype (`x` itself if it has it already).

    Args:
        dtype: any dtype. Floats that become integers are cut towards zero; everything but 0 becomes True.

    Raises:
        InvalidType: no such dtype.

    Example:
        >>> print(wb.cast(wb.to_tensor([1.7, -1.7]), "int32").numpy())
        [ 1 -1]
    """
    return x.astype(dtype)
