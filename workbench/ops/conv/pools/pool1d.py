"""Pooling of sequences: images one pixel high."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.conv.convolutions.conv1d import one, padding_1d
from workbench.ops.conv.pools import pool
from workbench.ops.tensor.shape import squeeze, unsqueeze

OFFERED = {"workbench.nn.functional": "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d max_pool1d"}

HEIGHT = 2


def _image(what: str, x: Any) -> Any:
    if len(x.shape) != 3:
        raise ShapeError(f"{what} takes sequences", "[n, c, l]", shape_text(x.shape))
    return unsqueeze(x, HEIGHT)


def _without_height(out: Any, name: str | None) -> Any:
    if isinstance(out, tuple):
        return tuple(squeeze(part, HEIGHT) for part in out)
    return squeeze(out, HEIGHT, name=name)


def _window(kernel_size: Any, stride: Any, padding: Any) -> dict[str, Any]:
    kernel = one("kernel_size", kernel_size)
    step = kernel if stride is None else one("stride", stride)
    return {"kernel_size": [1, kernel], "stride": [1, step], "padding": padding_1d(padding)}


def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The maximum of every window of [n, c, l]; arguments, result and errors as for `max_pool2d`.

    Example:
        >>> print(F.max_pool1d(wb.to_tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).numpy())
        [[[3. 2.]]]
    """
    window = _window(kernel_size, stride, padding)
    image = _image("max_pool1d", x)
    return _without_height(pool.max_pool2d(image, return_mask=return_mask, ceil_mode=ceil_mode, **window), name)


def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The average of every window of [n, c, l]; arguments, result and errors as for `avg_pool2d`.

    Example:
        >>> print(F.avg_pool1d(wb.to_tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).numpy())
        [[[2. 1.]]]
    """
    window = _window(kernel_size, stride, padding)
    image = _image("avg_pool1d", x)
    return _without_height(pool.avg_pool2d(image, exclusive=exclusive, ceil_mode=ceil_mode, **window), name)


def adaptive_avg_pool1d(x: Any, output_size: Any, name: str | None = None) -> Any:
    """Averages over `output_size` bins that cover [n, c, l]; see `adaptive_avg_pool2d`.

    Example:
        >>> print(F.adaptive_avg_pool1d(wb.to_tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).numpy())
        [[[2. 1.]]]
    """
    size = [1, one("output_size", output_size)]
    return _without_height(pool.adaptive_avg_pool2d(_image("adaptive_avg_pool1d", x), size), name)


def adaptive_max_pool1d(x: Any, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """Maxima over `output_size` bins that cover [n, c, l]; see `adaptive_max_pool2d`.

    Example:
        >>> print(F.adaptive_max_pool1d(wb.to_tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).numpy())
        [[[3. 2.]]]
    """
    size = [1, one("output_size", output_size)]
    return _without_height(pool.adaptive_max_pool2d(_image("adaptive_max_pool1d", x), size, return_mask), name)
