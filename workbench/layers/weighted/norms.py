"""Normalisation by statistics of each sample."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from workbench.builders.initializers.initializer import Constant, Normal
from workbench.builders.param_attr import ParamAttr
from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.layers.layer import Layer
from workbench.ops.arguments import int_list
from workbench.ops.math.products.spectral import spectral_norm
from workbench.ops.nn.group_norm import group_norm, instance_norm, local_response_norm
from workbench.ops.nn.norm import layer_norm


class LayerNorm(Layer):
    """Normalise the last dimensions to mean 0 and variance 1, then scale and shift.

    Args:
        normalized_shape: the last dimensions of the input, an int for one.
        epsilon: added to the variance.
        weight_attr, bias_attr: scale (1) and shift (0), one entry per normalised element; False leaves one out.

    Example:
        >>> layer = wb.nn.LayerNorm([3, 4])
        >>> list(layer(wb.rand([2, 3, 4])).shape)
        [2, 3, 4]
    """

    def __init__(
        self, normalized_shape: Any, epsilon: float = 1e-5, weight_attr: Any = None, bias_attr: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._normalized_shape, self._epsilon = int_list("LayerNorm's normalized_shape", normalized_shape), epsilon
        count = [math.prod(self._normalized_shape)]
        self.weight = self.create_parameter(count, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(count, bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`."""
        return layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        """Shape and epsilon."""
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Normalise every group of channels of every sample, then scale and shift channels; see `group_norm`.

    Args:
        num_groups: divides `num_channels`.
        num_channels: channels of the input.
        epsilon: added to the variance.
        weight_attr, bias_attr: scale (1) and shift (0), `[num_channels]`; False leaves one out.
        data_format: where the channels are.

    Example:
        >>> layer = wb.nn.GroupNorm(2, 4)
        >>> list(layer(wb.rand([2, 4, 3, 3])).shape)
        [2, 4, 3, 3]
    """

    def __init__(
        self, num_groups: int, num_channels: int, epsilon: float = 1e-5, weight_attr: Any = None, bias_attr: Any = None,
        data_format: str = "NCHW", name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._num_groups, self._num_channels, self._epsilon = num_groups, num_channels, epsilon
        self._data_format = data_format
        self.weight = self.create_parameter([num_channels], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`."""
        return group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self) -> str:
        """Groups, channels and epsilon."""
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class InstanceNormLayer(Layer):
    """Normalise every channel of every sample, then scale and shift; see `instance_norm`."""

    formats: ClassVar[tuple[str, ...]]

    def __init__(
        self, num_features: int, epsilon: float, momentum: float, weight_attr: Any, bias_attr: Any, data_format: str
    ) -> None:
        super().__init__()
        if (weight_attr is False) != (bias_attr is False):
            raise InvalidArgument("weight_attr and bias_attr of an InstanceNorm are both False, or neither is")
        self._num_features, self._epsilon, self._momentum = num_features, epsilon, momentum
        self._data_format = data_format
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`."""
        require_rank(self, input, *self.formats)
        return instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon, data_format=self._data_format)

    def extra_repr(self) -> str:
        """Channels and epsilon."""
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


def require_rank(layer: Any, x: Any, *formats: str) -> None:
    """Raise ShapeError unless an input has as many dimensions as one of the layouts a layer takes."""
    if len(x.shape) not in {len(layout) for layout in formats}:
        raise ShapeError(f"{type(layer).__name__} takes {' or '.join(formats)}", " or ".join(
            f"{rank} dimensions" for rank in sorted({len(layout) for layout in formats})
        ), shape_text(x.shape))  # fmt: skip


class InstanceNorm1D(InstanceNormLayer):
    """Normalise every channel of every sequence, then scale and shift; see `instance_norm`.

    Args:
        num_features: channels of the input, `[N, C, L]`.
        epsilon: added to the variance.
        momentum: accepted for Paddle's sake; there are no running statistics.
        weight_attr, bias_attr: scale (1) and shift (0), `[num_features]`; False leaves both out.
        data_format: "NCL" or "NLC".

    Example:
        >>> layer = wb.nn.InstanceNorm1D(2)
        >>> list(layer(wb.rand([3, 2, 4])).shape)
        [3, 2, 4]
    """

    formats = ("NCL",)

    def __init__(
        self, num_features: int, epsilon: float = 1e-5, momentum: float = 0.9, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCL", name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class InstanceNorm2D(InstanceNormLayer):
    """Normalise every channel of every image, then scale and shift. Args: as of `InstanceNorm1D`, for `[N, C, H, W]`.

    Example:
        >>> layer = wb.nn.InstanceNorm2D(2)
        >>> list(layer(wb.rand([3, 2, 4, 4])).shape)
        [3, 2, 4, 4]
    """

    formats = ("NCHW",)

    def __init__(
        self, num_features: int, epsilon: float = 1e-5, momentum: float = 0.9, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCHW", name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class InstanceNorm3D(InstanceNormLayer):
    """Normalise every channel of every volume, then scale and shift. Args: as of `InstanceNorm1D`.

    Example:
        >>> layer = wb.nn.InstanceNorm3D(2)
        >>> list(layer(wb.rand([3, 2, 4, 4, 4])).shape)
        [3, 2, 4, 4, 4]
    """

    formats = ("NCDHW",)

    def __init__(
        self, num_features: int, epsilon: float = 1e-5, momentum: float = 0.9, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCDHW", name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class LocalResponseNorm(Layer):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta; see `local_response_norm`.

    Args:
        size: how many channels.
        data_format: where the channels are.

    Example:
        >>> layer = wb.nn.LocalResponseNorm(3)
        >>> list(layer(wb.rand([1, 4, 3, 3])).shape)
        [1, 4, 3, 3]
    """

    def __init__(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k
        self.data_format, self.name = data_format, name

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`."""
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k, self.data_format)

    def extra_repr(self) -> str:
        """The options."""
        told = f"size={self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
        told += "" if self.data_format == "NCHW" else f", data_format={self.data_format}"
        return told if self.name is None else f"{told}, name={self.name}"


class SpectralNorm(Layer):
    """A weight over its largest singular value, which power iterations from two vectors estimate.

    Args:
        weight_shape: shape of the weight.
        dim: the dimension that counts as the rows of a matrix.
        power_iters: how many iterations; eps: keeps lengths above 0.
        dtype: of the two vectors.

    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.

    Example:
        >>> layer = wb.nn.SpectralNorm([2, 3], power_iters=20)
        >>> print(layer(wb.to_tensor([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0]])).numpy().round(2))
        [[1.  0.  0. ]
         [0.  0.5 0. ]]
    """

    def __init__(
        self, weight_shape: Any, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, dtype: Any = "float32"
    ) -> None:
        super().__init__(dtype=dtype)
        self._weight_shape, self._dim, self._power_iters, self._eps = list(weight_shape), dim, power_iters, eps
        if not math.prod(self._weight_shape) > 0:
            raise InvalidArgument(f"SpectralNorm takes a weight with elements, got the shape {self._weight_shape}")
        rows = self._weight_shape[dim]
        self.weight_u = self._vector(rows)
        self.weight_v = self._vector(math.prod(self._weight_shape) // rows)

    def _vector(self, size: int) -> Any:
        return self.create_parameter([size], ParamAttr(initializer=Normal(0.0, 1.0), trainable=False))

    def forward(self, x: Any) -> Any:
        """A tensor of the shape of `x`, the weight."""
        return spectral_norm(x, self.weight_u, self.weight_v, self._dim, self._power_iters, self._eps)[0]
