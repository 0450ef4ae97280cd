"""Prepared calls of layer and batch normalisation and of their gradients (see `bound`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.values.sums import add_up_into
from workbench.ops.bound import Calls, Scratch, averaged, copied, is_plain, number, or_scratch, reduced
from workbench.ops.nn.channels import other_axes, per_channel, uses_given_statistics


def _inverted(variance: np.ndarray, epsilon: float, out: np.ndarray) -> Calls:
    """1 / sqrt(variance + epsilon)."""
    return [
        partial(np.add, variance, number(epsilon, out.dtype), out),
        partial(np.sqrt, out, out),
        partial(np.divide, number(1, out.dtype), out, out),
    ]


def _statistics(
    x: np.ndarray, axes: tuple[int, ...], columns: Sequence[int],
    mean: np.ndarray, variance: np.ndarray, centred: np.ndarray, scratch: Scratch,
) -> Calls | None:  # fmt: skip
    """Mean and biased variance over `axes`, and x - mean; `columns` is the shape in which they meet x."""
    squares = scratch(x.shape, x.dtype)
    means, variances = averaged(x, axes, mean), averaged(squares, axes, variance)
    if means is None or variances is None:
        return None
    return [
        *means,
        partial(np.subtract, x, mean.reshape(columns), centred),
        partial(np.multiply, centred, centred, squares),
        *variances,
    ]


# Layers


def bind_layer_norm(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, epsilon: float, begin_norm_axis: int
) -> Calls | None:
    """`bind` of layer_norm."""
    x, scale, bias = arrays
    if not is_plain(x, scale, bias, *outs) or not x.size:
        return None
    rows = (math.prod(x.shape[:begin_norm_axis]), math.prod(x.shape[begin_norm_axis:]))
    y = or_scratch(outs[0], scratch, x.shape, x.dtype).reshape(rows)
    mean, variance = (or_scratch(out, scratch, rows[:1], x.dtype) for out in outs[1:])
    inverse = scratch(rows[:1], x.dtype)
    calls = _statistics(x.reshape(rows), (1,), (-1, 1), mean, variance, y, scratch)
    if calls is None:
        return None
    calls += [*_inverted(variance, epsilon, inverse), partial(np.multiply, y, inverse[:, None], y)]
    if scale is not None:
        calls.append(partial(np.multiply, y, scale.reshape(1, -1), y))
    if bias is not None:
        calls.append(partial(np.add, y, bias.reshape(1, -1), y))
    return calls


def bind_layer_norm_grad(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, epsilon: float, begin_norm_axis: int
) -> Calls | None:
    """`bind` of layer_norm_grad."""
    x, scale, _, mean, variance, g, *_ = arrays
    if g is None or not is_plain(x, scale, mean, variance, g, *outs) or not x.size:
        return None
    rows = (math.prod(x.shape[:begin_norm_axis]), math.prod(x.shape[begin_norm_axis:]))
    x, g = x.reshape(rows), g.reshape(rows)
    inverse, normal, product = scratch(rows[:1], x.dtype), scratch(rows, x.dtype), scratch(rows, x.dtype)
    calls: Calls = [
        *_inverted(variance, epsilon, inverse),
        partial(np.subtract, x, mean[:, None], normal),
        partial(np.multiply, normal, inverse[:, None], normal),
    ]
    g_x, g_scale, g_bias = outs
    if g_scale is not None:
        calls += [
            partial(np.multiply, g, normal, product),
            partial(add_up_into, product, (0,), g_scale),
        ]
    if g_bias is not None:
        calls.append(partial(add_up_into, g, (0,), g_bias))
    if g_x is None:
        return calls
    if scale is not None:
        scaled = scratch(rows, x.dtype)
        calls.append(partial(np.multiply, g, scale.reshape(1, -1), scaled))
        g = scaled
    through = _through_statistics(g, normal, inverse, product, g_x.reshape(rows), scratch)
    return None if through is None else calls + through


def _through_statistics(
    g: np.ndarray, normal: np.ndarray, inverse: np.ndarray, product: np.ndarray, out: np.ndarray, scratch: Scratch
) -> Calls | None:
    """(g - mean(g) - normal mean(g normal)) inverse per row; overwrites `normal` and `product`."""
    along, level = scratch(inverse.shape, inverse.dtype), scratch(inverse.shape, inverse.dtype)
    alongs, levels = averaged(product, (1,), along), averaged(g, (1,), level)
    if alongs is None or levels is None:
        return None
    return [
        partial(np.multiply, g, normal, product),
        *alongs,
        *levels,
        partial(np.subtract, g, level[:, None], out),
        partial(np.multiply, normal, along[:, None], normal),
        partial(np.subtract, out, normal, out),
        partial(np.multiply, out, inverse[:, None], out),
    ]


# Batches


def bind_batch_norm(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch,
    momentum: float, epsilon: float, data_layout: str, **which: bool,
) -> Calls | None:  # fmt: skip
    """`bind` of batch_norm, with the batch's statistics or with given ones."""
    x, scale, bias, *moving = arrays
    if not is_plain(x, scale, bias, *moving, *outs) or not x.size:
        return None
    columns = per_channel(x.shape, data_layout)
    y = or_scratch(outs[0], scratch, x.shape, x.dtype)
    inverse = or_scratch(outs[4], scratch, moving[0].shape, x.dtype)
    if uses_given_statistics(**which):
        calls: Calls | None = _with_given(x, moving, columns, y, inverse, epsilon, outs)
    else:
        axes = other_axes(x.ndim, data_layout)
        calls = _with_own(x, moving, axes, columns, y, inverse, epsilon, momentum, outs, scratch)
    if calls is None:
        return None
    slope = _slope(scale, inverse, calls, scratch)
    calls.append(partial(np.multiply, y, slope.reshape(columns), y))
    if bias is not None:
        calls.append(partial(np.add, y, bias.reshape(columns), y))
    return calls


