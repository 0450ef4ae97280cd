"""`fluid.layers`: new tensors, constant and random ones, with the arguments and defaults of Paddle 1.x."""

from __future__ import annotations

from typing import Any

from workbench.errors import Unimplemented
from workbench.framework.values.dtype import as_dtype
from workbench.ops.arguments import int_list, one_int
from workbench.ops.random.batch_like import GAUSSIAN_BATCH_LIKE, UNIFORM_BATCH_LIKE
from workbench.ops.random.distributions import gaussian, uniform
from workbench.ops.tensor import arranged
from workbench.ops.tensor import assign as copies
from workbench.ops.tensor import creation as ops
from workbench.ops.tensor.batch_like import FILL_BATCH_LIKE
from workbench.ops.tensor.tile import expand


def fill_constant(shape: Any, dtype: Any, value: float, force_cpu: bool = False, out: Any = None) -> Any:
    """A variable full of one value, or that value for `out`.

    Raises:
        InvalidArgument: a negative dimension, a value that the dtype does not hold, an `out` of another shape.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.fill_constant([2, 3], "float32", 0.5).shape
        (2, 3)
    """
    if out is None:
        return ops.full(shape, value, dtype)
    attrs = {"shape": ops.as_shape("fill_constant", shape), "value": value, "dtype": as_dtype(dtype).name}
    return out.overwrite(ops.FILL_CONSTANT, (), attrs)


def zeros(shape: Any, dtype: Any, force_cpu: bool = False) -> Any:
    """A variable of zeros; `force_cpu` is accepted for Paddle's sake."""
    return ops.full(shape, 0, dtype)


def ones(shape: Any, dtype: Any, force_cpu: bool = False) -> Any:
    """A variable of ones; `force_cpu` is accepted for Paddle's sake."""
    return ops.full(shape, 1, dtype)


def zeros_like(x: Any, out: Any = None) -> Any:
    """Zeros in the shape and dtype of `x`, known or not; written into `out` if given."""
    return _filled_like(x, 0.0, out)


def ones_like(x: Any, out: Any = None) -> Any:
    """Ones in the shape and dtype of `x`, known or not; written into `out` if given."""
    return _filled_like(x, 1.0, out)


def _filled_like(x: Any, value: float, out: Any) -> Any:
    if out is None:
        return ops.full_like(x, value)
    return out.overwrite(ops.FILL_ANY_LIKE, (x,), {"value": value})


def assign(input: Any, output: Any = None) -> Any:
    """A copy of a variable or of an array, written into `output` if given; gradients flow through copies of variables.

    Raises:
        InvalidArgument: an `output` of another shape or dtype. InvalidType: what is no variable and no numbers.
    """
    return copies.assign(input, output)


def range(start: Any, end: Any, step: Any, dtype: Any) -> Any:
    """start, start + step, … below `end`, all numbers."""
    return ops.arange(start, end, step, dtype)


def linspace(start: Any, stop: Any, num: int, dtype: Any) -> Any:
    """`num` numbers at equal distances from `start` to `stop`."""
    return ops.linspace(start, stop, num, dtype)


def diag(diagonal: Any) -> Any:
    """A matrix with `diagonal` `[N]`, a variable or an array, on its diagonal and zeros elsewhere."""
    return arranged.diag(diagonal if hasattr(diagonal, "block") else copies.assign(diagonal))


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = "float32") -> Any:
    """Ones on the diagonal of `[num_rows, num_columns]`, repeated for a `batch_shape` in front."""
    one = ops.eye(num_rows, num_columns, dtype)
    return one if batch_shape is None else expand(one, [*int_list("eye's batch_shape", batch_shape), *one.shape])


def full_like(
    input: Any,
    fill_value: float,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Any:
    """One number in the shape of `input`; `device` and `stop_gradient` are accepted for Paddle's sake.

    Raises:
        Unimplemented: `out`.
    """
    if out is not None:
        raise Unimplemented("full_like does not write into out; use assign(result, output=...)")
    return ops.full_like(input, fill_value, dtype, name)


# As many rows as a batch has


def _where(shape: Any, input_dim_idx: int, output_dim_idx: int, dtype: Any) -> dict[str, Any]:
    return {
        "shape": tuple(int_list("the shape", shape)),
        "input_dim_idx": one_int("input_dim_idx", input_dim_idx),
        "output_dim_idx": one_int("output_dim_idx", output_dim_idx),
        "dtype": as_dtype(dtype).name,
    }


def fill_constant_batch_size_like(
    input: Any,
    shape: Any,
    dtype: Any,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Any:
    """A variable full of one value, of which dimension `output_dim_idx` has the size of `input_dim_idx` in `input`.

    Args:
        input: of any shape; its values are not read.
        shape: of the result; the entry at `output_dim_idx` does not count.

    Raises:
        InvalidArgument: no such dimension, a value that the dtype does not hold.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 3])
        >>> fluid.layers.fill_constant_batch_size_like(x, shape=[1, 5], dtype="float32", value=0.0).shape
        (-1, 5)
    """
    return FILL_BATCH_LIKE(input, value=value, **_where(shape, input_dim_idx, output_dim_idx, dtype))


def uniform_random_batch_size_like(
    input: Any,
    shape: Any,
    dtype: Any = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Any:
    """Uniform random numbers in [min, max); shape as for `fill_constant_batch_size_like`, seed 0: the program's."""
    where = _where(shape, input_dim_idx, output_dim_idx, dtype)
    return UNIFORM_BATCH_LIKE(input, min=float(min), max=float(max), seed=one_int("seed", seed), **where)


def gaussian_random_batch_size_like(
    input: Any,
    shape: Any,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
) -> Any:
    """Normal random numbers; shape as for `fill_constant_batch_size_like`, seed 0 that of the program."""
    where = _where(shape, input_dim_idx, output_dim_idx, dtype)
    return GAUSSIAN_BATCH_LIKE(input, mean=float(mean), std=float(std), seed=one_int("seed", seed), **where)


def uniform_random(shape: Any, dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0) -> Any:
    """Uniform random numbers in [min, max), in a known shape; seed 0 is that of the program."""
    return uniform(shape, dtype, min, max, seed)


def gaussian_random(shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32") -> Any:
    """Normal random numbers, in a known shape; seed 0 is that of the program."""
    return gaussian(shape, mean, std, seed, dtype)
