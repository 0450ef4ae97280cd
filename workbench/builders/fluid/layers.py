"""`fluid.layers`: layers with the argument names, orders and defaults of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.data import data as declare
from workbench.builders.nn.channelwise import group_norm as groups_normalized
from workbench.builders.nn.dense import fc as dense
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.record import find_op
from workbench.framework.program.variable import Variable
from workbench.ops.loss.softmax import softmax as soft_maximum
from workbench.ops.math.arithmetic import scale as scaled
from workbench.ops.math.products.matmul import matmul as product
from workbench.ops.random.dropout import dropout as dropped


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


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-5,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalise every group of channels of every sample, as `static.nn.group_norm`.

    Args:
        param_attr, bias_attr: scale and shift of channels; None leaves them out, as in 1.x.
    """
    return groups_normalized(input, groups, epsilon, param_attr or False, bias_attr or False, act, data_layout, name)


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