def _with_given(
    x: np.ndarray, moving: Sequence[np.ndarray], columns: Sequence[int], y: np.ndarray, inverse: np.ndarray,
    epsilon: float, outs: Sequence[Any],
) -> Calls:  # fmt: skip
    """x - mean and 1 / std of the moving statistics, which stay as they are."""
    mean, variance = moving
    kept = [(old, out) for old, out in zip((*moving, mean), outs[1:4], strict=True) if out is not None]
    return [
        *(copied(old, out) for old, out in kept if not np.shares_memory(old, out)),
        partial(np.subtract, x, mean.reshape(columns), y),
        *_inverted(variance, epsilon, inverse),
    ]


def _with_own(
    x: np.ndarray, moving: Sequence[np.ndarray], axes: tuple[int, ...], columns: Sequence[int], y: np.ndarray,
    inverse: np.ndarray, epsilon: float, momentum: float, outs: Sequence[Any], scratch: Scratch,
) -> Calls | None:  # fmt: skip
    """x - mean and 1 / std of the batch, and the moving statistics after it."""
    mean, variance = or_scratch(outs[3], scratch, inverse.shape, x.dtype), scratch(inverse.shape, x.dtype)
    calls = _statistics(x, axes, columns, mean, variance, y, scratch)
    if calls is None:
        return None
    calls += _inverted(variance, epsilon, inverse)
    for old, batch, out in zip(moving, (mean, variance), outs[1:3], strict=True):
        calls += _moved(old, batch, momentum, out, scratch)
    return calls


def _moved(old: np.ndarray, batch: np.ndarray, momentum: float, out: np.ndarray | None, scratch: Scratch) -> Calls:
    """momentum * old + (1 - momentum) * batch."""
    if out is None:
        return []
    share, rest = scratch(old.shape, old.dtype), scratch(old.shape, old.dtype)
    return [
        partial(np.multiply, old, number(momentum, old.dtype), rest),
        partial(np.multiply, batch, number(1 - momentum, old.dtype), share),
        partial(np.add, rest, share, out),
    ]


def _slope(scale: np.ndarray | None, inverse: np.ndarray, calls: Calls, scratch: Scratch) -> np.ndarray:
    """inverse * scale; what computes it is appended to `calls`."""
    if scale is None:
        return inverse
    slope = scratch(inverse.shape, inverse.dtype)
    calls.append(partial(np.multiply, inverse, scale, slope))
    return slope


def bind_batch_norm_grad(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch,
    data_layout: str, momentum: float, epsilon: float, **which: bool,
) -> Calls | None:  # fmt: skip
    """`bind` of batch_norm_grad."""
    x, scale, _, _, _, mean, inverse, g, *_ = arrays
    if g is None or not is_plain(x, scale, mean, inverse, g, *outs) or not x.size:
        return None
    axes, columns = other_axes(x.ndim, data_layout), per_channel(x.shape, data_layout)
    normal, product = scratch(x.shape, x.dtype), scratch(x.shape, x.dtype)
    g_x = outs[0]
    g_scale, g_bias = (or_scratch(out, scratch, inverse.shape, x.dtype) for out in outs[1:])
    sums = reduced(np.add, g, axes, g_bias), reduced(np.add, product, axes, g_scale)
    if sums[0] is None or sums[1] is None:
        return None
    calls: Calls = [
        partial(np.subtract, x, mean.reshape(columns), normal),
        partial(np.multiply, normal, inverse.reshape(columns), normal),
        sums[0],
        partial(np.multiply, g, normal, product),
        sums[1],
    ]
    if g_x is None:
        return calls
    slope = _slope(scale, inverse, calls, scratch).reshape(columns)
    if uses_given_statistics(**which):
        return [*calls, partial(np.multiply, g, slope, g_x)]
    count = number(x.size // inverse.size, x.dtype)
    along, level = scratch(inverse.shape, x.dtype), scratch(inverse.shape, x.dtype)
    return [
        *calls,
        partial(np.divide, g_scale, count, along),
        partial(np.divide, g_bias, count, level),
        partial(np.multiply, normal, along.reshape(columns), normal),
        partial(np.add, normal, level.reshape(columns), normal),
        partial(np.subtract, g, normal, g_x),
        partial(np.multiply, g_x, slope, g_x),
    ]
