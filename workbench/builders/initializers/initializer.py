"""Initializers: the op of the startup program that fills a parameter (P-12 … P-14).

Also public as `workbench.nn.initializer`. An initializer is a description: `init(variable, block)` appends
one op to `block`, `init(tensor)` computes that op at once. Random ones fix their seed when they are applied, from the
startup program's `random_seed` (P-14); every op draws from a stream of its own unless `FLAGS_paddle_seed_semantics` is
set.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.op.record import find_op
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import DType
from workbench.framework.values.memory import MemoryFor, sized
from workbench.framework.values.spec import Shape, shape_text
from workbench.ops.random.distributions import GAUSSIAN_RANDOM, TRUNCATED_GAUSSIAN_RANDOM, UNIFORM_RANDOM
from workbench.ops.tensor.assign import ASSIGN_VALUE
from workbench.ops.tensor.creation import FILL_CONSTANT


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
            NoMemory: for values that are computed here.
        """
        if not isinstance(variable, Variable):
            variable.set_value(self.compute(tuple(variable.shape), variable.dtype))
            return None
        block = block if block is not None else variable.block
        what = "parameter" if variable.is_parameter else "variable"
        with MemoryFor(f"the initial values of {what} {variable.name!r}, {sized(variable.spec)}"):
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


def _number(owner: str, what: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidType(f"{owner} takes a number as {what}, got {value!r}")
    return value


def finite_number(owner: str, what: str, value: Any) -> float:
    if not math.isfinite(_number(owner, what, value)):
        raise InvalidArgument(f"{owner} takes a finite {what}, got {value}")
    return float(value)


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
        self.value = _number("Constant", "value", value)

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
        self.low, self.high = finite_number("Uniform", "low", low), finite_number("Uniform", "high", high)
        if self.low > self.high:
            raise InvalidArgument(f"Uniform takes low <= high, got low={low} and high={high}")

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return UNIFORM_RANDOM.type, {"min": self.low, "max": self.high}


class _Gaussian(Initializer):
    """A normal distribution; which part of it counts, a subclass says by its op."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        owner = type(self).__name__
        self.mean, self.std = finite_number(owner, "mean", mean), finite_number(owner, "std", std)
        if self.std < 0:
            raise InvalidArgument(f"{owner} takes a standard deviation of at least 0, got {self.std}")


class Normal(_Gaussian):
    """Normal with the given mean and standard deviation.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Normal(0.0, 0.02)))
        >>> y.shape
        (-1, 2)
    """

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return GAUSSIAN_RANDOM.type, {"mean": self.mean, "std": self.std}


class TruncatedNormal(_Gaussian):
    """Normal, cut off two (untruncated) standard deviations from the mean.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.TruncatedNormal(std=0.02)))
        >>> y.shape
        (-1, 2)
    """

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return TRUNCATED_GAUSSIAN_RANDOM.type, {"mean": self.mean, "std": self.std}


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
        with MemoryFor("a copy of", value):
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
