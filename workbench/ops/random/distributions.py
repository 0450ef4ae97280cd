"""Random tensors. Every op draws from the stream it is handed (see `framework.values.random`).

Attributes of every random op: `seed` (0: that of the program), `stream` (the op's number among the random
ops of its program, given by the recorder), `startup` (1: an initialiser, keyed without the step).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import DtypeError, InvalidArgument, InvalidType, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import Infix, is_number
from workbench.framework.values.default_dtype import default_dtype
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.spec import Spec, broadcast_shapes, require_float
from workbench.ops.arguments import one_int
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.creation import as_shape

OFFERED = {"workbench": "bernoulli normal rand randint randn randperm standard_normal uniform"}

KEYS = {"seed": 0, "stream": 0, "startup": 0}


def _infer_float(shape: Sequence[int], dtype: str, **attrs: Any) -> Spec:
    spec = Spec(tuple(shape), as_dtype(dtype))
    require_float("a continuous random tensor", spec)
    if any(d < 0 for d in shape):
        raise ShapeError("the shape of a new tensor is known", "dimensions >= 0", list(shape))
    return spec


# Uniform


def _infer_uniform(min: float, max: float, **attrs: Any) -> Spec:
    if min > max:
        raise ShapeError("uniform numbers lie in [min, max)", f"max >= {min}", max)
    return _infer_float(**attrs)


@op(
    "uniform_random",
    "-> Out",
    attrs={"shape": (), "dtype": "float32", "min": -1.0, "max": 1.0, **KEYS},
    infer=_infer_uniform,
    needs="rng",
    layer="uniform",
)
def UNIFORM_RANDOM(xp: Any, rng: Any, shape: Sequence[int], dtype: str, min: float, max: float, **keys: Any) -> Any:
    """Uniform numbers in [min, max)."""
    kind = as_dtype(dtype).numpy
    numbers = rng.uniform(xp, tuple(shape), kind)
    if (min, max) == (0, 1):
        return numbers
    below = xp.nextafter(kind.type(max), kind.type(min))  # rounding must not reach max
    return xp.minimum((numbers * (max - min) + min).astype(kind, copy=False), below)


def uniform(
    shape: Any, dtype: Any = None, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Tensor:
    """Uniform random numbers in [min, max).

    Args:
        shape: an int or a sequence of ints >= 0.
        dtype: a floating dtype, that of `get_default_dtype` by default.
        min, max: numbers.
        seed: 0 follows the seed of the program or the process.

    Raises:
        InvalidType: the dtype is not floating, the shape holds a tensor. InvalidArgument: min > max.

    Example:
        >>> x = wb.uniform([100], min=0.0, max=1.0).numpy()
        >>> bool((x >= 0).all() and (x < 1).all())
        True
    """
    dims, kind = as_shape("uniform", shape), as_dtype(dtype or default_dtype()).name
    low, high = _number("min of uniform", min), _number("max of uniform", max)
    return UNIFORM_RANDOM(shape=dims, dtype=kind, min=low, max=high, seed=one_int("seed", seed), name=name)


def _infer_uniform_like(x: Spec, min: float, max: float, **keys: Any) -> Spec:
    require_float("uniform_like", x)
    if min > max:
        raise ShapeError("uniform numbers lie in [min, max)", f"max >= {min}", max)
    return x


@op(
    "uniform_random_like",
    "X -> Out",
    attrs={"min": 0.0, "max": 1.0, "is_test": False, **KEYS},
    like_x="Out",
    infer=_infer_uniform_like,
    needs="rng",
)
def UNIFORM_LIKE(xp: Any, x: Any, rng: Any, min: float, max: float, is_test: bool, **keys: Any) -> Any:
    """Uniform numbers in [min, max) in the shape and dtype of `x`; their mean, in a test program."""
    if is_test:
        return xp.full(x.shape, (min + max) / 2, x.dtype)
    return (rng.uniform(xp, x.shape, x.dtype) * (max - min) + min).astype(x.dtype)


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Uniform random numbers in [0, 1). Args and Raises: as for `uniform`.

    Example:
        >>> wb.rand([2, 3]).shape
        [2, 3]
    """
    return uniform(shape, dtype, 0.0, 1.0, name=name)


