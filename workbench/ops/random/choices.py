"""Random choices by weight, and integers in the shape of a tensor; composed of other ops."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import has_value, one_int
from workbench.ops.index.order.buckets import searchsorted
from workbench.ops.index.order.sort import topk
from workbench.ops.math.clip import clip
from workbench.ops.math.reductions.cumulative import cumsum
from workbench.ops.math.reductions.extreme import min as reduce_min
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import log
from workbench.ops.random.distributions import randint, uniform

OFFERED = {"workbench": "multinomial randint_like"}


@tensor_method("multinomial")
def multinomial(x: Any, num_samples: int = 1, replacement: bool = False, name: str | None = None) -> Any:
    """Numbers of categories, drawn by weight.

    Args:
        x: floating weights >= 0, not all 0: [k], or [n, k] with a draw for each row.
        num_samples: how many in a draw.
        replacement: a category may come again.

    Returns:
        int64, [num_samples] or [n, num_samples].

    Raises:
        InvalidArgument: other shapes, num_samples < 1; without replacement (in dynamic mode) more than there are
            weights above 0.

    Example:
        >>> wb.multinomial(wb.to_tensor([0.0, 1.0, 0.0]), 2, replacement=True).tolist()
        [1, 1]
    """
    count = one_int("multinomial's num_samples", num_samples)
    if len(x.shape) not in (1, 2) or any(d < 0 for d in x.shape):
        raise ShapeError("multinomial takes weights of known shape", "[k] or [n, k]", shape_text(x.shape))
    if count < 1:
        raise InvalidArgument(f"multinomial takes num_samples >= 1, got {count}")
    if replacement:
        ends = cumsum(x, -1) / reduce_sum(x, -1, keepdim=True)
        drawn = uniform([*x.shape[:-1], count], x.dtype, min=0.0, max=1.0)
        return clip(searchsorted(ends, drawn, right=True, name=name), 0, x.shape[-1] - 1)
    _require_enough(x, count)
    # Of exponential times with these rates the first come first: the larger x / time is, the earlier.
    times = -log(clip(uniform(list(x.shape), x.dtype, min=0.0, max=1.0), min=1e-20))
    return topk(x / clip(times, min=1e-20), count, name=name)[1]


def _require_enough(x: Any, count: int) -> None:
    if not has_value(x):
        return
    least = int(reduce_min(reduce_sum((x > 0.0).astype(int64), -1)))  # type: ignore[call-overload]
    if count > least:
        raise InvalidArgument(
            f"multinomial draws {count} different categories, but only {least} have a weight above 0; "
            "pass replacement=True, or draw fewer"
        )


@tensor_method("randint_like")
def randint_like(x: Any, low: int = 0, high: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    """Random integers of [low, high), or of [0, low) without `high`, in the shape of `x`.

    Args:
        dtype: any; that of `x` by default.

    Raises:
        InvalidArgument: an empty range, an unknown dimension.

    Example:
        >>> wb.randint_like(wb.zeros([2, 3]), 5, 6).tolist()
        [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]
    """
    return randint(low, high, list(x.shape), "int64", name).astype(x.dtype if dtype is None else as_dtype(dtype))
