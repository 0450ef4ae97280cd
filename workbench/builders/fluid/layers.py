"""`fluid.layers`: layers with the argument names, orders and defaults of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.data import data as declare
from workbench.builders.layer import activation_op
from workbench.builders.nn.dense import fc as dense
from workbench.errors import InvalidArgument, Unimplemented
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.record import find_op
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import as_dtype
from workbench.ops.conv.pools.pool import adaptive_avg_pool2d, adaptive_max_pool2d, avg_pool2d, max_pool2d
from workbench.ops.loss.softmax import softmax as soft_maximum
from workbench.ops.math.arithmetic import ADD, DIV, MAX, MIN, MUL, SUB
from workbench.ops.math.arithmetic import scale as scaled
from workbench.ops.math.cast import CAST
from workbench.ops.math.products.matmul import matmul as product
from workbench.ops.math.reductions.accumulate import add_n
from workbench.ops.math.reductions.extreme import max as maximum
from workbench.ops.math.reductions.extreme import min as minimum
from workbench.ops.math.reductions.reduce import mean as mean_of
from workbench.ops.math.reductions.reduce import sum as total
from workbench.ops.random.dropout import dropout as dropped
from workbench.ops.tensor.assign import assign as assigned
from workbench.ops.tensor.creation import full
from workbench.ops.tensor.join import concat as joined
from workbench.ops.tensor.join import split as parts
from workbench.ops.tensor.shape import reshape as reshaped
from workbench.ops.tensor.shape import squeeze as without_dimensions
from workbench.ops.tensor.shape import unsqueeze as with_dimensions
from workbench.ops.tensor.transpose import transpose as permuted


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Variable:
    """Declare what a program is fed; unlike `fluid.data` it puts a batch dimension in front.

    Args:
        append_batch_size: put -1 in front of `shape`, unless it has a -1 already.
        type: accepted for Paddle's sake.

    Raises:
        as `static.data`.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.data("x", shape=[3]).shape
        (-1, 3)
    """
    sizes: list[Any] = list(shape) if isinstance(shape, list | tuple) else [shape]
    if append_batch_size and not any(size is None or size < 0 for size in sizes):
        sizes = [-1, *sizes]
    variable = declare(name, sizes, dtype, lod_level)
    variable.stop_gradient = bool(stop_gradient)
    return variable


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer, `act(sum_i(input_i @ w_i) + b)`: `static.nn.fc` under its 1.x argument names.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.fc(fluid.data("x", [None, 4]), size=2, act="relu").shape
        (-1, 2)
    """
    return dense(input, size, num_flatten_dims, param_attr, bias_attr, act, name)