def _number(what: str, value: Any) -> float:
    if not is_number(value):
        raise InvalidType(f"{what} is a number, got {value!r}")
    return float(value)


# Normal

NORMAL = {"shape": (), "dtype": "float32", "mean": 0.0, "std": 1.0, **KEYS}


@op("gaussian_random", "-> Out", attrs=NORMAL, infer=_infer_float, needs="rng", layer="gaussian")
def GAUSSIAN_RANDOM(xp: Any, rng: Any, shape: Sequence[int], dtype: str, mean: float, std: float, **keys: Any) -> Any:
    """Normal numbers."""
    return rng.normal(xp, tuple(shape), as_dtype(dtype).numpy) * std + mean


@op("truncated_gaussian_random", "-> Out", attrs=NORMAL, infer=_infer_float, needs="rng")
def TRUNCATED_GAUSSIAN_RANDOM(
    xp: Any, rng: Any, shape: Sequence[int], dtype: str, mean: float, std: float, **keys: Any
) -> Any:
    """Normal numbers within two standard deviations of the mean."""
    return rng.truncated_normal(xp, tuple(shape), as_dtype(dtype).numpy) * std + mean


def gaussian(
    shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = None, name: str | None = None
) -> Tensor:
    """Normal random numbers.

    Args:
        shape: an int or a sequence of ints >= 0.
        mean, std: numbers.
        seed: 0 follows the seed of the program or the process.
        dtype: a floating dtype, that of `get_default_dtype` by default.

    Raises:
        InvalidType: the dtype is not floating, the shape holds a tensor.
    """
    dims, kind = as_shape("gaussian", shape), as_dtype(dtype or default_dtype()).name
    mean, std = _number("mean", mean), _number("std", std)
    return GAUSSIAN_RANDOM(shape=dims, dtype=kind, mean=mean, std=std, seed=one_int("seed", seed), name=name)


