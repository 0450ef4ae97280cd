"""Putting maxima back where they were: the inverse of max pooling."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import int_list
from workbench.ops.index.along_axis import put_along_axis
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.tile import expand

OFFERED = {"workbench.nn.functional": "max_unpool1d max_unpool2d max_unpool3d"}


def _sizes(what: str, value: Any, count: int) -> list[int]:
    sizes = int_list(what, value if isinstance(value, list | tuple) else [value] * count)
    if len(sizes) != count:
        raise ShapeError(f"{what} is one int or {count}", count, value)
    return sizes


def _unpooled(
    what: str, layout: str, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, data_format: str,
    output_size: Any, name: str | None,
) -> Any:  # fmt: skip
    count = len(layout) - 2
    if data_format != layout:
        raise InvalidArgument(f"{what} takes {layout!r} as data_format, got {data_format!r}")
    if len(x.shape) != count + 2 or -1 in x.shape[1:]:
        raise ShapeError(f"{what} takes maxima of known sizes", layout, shape_text(x.shape))
    kernel = _sizes("kernel_size", kernel_size, count)
    step = kernel if stride is None else _sizes("stride", stride, count)
    pads = _sizes("padding", padding, count)
    if output_size is None:
        dims = [(d - 1) * s - 2 * p + k for d, s, p, k in zip(x.shape[2:], step, pads, kernel, strict=True)]
    else:
        dims = int_list("output_size", output_size)[-count:]
    channels, places = x.shape[1], math.prod(x.shape[2:])
    values = reshape(x, [-1, channels, places])
    at = reshape(indices, [-1, channels, places]).astype("int64")
    empty = expand(full_like(values[:, :, :1], 0.0), [-1, -1, math.prod(dims)])
    return reshape(put_along_axis(empty, at, values, 2), [-1, channels, *dims], name=name)


def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCL",
    output_size: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Maxima of `max_pool1d` where they were in [n, c, l], 0 elsewhere; see `max_unpool2d`.

    Example:
        >>> top, where = F.max_pool1d(wb.to_tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_mask=True)
        >>> print(F.max_unpool1d(top, where, 2).numpy())
        [[[0. 3. 2. 0.]]]
    """
    return _unpooled("max_unpool1d", "NCL", x, indices, kernel_size, stride, padding, data_format, output_size, name)


def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCHW",
    output_size: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Maxima of `max_pool2d` where they were, 0 elsewhere.

    Args:
        x, indices: [n, c, h, w], the two results of `max_pool2d` with `return_mask`.
        kernel_size, stride, padding: those of the pooling.
        output_size: height and width wanted, where several sizes are pooled to that of `x`.

    Raises:
        InvalidArgument: sizes or layouts that do not fit; when run, an index outside the result.

    Example:
        >>> top, where = F.max_pool2d(wb.to_tensor([[[[1.0, 3.0], [2.0, 0.0]]]]), 2, return_mask=True)
        >>> print(F.max_unpool2d(top, where, 2).numpy())
        [[[[0. 3.]
           [0. 0.]]]]
    """
    return _unpooled("max_unpool2d", "NCHW", x, indices, kernel_size, stride, padding, data_format, output_size, name)


def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCDHW",
    output_size: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Maxima of `max_pool3d` where they were in [n, c, d, h, w], 0 elsewhere; see `max_unpool2d`.

    Example:
        >>> top, where = F.max_pool3d(wb.reshape(wb.arange(8.0), [1, 1, 2, 2, 2]), 2, return_mask=True)
        >>> print(F.max_unpool3d(top, where, 2).numpy().ravel())
        [0. 0. 0. 0. 0. 0. 0. 7.]
    """
    return _unpooled("max_unpool3d", "NCDHW", x, indices, kernel_size, stride, padding, data_format, output_size, name)
