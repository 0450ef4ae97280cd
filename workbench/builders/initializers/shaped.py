"""Initializers whose values depend on the whole shape: orthogonal matrices, filters that pass or enlarge images.

Also public as `workbench.nn.initializer`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.builders.initializers.initializer import Initializer
from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.dtype import DType
from workbench.framework.values.random import RandomStream
from workbench.framework.values.spec import Shape, shape_text
from workbench.ops.tensor.assign import ASSIGN_VALUE


class ShapedInitializer(Initializer):
    """An initializer that computes its values when it is applied."""

    def values(self, shape: Shape) -> np.ndarray:
        """The values of a parameter of that shape, in float64."""
        raise NotImplementedError

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return ASSIGN_VALUE.type, {"values": self.values(tuple(shape)).astype(dtype.numpy)}


class Orthogonal(ShapedInitializer):
    """Rows, or columns where there are more rows, of length `gain` that are orthogonal to each other.

    The first dimension counts as rows, all others as columns.

    Raises:
        InvalidArgument: a parameter of fewer than two dimensions.

    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning …", 2014.

    Example:
        >>> w = wb.create_parameter([2, 3], "float32", attr=wb.nn.initializer.Orthogonal())
        >>> print(abs(wb.matmul(w, w, transpose_y=True).numpy()).round(3))
        [[1. 0.]
         [0. 1.]]
    """

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        self.gain = gain

    def values(self, shape: Shape) -> np.ndarray:
        """See the class."""
        if len(shape) < 2:
            raise ShapeError("Orthogonal fills matrices and larger", "at least 2 dimensions", shape_text(shape))
        rows, columns = shape[0], math.prod(shape[1:])
        tall = (max(rows, columns), min(rows, columns))
        q, r = np.linalg.qr(RandomStream.dynamic().normal(np, tall, np.float64))
        q *= np.sign(np.diag(r))  # the signs QR chooses would not be random
        return (self.gain * (q if rows >= columns else q.T)).reshape(shape)


class Dirac(ShapedInitializer):
    """Filters of a convolution that pass as many input channels as they can.

    Args:
        groups: parts of the filters that pass the same channels.

    Raises:
        InvalidArgument: a parameter that is no filter, or filters that are no multiple of `groups`.

    Example:
        >>> layer = wb.nn.Conv1D(2, 2, 3, padding=1, weight_attr=wb.nn.initializer.Dirac())
        >>> x = wb.rand([1, 2, 5])
        >>> bool((layer(x).numpy() == x.numpy()).all())
        True
    """

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise InvalidArgument(f"Dirac takes an int above 0 as groups, got {groups!r}")
        self.groups = groups

    def values(self, shape: Shape) -> np.ndarray:
        """See the class."""
        if not 3 <= len(shape) <= 5:
            raise ShapeError("Dirac fills filters of convolutions", "3 to 5 dimensions", shape_text(shape))
        if shape[0] % self.groups:
            raise InvalidArgument(f"Dirac: {shape[0]} filters cannot be divided into {self.groups} groups")
        weights, each = np.zeros(shape), shape[0] // self.groups
        middle = tuple(size // 2 for size in shape[2:])
        for group in range(self.groups):
            for channel in range(min(each, shape[1])):
                weights[(group * each + channel, channel, *middle)] = 1.0
        return weights


class BilinearInitializer(ShapedInitializer):
    """Filters with which a transposed convolution enlarges images; public as `Bilinear`.

    These are Paddle's numbers: its row of entry k is k / size, with the fraction, so that a row is slanted, and the
    images are close to those of bilinear interpolation, not equal to them.

    Raises:
        InvalidArgument: a parameter that is no square filter of images.

    Example:
        >>> w = wb.create_parameter([1, 1, 4, 4], "float32", attr=wb.nn.initializer.Bilinear())
        >>> print(w.numpy()[0, 0, 1])
        [0.1875  0.65625 0.75    0.21875]
    """

    def values(self, shape: Shape) -> np.ndarray:
        """See the class."""
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ShapeError("Bilinear fills square filters of images", "[n, c, k, k]", shape_text(shape))
        size = shape[2]
        number = np.arange(size * size)
        weights = _hat(number % size, size) * _hat(number / size % size, size)
        return np.broadcast_to(weights.reshape(size, size), shape)


def _hat(at: np.ndarray, size: int) -> np.ndarray:
    """Weights that fall off on both sides of the middle."""
    half = math.ceil(size / 2)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    weights: np.ndarray = 1 - abs(at / half - centre)
    return weights
