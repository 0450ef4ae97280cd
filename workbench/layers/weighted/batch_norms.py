"""Normalisation by statistics of a batch, and in use by running ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import activation_op
from workbench.builders.param_attr import ParamAttr
from workbench.dygraph.autograd.modes import no_grad
from workbench.errors import InvalidArgument
from workbench.framework.notice import tell_without_effect
from workbench.framework.program.guard import in_static_mode
from workbench.layers.layer import Layer
from workbench.layers.weighted.norms import require_rank
from workbench.layers.weighted.process_sums import process_sum
from workbench.ops.math.unary import rsqrt
from workbench.ops.nn.norm import DATA_FORMATS, batch_norm
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full

HALF = ("float16", "bfloat16")


class BatchNormLayer(Layer):
    """Normalise every channel over the batch, then scale and shift; see `batch_norm`.

    In training the batch's mean and biased variance are used and the running ones (`_mean`, `_variance`) follow,
    `running = momentum * running + (1 - momentum) * batch`; after `eval()` the running ones are used.
    """

    formats: ClassVar[tuple[str, ...]]

    def __init__(
        self, num_features: int, momentum: float, epsilon: float, weight_attr: Any, bias_attr: Any, data_format: str,
        use_global_stats: bool | None, name: str | None,
    ) -> None:  # fmt: skip
        super().__init__()
        if data_format not in self.formats:
            kind = type(self).__name__
            raise InvalidArgument(f"{kind} takes {', '.join(self.formats)} as data_format, got {data_format!r}")
        self._num_features, self._momentum, self._epsilon = num_features, momentum, epsilon
        self._data_format, self._use_global_stats, self._name = data_format, use_global_stats, name
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)
        self._mean, self._variance = running(self, num_features, 0.0), running(self, num_features, 1.0)

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`."""
        require_rank(self, input, *self.formats)
        return batch_norm(
            input, self._mean, self._variance, self.weight, self.bias, self.training, self._momentum, self._epsilon,
            self._data_format, self._use_global_stats,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Channels and options."""
        told = f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"
        told += "" if self._data_format == "NCHW" else f", data_format={self._data_format}"
        return told if self._name is None else f"{told}, name={self._name}"


def running(layer: Layer, count: int, value: float, name: str | None = None) -> Any:
    """A running statistic: a parameter that is not trained."""
    return layer.create_parameter([count], ParamAttr(name=name, initializer=Constant(value), trainable=False))


class BatchNorm1D(BatchNormLayer):
    """Normalise every channel of sequences or rows over the batch, then scale and shift; see `batch_norm`.

    Args:
        num_features: channels of the input, `[N, C]` or `[N, C, L]`.
        momentum: how much of the running statistics stays at a step.
        epsilon: added to the variance.
        weight_attr, bias_attr: scale (1) and shift (0), `[num_features]`; False leaves one out.
        data_format: "NC", "NCL" or "NLC".
        use_global_stats: use the running statistics (True) or the batch's (False), training or not.

    Example:
        >>> layer = wb.nn.BatchNorm1D(2)
        >>> print(layer(wb.to_tensor([[1.0, 5.0], [3.0, 5.0]])).numpy().round(3))
        [[-1.  0.]
         [ 1.  0.]]
    """

    formats = ("NC", "NCL", "NLC")

    def __init__(
        self, num_features: int, momentum: float = 0.9, epsilon: float = 1e-5, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCL", use_global_stats: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class BatchNorm2D(BatchNormLayer):
    """Normalise every channel of images over the batch, then scale and shift; see `batch_norm`.

    Args:
        num_features: channels of the input, `[N, C, H, W]`.
        data_format: "NCHW" or "NHWC".
        Others: as of `BatchNorm1D`.

    Example:
        >>> layer = wb.nn.BatchNorm2D(2)
        >>> list(layer(wb.rand([3, 2, 4, 4])).shape)
        [3, 2, 4, 4]
    """

    formats = ("NCHW", "NHWC")

    def __init__(
        self, num_features: int, momentum: float = 0.9, epsilon: float = 1e-5, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCHW", use_global_stats: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class BatchNorm3D(BatchNormLayer):
    """Normalise every channel of volumes over the batch, then scale and shift; see `batch_norm`.

    Args:
        num_features: channels of the input, `[N, C, D, H, W]`.
        data_format: "NCDHW" or "NDHWC".
        Others: as of `BatchNorm1D`.

    Example:
        >>> layer = wb.nn.BatchNorm3D(2)
        >>> list(layer(wb.rand([3, 2, 4, 4, 4])).shape)
        [3, 2, 4, 4, 4]
    """

    formats = ("NCDHW", "NDHWC")

    def __init__(
        self, num_features: int, momentum: float = 0.9, epsilon: float = 1e-5, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCDHW", use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class SyncBatchNorm(BatchNormLayer):
    """Batch norm of which processes, or devices, take the statistics together.

    In one process it is batch norm; in several that `init_parallel_env` has connected, a batch is what all of them are
    given. In a program that runs on several devices, `BuildStrategy.sync_batch_norm` has the statistics of all batch
    norms taken over all devices.

    Args:
        num_features: channels of the input, `[N, C]`, `[N, C, ...]` or channels last.
        Others: as of `BatchNorm1D`.

    Example:
        >>> net = wb.nn.Sequential(wb.nn.Conv2D(3, 4, 3), wb.nn.BatchNorm2D(4))
        >>> wb.nn.SyncBatchNorm.convert_sync_batchnorm(net)
        Sequential(
          (0): Conv2D(3, 4, kernel_size=[3, 3], data_format=NCHW)
          (1): SyncBatchNorm(num_features=4, momentum=0.9, epsilon=1e-05)
        )
    """

    formats = tuple(DATA_FORMATS)

    def __init__(
        self, num_features: int, momentum: float = 0.9, epsilon: float = 1e-5, weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCHW", name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`; in training all processes call it."""
        total = None if in_static_mode() or not self.training else process_sum()
        if total is None:
            return super().forward(input)
        require_rank(self, input, *self.formats)
        single = input.astype("float32") if input.dtype.name in HALF else input
        return self._normalised(single, total).astype(input.dtype)

    def _normalised(self, x: Any, total: Callable[[Any], Any]) -> Any:
        """`x` by mean and variance over all processes, which the running ones follow."""
        channel = 1 if self._data_format.startswith("NC") else x.ndim - 1
        axes = [axis for axis in range(x.ndim) if axis != channel]
        shape = [self._num_features if axis == channel else 1 for axis in range(x.ndim)]
        count = total(full([1], x.size // self._num_features, x.dtype))
        mean = total(x.sum(axes)) / count
        centred = x - mean.reshape(shape)
        variance = total((centred * centred).sum(axes)) / count
        with no_grad():
            for running_one, batch in ((self._mean, mean), (self._variance, variance)):
                assign(running_one * self._momentum + batch * (1.0 - self._momentum), output=running_one)
        y = centred * rsqrt(variance + self._epsilon).reshape(shape)
        if self.weight is not None:
            y = y * self.weight.reshape(shape)
        return y if self.bias is None else y + self.bias.reshape(shape)

    @classmethod
    def convert_sync_batchnorm(cls, layer: Any) -> Any:
        """`layer` with a SyncBatchNorm, which has its parameters, in the place of every batch norm below it.

        Returns:
            `layer` itself, or the SyncBatchNorm in its place.
        """
        if isinstance(layer, BatchNormLayer) and not isinstance(layer, SyncBatchNorm):
            return cls._of(layer)
        for name, below in list(layer.named_children()):
            layer._sub_layers[name] = cls.convert_sync_batchnorm(below)
        return layer

    @classmethod
    def _of(cls, layer: BatchNormLayer) -> SyncBatchNorm:
        """The SyncBatchNorm with the parameters and options of a batch norm."""
        synced = cls(
            layer._num_features, layer._momentum, layer._epsilon, False, False, layer._data_format, layer._name
        )
        synced.weight, synced.bias, synced._mean, synced._variance = (
            layer.weight,
            layer.bias,
            layer._mean,
            layer._variance,
        )
        synced.training = layer.training
        return synced


class BatchNorm(Layer):
    """Batch norm as in Paddle 1.x, with an activation.

    Args:
        num_channels: channels of the input.
        act: name of an activation applied to the result.
        is_test: use the running statistics.
        momentum, epsilon: as of `BatchNorm1D`.
        param_attr, bias_attr: scale (1) and shift (0), `[num_channels]`.
        dtype: of the parameters.
        data_layout: "NCHW" or "NHWC".
        in_place, do_model_average_for_mean_and_var: without effect, which a notice says.
        moving_mean_name, moving_variance_name: names of the running statistics.
        use_global_stats: use the running statistics in training, too.
        trainable_statistics: use the batch's statistics after `eval()`, too.

    Example:
        >>> layer = wb.nn.BatchNorm(2, act="relu")
        >>> print(layer(wb.to_tensor([[1.0, 5.0], [3.0, 5.0]])).numpy().round(3))
        [[0. 0.]
         [1. 0.]]
    """

    def __init__(
        self, num_channels: int, act: str | None = None, is_test: bool = False, momentum: float = 0.9,
        epsilon: float = 1e-5, param_attr: Any = None, bias_attr: Any = None, dtype: Any = "float32",
        data_layout: str = "NCHW", in_place: bool = False, moving_mean_name: str | None = None,
        moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False, trainable_statistics: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        averages = not do_model_average_for_mean_and_var
        tell_without_effect("BatchNorm", {"in_place": in_place, "do_model_average_for_mean_and_var": averages})
        if data_layout not in ("NCHW", "NHWC"):
            raise InvalidArgument(f"BatchNorm takes 'NCHW' or 'NHWC' as data_layout, got {data_layout!r}")
        self._act = None if act is None else activation_op(act, "BatchNorm")
        self._is_test, self._momentum, self._epsilon, self._data_layout = is_test, momentum, epsilon, data_layout
        self._use_global_stats, self._trainable_statistics = use_global_stats, trainable_statistics
        self.weight = self.create_parameter([num_channels], param_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)
        self._mean = running(self, num_channels, 0.0, moving_mean_name)
        self._variance = running(self, num_channels, 1.0, moving_variance_name)

    def forward(self, input: Any) -> Any:
        """A tensor of the shape of `input`."""
        training = (self.training and not self._is_test) or self._trainable_statistics
        out = batch_norm(
            input, self._mean, self._variance, self.weight, self.bias, training, self._momentum, self._epsilon,
            self._data_layout, self._use_global_stats or None,
        )  # fmt: skip
        return out if self._act is None else self._act(out)
