"""Random tensors of which one dimension is taken from another tensor: as many rows as the batch has."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec, require_float
from workbench.ops.random.distributions import KEYS
from workbench.ops.tensor.batch_like import WHERE, batch_shape, infer_batch_like


def _infer(like: Spec, **attrs: Any) -> Spec:
    spec = infer_batch_like(like, **attrs)
    require_float("a continuous random tensor", spec)
    return spec


def _infer_uniform(like: Spec, min: float, max: float, **attrs: Any) -> Spec:
    if min > max:
        raise ShapeError("uniform numbers lie in [min, max)", f"max >= {min}", max)
    return _infer(like, **attrs)


def _shape(like: Any, shape: Any, input_dim_idx: int, output_dim_idx: int, **keys: Any) -> Any:
    return batch_shape(like.shape, shape, input_dim_idx, output_dim_idx)


@op(
    "uniform_random_batch_size_like",
    "Input -> Out",
    attrs={**WHERE, "dtype": "float32", "min": -1.0, "max": 1.0, **KEYS},
    infer=_infer_uniform,
    saved="",
    shape_only="Input",
    needs="rng",
)
def UNIFORM_BATCH_LIKE(xp: Any, like: Any, rng: Any, dtype: str, min: float, max: float, **where: Any) -> Any:
    """Uniform numbers in [min, max) in a given shape, with a dimension of Input."""
    kind = as_dtype(dtype).numpy
    numbers = rng.uniform(xp, _shape(like, **where), kind) * (max - min) + min
    below = xp.nextafter(kind.type(max), kind.type(min))  # rounding must not reach max
    return xp.minimum(numbers.astype(kind, copy=False), below)


@op(
    "gaussian_random_batch_size_like",
    "Input -> Out",
    attrs={**WHERE, "dtype": "float32", "mean": 0.0, "std": 1.0, **KEYS},
    infer=lambda like, mean, std, **attrs: _infer(like, **attrs),
    saved="",
    shape_only="Input",
    needs="rng",
)
def GAUSSIAN_BATCH_LIKE(xp: Any, like: Any, rng: Any, dtype: str, mean: float, std: float, **where: Any) -> Any:
    """Normal numbers in a given shape, with a dimension of Input."""
    return rng.normal(xp, _shape(like, **where), as_dtype(dtype).numpy) * std + mean
