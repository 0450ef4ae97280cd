"""Initializers: the op of the startup program that fills a parameter (P-12 … P-14).

Also public as `workbench.nn.initializer`. An initializer is a description: `init(variable, block)` appends
one op to `block`, `init(tensor)` computes that op at once. Random ones fix their seed when they are applied, from the
startup program's `random_seed` (P-14); every op draws from a stream of its own unless `FLAGS_paddle_seed_semantics` is
set.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, did_you_mean
from workbench.framework.op.record import find_op
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import Shape, shape_text, size_of
from workbench.ops.random.distributions import GAUSSIAN_RANDOM, TRUNCATED_GAUSSIAN_RANDOM, UNIFORM_RANDOM
from workbench.ops.tensor.assign import ASSIGN_VALUE
from workbench.ops.tensor.creation import FILL_CONSTANT


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """(fan_in, fan_out) of a parameter (P-12).

    A matrix has its two sides, a vector its length twice; a filter `[out, in, *window]` counts the window in.
    """
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    window = size_of(shape[2:])
    return shape[1] * window, shape[0] * window


class Initializer:
    """Base class. A subclass says which op fills a value of a given shape and dtype.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Constant(0.5)))
        >>> y.shape
        (-1, 2)
    """

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        """Type and attributes of the op (besides shape, dtype and seed)."""
        raise NotImplementedError

    def __call__(self, variable: Variable, block: Block | None = None) -> Operator | None:
        """Append the op that fills `variable` to `block` (default: the variable's own); fill a tensor at once.

        Raises:
            InvalidArgument, InvalidType: the initializer does not suit the variable's shape or dtype.
        """
        if not isinstance(variable, Variable):
            variable.set_value(self.compute(tuple(variable.shape), variable.dtype))
            return None
        block = block if block is not None else variable.block
        type, attrs = self.op(variable.shape, variable.dtype)
        record = find_op(type)
        attrs = {"shape": variable.shape, "dtype": variable.dtype.name, **attrs}
        if "rng" in record.needs:
            attrs["seed"] = block.program.random_seed
            attrs["stream"] = block.program.next_stream()
        if "startup" in record.attrs:
            attrs["startup"] = 1
        return block.append_op(type, outputs={"Out": variable}, attrs=attrs)

    def compute(self, shape: Shape, dtype: DType) -> Any:
        """A new tensor of dynamic mode with this value.

        Raises:
            InvalidArgument, InvalidType: the initializer does not suit shape or dtype.
        """
        type, attrs = self.op(shape, dtype)
        return find_op(type)(shape=shape, dtype=dtype.name, **attrs)

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


def _number(owner: str, what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidType(f"{owner} takes a number as {what}, got {value!r}")
    if not math.isfinite(value):
        raise InvalidArgument(f"{owner} takes a finite {what}, got {value}")
    return float(value)


def _deviation(owner: str, value: Any) -> float:
    std = _number(owner, "std", value)
    if std < 0:
        raise InvalidArgument(f"{owner} takes a standard deviation of at least 0, got {std}")
    return std


class Constant(Initializer):
    """Every element is `value`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Constant(0.5)))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, value: float = 0.0) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise InvalidType(f"Constant takes a number as value, got {value!r}")
        self.value = value

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return FILL_CONSTANT.type, {"value": float(self.value) if dtype.is_float else int(self.value)}


class Uniform(Initializer):
    """Uniform on [low, high).

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Uniform(-0.1, 0.1)))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        self.low, self.high = _number("Uniform", "low", low), _number("Uniform", "high", high)
        if self.low > self.high:
            raise InvalidArgument(f"Uniform takes low <= high, got low={low} and high={high}")

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return UNIFORM_RANDOM.type, {"min": self.low, "max": self.high}


class Normal(Initializer):
    """Normal with the given mean and standard deviation.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Normal(0.0, 0.02)))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        self.mean, self.std = _number("Normal", "mean", mean), _deviation("Normal", std)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return GAUSSIAN_RANDOM.type, {"mean": self.mean, "std": self.std}


class TruncatedNormal(Initializer):
    """Normal, cut off two (untruncated) standard deviations from the mean.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.TruncatedNormal(std=0.02)))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        self.mean, self.std = _number("TruncatedNormal", "mean", mean), _deviation("TruncatedNormal", std)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return TRUNCATED_GAUSSIAN_RANDOM.type, {"mean": self.mean, "std": self.std}


class _Fans(Initializer):
    """Initializers whose spread depends on the fans; a fan given as None is taken from the shape."""

    def __init__(self, fan_in: float | None, fan_out: float | None) -> None:
        for what, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
            if fan is not None and _number(type(self).__name__, what, fan) <= 0:
                raise InvalidArgument(f"{type(self).__name__} takes a {what} above 0, got {fan}")
        self.fan_in, self.fan_out = fan_in, fan_out

    def spread(self, shape: Shape) -> tuple[float, float]:
        """The fans in force for a parameter of `shape`."""
        fan_in, fan_out = fans(shape)
        return (
            fan_in if self.fan_in is None else self.fan_in,
            fan_out if self.fan_out is None else self.fan_out,
        )


def _uniform(limit: float) -> tuple[str, dict[str, Any]]:
    return UNIFORM_RANDOM.type, {"min": -limit, "max": limit}


def _normal(std: float) -> tuple[str, dict[str, Any]]:
    return GAUSSIAN_RANDOM.type, {"mean": 0.0, "std": std}


class XavierUniform(_Fans):
    """Uniform with limit sqrt(6 / (fan_in + fan_out)); the default of weights.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    AISTATS 2010.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.XavierUniform()))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:
        super().__init__(fan_in, fan_out)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return _uniform(math.sqrt(6.0 / max(sum(self.spread(shape)), 1)))


