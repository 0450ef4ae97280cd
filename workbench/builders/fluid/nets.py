"""`fluid.nets`: a few layers that 1.x scripts often put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.fluid.images import pool2d
from workbench.builders.fluid.layers import dropout, fc, matmul
from workbench.builders.fluid.shapes import reshape, split
from workbench.builders.nn.conv import conv2d
from workbench.builders.nn.norm import batch_norm
from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.loss.softmax import softmax
from workbench.ops.math.arithmetic import scale
from workbench.ops.nn.activation import sigmoid
from workbench.ops.tensor.transpose import transpose


def simple_img_conv_pool(
    input: Any,
    num_filters: int,
    filter_size: Any,
    pool_size: Any,
    pool_stride: Any,
    pool_padding: Any = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Any = 1,
    conv_padding: Any = 0,
    conv_dilation: Any = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Any:
    """`layers.conv2d`, then `layers.pool2d`.

    Args:
        input: `[N, C, H, W]`. act: of the convolution. Others: as for these two.

    Example:
        >>> import workbench.fluid as fluid
        >>> image = fluid.data("image", [None, 1, 28, 28])
        >>> fluid.nets.simple_img_conv_pool(image, 20, 5, pool_size=2, pool_stride=2, act="relu").shape
        (-1, 20, 12, 12)
    """
    image = conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr, bias_attr,
        use_cudnn, act,
    )  # fmt: skip
    return pool2d(image, pool_size, pool_type, pool_stride, pool_padding, global_pooling, use_cudnn)


def img_conv_group(
    input: Any,
    conv_num_filter: Sequence[int],
    pool_size: Any,
    conv_padding: Any = 1,
    conv_filter_size: Any = 3,
    conv_act: str | None = None,
    param_attr: Any = None,
    conv_with_batchnorm: Any = False,
    conv_batchnorm_drop_rate: Any = 0.0,
    pool_stride: Any = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Any:
    """Convolutions one after the other, each with a batch norm and a dropout if wanted, then a pooling (VGG's block).

    Args:
        input: `[N, C, H, W]`. conv_num_filter: of each convolution.
        conv_padding, conv_filter_size, param_attr, conv_with_batchnorm, conv_batchnorm_drop_rate: one for all, or a
            list with one for each.

    Raises:
        InvalidArgument: a list of another length.

    Example:
        >>> import workbench.fluid as fluid
        >>> image = fluid.data("image", [None, 3, 32, 32])
        >>> fluid.nets.img_conv_group(image, [8, 8], pool_size=2, pool_stride=2, conv_act="relu").shape
        (-1, 8, 16, 16)
    """
    count = len(conv_num_filter)
    each = zip(
        conv_num_filter,
        _for_each("conv_padding", conv_padding, count),
        _for_each("conv_filter_size", conv_filter_size, count),
        _for_each("param_attr", param_attr, count),
        _for_each("conv_with_batchnorm", conv_with_batchnorm, count),
        _for_each("conv_batchnorm_drop_rate", conv_batchnorm_drop_rate, count),
        strict=True,
    )
    x = input
    for filters, padding, size, attr, is_normalized, drop_rate in each:
        act = None if is_normalized else conv_act
        x = conv2d(x, filters, size, padding=padding, param_attr=attr, use_cudnn=use_cudnn, act=act)
        if is_normalized:
            x = batch_norm(x, act=conv_act)
            x = dropout(x, drop_rate) if drop_rate else x
    return pool2d(x, pool_size, pool_type, pool_stride, use_cudnn=use_cudnn)


def _for_each(what: str, given: Any, count: int) -> list[Any]:
    values = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(values) != count:
        raise InvalidArgument(f"img_conv_group takes one {what} for each of {count} convolutions, got {given!r}")
    return values


def glu(input: Any, dim: int = -1) -> Any:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016).

    Raises:
        InvalidArgument: a dimension that cannot be halved.
    """
    a, b = split(input, 2, dim)
    return a * sigmoid(b)


def scaled_dot_product_attention(
    queries: Any, keys: Any, values: Any, num_heads: int = 1, dropout_rate: float = 0.0
) -> Any:
    """softmax(q k^T / sqrt(width)) v, of several heads (Vaswani et al. 2017).

    Args:
        queries: `[N, Q, D]`. keys: `[N, K, D]`. values: `[N, K, V]`; all but N known.
        num_heads: of more than one, queries, keys and values each go through an `fc` first.
        dropout_rate: of the weights.

    Returns:
        `[N, Q, V]`.

    Raises:
        InvalidArgument: other shapes, widths that the heads do not divide.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 7, 8])
        >>> fluid.nets.scaled_dot_product_attention(x, x, x, num_heads=2).shape
        (-1, 7, 8)
    """
    _require_attention(queries, keys, values, num_heads)
    inputs = [queries, keys, values]
    if num_heads > 1:
        inputs = [fc(x, x.shape[-1], num_flatten_dims=2) for x in inputs]
    q, k, v = (_heads(x, num_heads) for x in inputs)
    weights = softmax(matmul(scale(q, (keys.shape[-1] // num_heads) ** -0.5), k, transpose_y=True))
    if dropout_rate:
        weights = dropout(weights, dropout_rate)
    mixed = matmul(weights, v)
    if num_heads == 1:
        return mixed
    return reshape(transpose(mixed, [0, 2, 1, 3]), [-1, queries.shape[1], values.shape[-1]])


def _heads(x: Any, count: int) -> Any:
    if count == 1:
        return x
    return transpose(reshape(x, [-1, x.shape[1], count, x.shape[2] // count]), [0, 2, 1, 3])


def _require_attention(queries: Any, keys: Any, values: Any, num_heads: int) -> None:
    shapes = [x.shape for x in (queries, keys, values)]
    fits = all(len(shape) == 3 for shape in shapes) and shapes[0][2] == shapes[1][2] and shapes[1][1] == shapes[2][1]
    if not fits:
        got = ", ".join(map(shape_text, shapes))
        raise ShapeError("attention takes queries, keys and values", "[N, Q, D], [N, K, D] and [N, K, V]", got)
    if num_heads < 1 or shapes[1][2] % num_heads or shapes[2][2] % num_heads:
        got = f"{num_heads} for {shapes[1][2]} and {shapes[2][2]}"
        raise InvalidArgument(f"attention takes a number of heads that divides the widths, got {got}")
