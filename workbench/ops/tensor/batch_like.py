"""Tensors of which one dimension is taken from another tensor: as many rows as the batch has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.limits import require_holds
from workbench.framework.values.spec import Shape, Spec

WHERE: dict[str, Any] = {"shape": (), "input_dim_idx": 0, "output_dim_idx": 0}


def batch_shape(like: Sequence[int], shape: Sequence[int], input_dim_idx: int, output_dim_idx: int) -> Shape:
    """`shape` with dimension `output_dim_idx` that of `input_dim_idx` in `like`.

    Raises:
        ShapeError: there is no such dimension, or another one is not known.
    """
    for what, at, dims in (("input_dim_idx", input_dim_idx, like), ("output_dim_idx", output_dim_idx, shape)):
        if not 0 <= at < len(dims):
            raise ShapeError(f"{what} is one of {len(dims)} dimensions", f"an int in [0, {len(dims)})", at)
    dims = [int(d) for d in shape]
    dims[output_dim_idx] = like[input_dim_idx]
    if any(d < 0 for i, d in enumerate(dims) if i != output_dim_idx):
        raise ShapeError("all dimensions but that of the batch are known", "dimensions >= 0", list(shape))
    return tuple(dims)


def infer_batch_like(
    like: Spec, shape: Sequence[int], input_dim_idx: int, output_dim_idx: int, dtype: str, **attrs: Any
) -> Spec:
    return Spec(batch_shape(like.shape, shape, input_dim_idx, output_dim_idx), as_dtype(dtype))


def _infer_fill(like: Spec, dtype: str, value: float, **where: Any) -> Spec:
    require_holds("fill_constant_batch_size_like", dtype, value)
    return infer_batch_like(like, dtype=dtype, **where)


@op(
    "fill_constant_batch_size_like",
    "Input -> Out",
    attrs={**WHERE, "dtype": "float32", "value": 0.0},
    infer=_infer_fill,
    saved="",
    shape_only="Input",
)
def FILL_BATCH_LIKE(xp: Any, like: Any, dtype: str, value: float, **where: Any) -> Any:
    """One number in a given shape, with a dimension of Input."""
    return xp.full(batch_shape(like.shape, **where), value, as_dtype(dtype).numpy)