class XavierNormal(_Fans):
    """Normal with standard deviation sqrt(2 / (fan_in + fan_out)). Source: see `XavierUniform`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.XavierNormal()))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:
        super().__init__(fan_in, fan_out)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return _normal(math.sqrt(2.0 / max(sum(self.spread(shape)), 1)))


class _Kaiming(_Fans):
    def __init__(self, fan_in: float | None, negative_slope: float, nonlinearity: str) -> None:
        super().__init__(fan_in, None)
        self.negative_slope, self.nonlinearity = negative_slope, nonlinearity
        self.gain = calculate_gain(nonlinearity, negative_slope)

    def std(self, shape: Shape) -> float:
        """gain / sqrt(fan_in)."""
        return self.gain / math.sqrt(max(self.spread(shape)[0], 1))


class KaimingUniform(_Kaiming):
    """Uniform with limit gain * sqrt(3 / fan_in); for ReLU that is sqrt(6 / fan_in).

    Source: He et al., "Delving Deep into Rectifiers", 2015.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.KaimingUniform()))
        >>> y.shape
        (-1, 2)
    """

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
        name: str | None = None,
    ) -> None:
        super().__init__(fan_in, negative_slope, nonlinearity)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return _uniform(math.sqrt(3.0) * self.std(shape))


class KaimingNormal(_Kaiming):
    """Normal with standard deviation gain / sqrt(fan_in). Source: see `KaimingUniform`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.KaimingNormal()))
        >>> y.shape
        (-1, 2)
    """

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
        name: str | None = None,
    ) -> None:
        super().__init__(fan_in, negative_slope, nonlinearity)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return _normal(self.std(shape))


class Assign(Initializer):
    """A copy of `value`: an array or nested lists of the parameter's shape.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Assign(np.eye(4, 2))))
        >>> y.shape
        (-1, 2)
    """

    def __init__(self, value: Any, name: str | None = None) -> None:
        if isinstance(value, Variable):
            raise InvalidType(f"Assign takes an array or nested lists, got {value!r}, which has no value of its own")
        self.value = np.array(value)
        if self.value.dtype.kind not in "fiub":
            raise InvalidType(f"Assign takes numbers, got {value!r}")

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        if self.value.shape != tuple(shape):
            raise InvalidArgument(
                "Assign has a value of another shape than the parameter\n"
                f"  expected: {shape_text(shape)}\n  got:      {shape_text(self.value.shape)}"
            )
        return ASSIGN_VALUE.type, {"values": self.value.astype(dtype.numpy)}

    def compute(self, shape: Shape, dtype: DType) -> Any:
        """A new tensor with this value, and with its shape, as in Paddle: that of the parameter gives way.

        A warning says so.
        """
        if self.value.shape != tuple(shape):
            warnings.warn(
                f"Assign makes a parameter of the value's shape {shape_text(self.value.shape)}, not of the shape "
                f"{shape_text(shape)} that was asked for",
                stacklevel=2,
            )
        return super().compute(self.value.shape, dtype)


_GAINS = {
    "sigmoid": 1.0,
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv1d_transpose": 1.0,
    "conv2d_transpose": 1.0,
    "conv3d_transpose": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the spread of activations through `nonlinearity`.

    Args:
        nonlinearity: a name of the table above or `"leaky_relu"`.
        param: the negative slope of `"leaky_relu"`, 0.01 if None.

    Raises:
        InvalidArgument: an unknown name.

    Example:
        >>> round(wb.nn.initializer.calculate_gain("relu"), 4)
        1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else _number("calculate_gain", "param", param)
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in _GAINS:
        known = [*_GAINS, "leaky_relu"]
        raise InvalidArgument(
            f"nonlinearity {nonlinearity!r} has no gain; known are {', '.join(known)}."
            f"{did_you_mean(str(nonlinearity), known)}"
        )
    return _GAINS[nonlinearity]


_global: dict[str, Initializer | None] = {"weight": None, "bias": None}


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Replace the default initializers of layers built from now on; None gives a layer's own default back.

    An initializer given in a `ParamAttr` still wins.

    Raises:
        InvalidType: an argument is no initializer.

    Example:
        >>> wb.enable_static()
        >>> wb.nn.initializer.set_global_initializer(wb.nn.initializer.Normal(std=0.02))
        >>> wb.nn.initializer.set_global_initializer(None)
    """
    for what, value in (("weight_init", weight_init), ("bias_init", bias_init)):
        if not (value is None or isinstance(value, Initializer)):
            raise InvalidType(f"set_global_initializer takes an initializer or None as {what}, got {value!r}")
    _global.update(weight=weight_init, bias=bias_init)


def default_initializer(is_bias: bool, layer_default: Initializer | None = None) -> Initializer:
    """What fills a parameter that names no initializer: the global one, the layer's, or P-12's."""
    chosen = _global["bias" if is_bias else "weight"] or layer_default
    if chosen is not None:
        return chosen
    return Constant(0.0) if is_bias else XavierUniform()
