"""Normalisation of groups of channels, of single channels, and along channels."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.conv.pools.pool import avg_pool2d
from workbench.ops.math.arithmetic import pow
from workbench.ops.nn.norm import LAYER_NORM
from workbench.ops.tensor.pad import PAD
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench.nn.functional": "group_norm instance_norm local_response_norm"}

CHANNELS_FIRST = ("NC", "NCL", "NCHW", "NCDHW")
CHANNELS_LAST = ("NLC", "NHWC", "NDHWC")


def _channels_first(what: str, x: Any, data_format: str) -> tuple[Any, list[int] | None]:
    """`x` as `[N, C, ...]`, and the axes that bring the result back (None: it is so already)."""
    if data_format not in CHANNELS_FIRST + CHANNELS_LAST:
        raise InvalidArgument(f"data_format is one of {', '.join(CHANNELS_FIRST + CHANNELS_LAST)}, got {data_format!r}")
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(f"{what} takes batches of channels", "at least 2 dimensions", shape_text(x.shape))
    if data_format in CHANNELS_FIRST or rank == 2:
        return x, None
    return transpose(x, [0, rank - 1, *range(1, rank - 1)]), [0, *range(2, rank), 1]


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    """x times a weight plus a bias per channel of `[N, C, ...]`."""
    columns = [-1, *([1] * (len(x.shape) - 2))]
    x = x if weight is None else x * reshape(weight, columns)
    return x if bias is None else x + reshape(bias, columns)


def group_norm(
    x: Any,
    num_groups: int,
    epsilon: float = 1e-5,
    weight: Any = None,
    bias: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Normalise every group of channels of every sample to mean 0 and variance 1, then scale and shift channels.

    Args:
        x: floating tensor `[N, C, ...]`, or `[N, ..., C]` for a `data_format` that ends in C.
        num_groups: divides C.
        epsilon: added to the variance.
        weight, bias: `[C]` or None.

    Raises:
        InvalidArgument: groups that do not divide the channels, or shapes that do not fit.

    Source: Wu and He, "Group Normalization", ECCV 2018.

    Example:
        >>> print(F.group_norm(wb.to_tensor([[1.0, 3.0, 0.0, 8.0]]), 2, data_format="NC").numpy().round(3))
        [[-1.  1. -1.  1.]]
    """
    first, back = _channels_first("group_norm", x, data_format)
    channels = first.shape[1]
    if num_groups < 1 or (channels >= 0 and channels % num_groups):
        raise ShapeError("group_norm takes channels in whole groups", f"a multiple of {num_groups}", channels)
    normal, _, _ = LAYER_NORM(
        reshape(first, [0, num_groups, -1]), None, None, epsilon=epsilon, begin_norm_axis=2, name=name
    )
    out = _scaled(reshape(normal, _shape_of(first)), weight, bias)
    return out if back is None else transpose(out, back)


def _shape_of(x: Any) -> list[int]:
    """Its shape for `reshape`: the batch is inferred, or another dimension, where that one is unknown."""
    rest = list(x.shape[1:])
    return [0 if -1 in rest else -1, *rest]


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-5,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Normalise every channel of every sample to mean 0 and variance 1, then scale and shift.

    Args:
        x: floating tensor `[N, C, ...]`, or `[N, ..., C]` for a `data_format` that ends in C.
        running_mean, running_var, use_input_stats, momentum: accepted for Paddle's sake, without effect, as there.
        weight, bias: `[C]` or None.
        eps: added to the variance.

    Raises:
        InvalidArgument: shapes that do not fit.

    Source: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization", 2016.

    Example:
        >>> print(F.instance_norm(wb.to_tensor([[[1.0, 3.0], [5.0, 5.0]]]), data_format="NCL").numpy().round(3))
        [[[-1.  1.]
          [ 0.  0.]]]
    """
    first, back = _channels_first("instance_norm", x, data_format)
    if len(first.shape) < 3:
        raise ShapeError("instance_norm takes channels of several values", "at least 3 dimensions", shape_text(x.shape))
    normal, _, _ = LAYER_NORM(first, None, None, epsilon=eps, begin_norm_axis=2, name=name)
    out = _scaled(normal, weight, bias)
    return out if back is None else transpose(out, back)


def local_response_norm(
    x: Any,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta; channels beyond the edge count as 0.

    Args:
        x: floating tensor `[N, C, ...]` of three to five dimensions, or `[N, ..., C]`.

    Raises:
        InvalidArgument: another format or rank.

    Source: Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Networks", 2012.

    Example:
        >>> print(F.local_response_norm(wb.ones([1, 1, 2]), 1, alpha=3.0, beta=0.5, data_format="NCL").numpy())
        [[[0.5 0.5]]]
    """
    if not 3 <= len(x.shape) <= 5:
        raise ShapeError(
            "local_response_norm takes channels of sequences, images or volumes", "rank 3 to 5", shape_text(x.shape)
        )
    first, back = _channels_first("local_response_norm", x, data_format)
    squares = reshape(first * first, [0, 1, first.shape[1], -1])
    padded = PAD(squares, paddings=[0, 0, 0, 0, size // 2, (size - 1) // 2, 0, 0])
    means = reshape(avg_pool2d(padded, [size, 1], stride=1), _shape_of(first))
    out = first / pow(means * alpha + k, beta)
    return out if back is None else transpose(out, back, name=name)
