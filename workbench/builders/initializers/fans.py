"""Initializers whose spread follows from how many inputs and outputs a parameter has (P-12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench.builders.initializers.initializer import Initializer, finite_number
from workbench.errors import InvalidArgument, did_you_mean
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import Shape, size_of
from workbench.ops.random.distributions import GAUSSIAN_RANDOM, UNIFORM_RANDOM


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


class _Fans(Initializer):
    """Initializers whose spread depends on the fans; a fan given as None is taken from the shape."""

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:
        for what, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
            if fan is not None and finite_number(type(self).__name__, what, fan) <= 0:
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

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return _normal(math.sqrt(2.0 / max(sum(self.spread(shape)), 1)))


class _Kaiming(_Fans):
    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
        name: str | None = None,
    ) -> None:
        super().__init__(fan_in)
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

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return _normal(self.std(shape))


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
        slope = 0.01 if param is None else finite_number("calculate_gain", "param", param)
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in _GAINS:
        known = [*_GAINS, "leaky_relu"]
        raise InvalidArgument(
            f"nonlinearity {nonlinearity!r} has no gain; known are {', '.join(known)}."
            f"{did_you_mean(str(nonlinearity), known)}"
        )
    return _GAINS[nonlinearity]