def standard_normal(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normal random numbers with mean 0 and standard deviation 1. Args and Raises: as for `gaussian`.

    Example:
        >>> wb.standard_normal([2, 3]).shape
        [2, 3]
    """
    return gaussian(shape, dtype=dtype, name=name)


randn = standard_normal


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Tensor:
    """Normal random numbers; mean and std may be tensors.

    Args:
        mean, std: numbers, or floating tensors of one shape (known when the function is called).
        shape: of the result if both are numbers, `[1]` by default.

    Returns:
        float32, or the dtype and shape of the tensor given.

    Raises:
        InvalidType: an argument is neither number nor tensor.
        InvalidArgument: `shape` together with a tensor, or a tensor with an unknown dimension.

    Example:
        >>> wb.normal(mean=1.0, std=0.5, shape=[2, 3]).shape
        [2, 3]
    """
    given = [v for v in (mean, std) if isinstance(v, Infix)]
    if not given:
        return gaussian([1] if shape is None else shape, mean, std, name=name)
    if shape is not None:
        raise InvalidArgument("normal takes its shape from mean and std when they are tensors; leave shape out")
    dims = broadcast_shapes(*(v.shape for v in given))
    return gaussian(dims, dtype=given[0].dtype, name=name) * std + mean


# Integers


def _infer_integers(shape: Sequence[int], low: int, high: int, dtype: str, **keys: Any) -> Spec:
    spec = Spec(tuple(shape), as_dtype(dtype))
    if not spec.dtype.is_integer:
        raise DtypeError("random integers have an integer dtype", "int32 or int64", dtype)
    if low >= high:
        raise ShapeError("random integers lie in [low, high)", f"high > {low}", high)
    _require_range(spec, low, high)
    return spec


def _require_range(spec: Spec, low: int, high: int) -> None:
    sign = spec.dtype.kind == "int"
    bits = 8 * spec.dtype.itemsize - sign
    smallest, largest = -(1 << bits) if sign else 0, (1 << bits) - 1
    if low < smallest or high - 1 > largest or high - low > 1 << 63:
        raise ShapeError(f"{spec.dtype} does not hold the range", f"within [{smallest}, {largest}]", [low, high - 1])


@op(
    "randint",
    "-> Out",
    attrs={"shape": (), "low": 0, "high": 1, "dtype": "int64", **KEYS},
    infer=_infer_integers,
    needs="rng",
)
def RANDINT(xp: Any, rng: Any, shape: Sequence[int], low: int, high: int, dtype: str, **keys: Any) -> Any:
    """Integers in [low, high), each as likely as the others."""
    return rng.integers(xp, low, high, tuple(shape), as_dtype(dtype).numpy)


def randint(
    low: int = 0, high: int | None = None, shape: Any = (1,), dtype: Any = None, name: str | None = None
) -> Tensor:
    """Random integers in [low, high), each as likely as the others.

    Args:
        low, high: ints; with `high` None the range is [0, low).
        shape: an int or a sequence of ints >= 0.
        dtype: an integer dtype, int64 by default.

    Raises:
        InvalidArgument: the range is empty or does not fit the dtype. InvalidType: the dtype is no integer.

    Example:
        >>> wb.randint(0, 10, [2, 3]).dtype
        paddle.int64
    """
    if high is None:
        low, high = 0, low
    low, high = one_int("low of randint", low), one_int("high of randint", high)
    dims, kind = as_shape("randint", shape), as_dtype(dtype or int64).name
    return RANDINT(shape=dims, low=low, high=high, dtype=kind, name=name)


@op(
    "randperm",
    "-> Out",
    attrs={"n": 1, "dtype": "int64", **KEYS},
    infer=lambda n, dtype, **keys: Spec((n,), as_dtype(dtype)),
    needs="rng",
)
def RANDPERM(xp: Any, rng: Any, n: int, dtype: str, **keys: Any) -> Any:
    """The numbers 0 ... n - 1 in random order."""
    order = xp.argsort(xp.asarray(rng.words(n)), kind="stable")
    return order.astype(as_dtype(dtype).numpy)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """The numbers 0 ... n - 1 in random order, shape `[n]`.

    Raises:
        InvalidArgument: n < 1. InvalidType: n is no int.

    Example:
        >>> sorted(wb.randperm(5).numpy().tolist())
        [0, 1, 2, 3, 4]
    """
    n = one_int("n of randperm", n)
    if n < 1:
        raise InvalidArgument(f"randperm shuffles at least one number, got n={n}")
    return RANDPERM(n=n, dtype=as_dtype(dtype).name, name=name)


def _infer_bernoulli(x: Spec, **keys: Any) -> Spec:
    require_float("bernoulli", x)
    return x


@op("bernoulli", "X -> Out", attrs=KEYS, infer=_infer_bernoulli, needs="rng")
def BERNOULLI(xp: Any, x: Any, rng: Any, **keys: Any) -> Any:
    """1 with probability x, otherwise 0."""
    return (rng.uniform(xp, x.shape, xp.float64) < x).astype(x.dtype)


def bernoulli(x: Tensor, name: str | None = None) -> Tensor:
    """1 with probability `x`, otherwise 0, element by element.

    Args:
        x: floating tensor of probabilities in [0, 1]. It gets no gradient.

    Returns:
        zeros and ones in the shape and dtype of `x`.

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> sorted(set(wb.bernoulli(wb.full([100], 0.5)).numpy().tolist()))
        [0.0, 1.0]
    """
    return BERNOULLI(x, name=name)