def softmax(input: Any, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along `axis`."""
    return soft_maximum(input, axis=axis, name=name)


def dropout(
    x: Any,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Any:
    """Set elements to 0 with a probability.

    Args:
        seed: has no effect, which is told; `Program.random_seed` chooses the numbers.
        dropout_implementation: `"downgrade_in_infer"` scales in test programs, `"upscale_in_train"` while training.

    Raises:
        InvalidArgument: a probability outside [0, 1], another implementation.
    """
    tell_without_effect("dropout", {"seed": seed is not None})
    return dropped(x, dropout_prob, training=not is_test, mode=dropout_implementation, name=name)


def pool2d(
    input: Any,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Any:
    """The largest (`pool_type="max"`) or the mean (`"avg"`) of every window, or of the whole image.

    Args:
        global_pooling: the window is the image; size, stride and padding do not count.
        exclusive: padding does not take part in means.
        use_cudnn: accepted for Paddle's sake.

    Raises:
        InvalidArgument: another type, a window that does not fit.
    """
    if pool_type not in ("max", "avg"):
        raise InvalidArgument(f"pool2d takes 'max' or 'avg' as pool_type, got {pool_type!r}")
    if global_pooling:
        if data_format not in ("NCHW", "NHWC"):
            raise InvalidArgument(f"pool2d takes 'NCHW' or 'NHWC' as data_format, got {data_format!r}")
        if pool_type == "avg":
            return adaptive_avg_pool2d(input, 1, data_format=data_format, name=name)
        if data_format == "NHWC":
            return permuted(adaptive_max_pool2d(permuted(input, [0, 3, 1, 2]), 1), [0, 2, 3, 1], name=name)
        return adaptive_max_pool2d(input, 1, name=name)
    options: dict[str, Any] = {"ceil_mode": ceil_mode, "data_format": data_format, "name": name}
    if pool_type == "max":
        return max_pool2d(input, pool_size, pool_stride, pool_padding, **options)
    return avg_pool2d(input, pool_size, pool_stride, pool_padding, exclusive=exclusive, **options)


# Element by element


def _pairwise(record: Any, x: Any, y: Any, axis: int, act: str | None, name: str | None) -> Any:
    activate = activation_op(act, record.type) if act is not None else None
    result = record(x, _aligned(x, y, axis), name=name)
    return result if activate is None else activate(result, name=name)


def _aligned(x: Any, y: Any, axis: int) -> Any:
    """`y` with as many dimensions behind as it takes to begin at dimension `axis` of `x`."""
    behind = len(x.shape) - axis - len(y.shape)
    return y if axis == -1 or behind <= 0 else with_dimensions(y, [-1] * behind)


def elementwise_add(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x + y); `axis` is the dimension of `x` that the first of `y` belongs to, -1: the last ones.

    Operators of a program are aligned at the last dimension. Where 1.8.5 gives them an axis, as `conv2d` for its bias,
    `y` gets dimensions of size 1 behind by an operator of its own (`unsqueeze2`, `reshape2`), which copies nothing.
    """
    return _pairwise(ADD, x, y, axis, act, name)


def elementwise_sub(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x - y); see `elementwise_add`."""
    return _pairwise(SUB, x, y, axis, act, name)


def elementwise_mul(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x * y); see `elementwise_add`."""
    return _pairwise(MUL, x, y, axis, act, name)


def elementwise_div(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x / y); see `elementwise_add`."""
    return _pairwise(DIV, x, y, axis, act, name)


def elementwise_max(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(max(x, y)); see `elementwise_add`."""
    return _pairwise(MAX, x, y, axis, act, name)


def elementwise_min(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(min(x, y)); see `elementwise_add`."""
    return _pairwise(MIN, x, y, axis, act, name)


def scale(
    x: Any,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """act(scale * x + bias), or act(scale * (x + bias))."""
    return scaled(x, scale, bias, bias_after_scale, act, name)


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype."""
    return CAST(x, dtype=as_dtype(dtype).name)


# Reductions


def reduce_mean(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The mean over all elements, or along some dimensions."""
    return mean_of(input, dim, keep_dim, name)


def reduce_sum(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The sum of all elements, or along some dimensions."""
    return total(input, dim, keepdim=keep_dim, name=name)


def reduce_max(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The largest of all elements, or along some dimensions."""
    return maximum(input, dim, keep_dim, name)


def reduce_min(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The smallest of all elements, or along some dimensions."""
    return minimum(input, dim, keep_dim, name)


def sums(input: Sequence[Any], out: Any = None) -> Any:
    """The sum of several variables of one shape, written into `out` if given."""
    result = add_n(list(input))
    return result if out is None else assigned(result, out)


# Making


def fill_constant(shape: Any, dtype: Any, value: float, force_cpu: bool = False, out: Any = None) -> Any:
    """A variable full of one value, or that value for `out`."""
    filled = full(shape, value, dtype)
    return filled if out is None else assigned(filled, out)


def reshape(
    x: Any,
    shape: Any,
    actual_shape: Any = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Any:
    """`x` in another shape, then an activation.

    Raises:
        Unimplemented: `actual_shape`, a shape that is only known when run.
    """
    if actual_shape is not None:
        raise Unimplemented("reshape does not take actual_shape; leave -1 in shape for what is not known")
    result = reshaped(x, shape, name=name)
    return result if act is None else activation_op(act, "reshape")(result, name=name)


def matmul(
    x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None
) -> Any:
    """alpha * x @ y, the last two dimensions of either exchanged first where asked for.

    In a program it is `matmul_v2`, and `scale` for an alpha, where 1.8.5 has one `matmul`: passes look for these two.
    """
    result = product(x, y, transpose_x, transpose_y, name)
    return result if alpha == 1.0 else scaled(result, alpha)


def mul(x: Any, y: Any, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Any:
    """x @ y, both flattened to matrices: so many leading dimensions are rows, the others columns."""
    return find_op("mul")(x, y, x_num_col_dims=x_num_col_dims, y_num_col_dims=y_num_col_dims, name=name)


def concat(input: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Several variables behind each other along `axis`."""
    return joined(list(input), axis, name)


def split(input: Any, num_or_sections: Any, dim: int = -1, name: str | None = None) -> Any:
    """Parts of equal size, or of given sizes, along `dim`."""
    return parts(input, num_or_sections, dim, name)


def unsqueeze(input: Any, axes: Any, name: str | None = None) -> Any:
    """`input` with dimensions of size 1 at `axes`."""
    return with_dimensions(input, axes, name)


def squeeze(input: Any, axes: Any, name: str | None = None) -> Any:
    """`input` without the dimensions of size 1 at `axes`."""
    return without_dimensions(input, axes or None, name)
