"""Convolutions and pooling on a device, for the rules of the tape, which bring images to (n, c, h, w) before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.cuda.kernels.convolution import (
    ConvolutionKernel,
    ConvolutionProduct,
    ImageConvolution,
    depthwise_filter_kernel,
    depthwise_input_kernel,
    depthwise_kernel,
    filter_product,
    fold_kernel,
    forward_products,
    gradient_across,
    input_products,
    unfold_kernel,
)
from workbench.cuda.kernels.pooling import (
    PooledAxis,
    Pooling,
    PoolKernel,
    average_pool_kernel,
    average_spread_kernel,
    max_pool_kernel,
    max_spread_kernel,
)
from workbench.cuda.kernels.transposes import move_kernel
from workbench.executors.lowering.cuda.device_calls import LaunchMaker
from workbench.executors.lowering.operands import Call
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.planning.plan import Row
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.ops.conv.windows import both_pads


class DeviceImages:
    """Of one writer.

    Args:
        add: takes the calls of the current row.
    """

    def __init__(self, writer: LaunchMaker, calls: Any) -> None:
        self._writer, self._add = writer, calls

    # Convolutions

    def convolve(self, geo: Geometry, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        """The convolution of `x` (n, c, h, w) with `w` (kernels, c / groups, kh, kw)."""
        one = _sizes(geo)
        if one.is_depthwise:
            self._launch(depthwise_kernel(x.dtype), one, [x, w, out])
            return
        columns = x
        if not one.is_plain:
            columns = self._writer.temporary((one.columns,), x.dtype)
            self._launch(unfold_kernel(x.dtype), one, [x, columns])
        self._multiply(forward_products(one, x.dtype), w, columns, out)

    def input_gradient(self, geo: Geometry, g: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        """The gradient of the input of a convolution; so is a transposed convolution."""
        one = _sizes(geo)
        if one.is_depthwise:
            self._launch(depthwise_input_kernel(g.dtype), one, [g, w, out])
            return
        columns = out if one.is_plain else self._writer.temporary((one.columns,), g.dtype)
        self._multiply(input_products(one, g.dtype), w, g, columns)
        if not one.is_plain:
            self._launch(fold_kernel(g.dtype), one, [columns, out])

    def filter_gradient(self, geo: Geometry, x: np.ndarray, g: np.ndarray, out: np.ndarray) -> None:
        """The gradient of the filter, one product over the pixels of all samples."""
        one = _sizes(geo)
        if one.is_depthwise:
            self._launch(depthwise_filter_kernel(x.dtype), one, [x, g, out])
            return
        columns = self._writer.temporary((one.columns,), x.dtype)
        self._launch(unfold_kernel(x.dtype), one, [x, columns], is_across=True)
        across = gradient_across(one)
        if across is not None:
            turned = self._writer.temporary((g.size,), g.dtype)
            move = move_kernel(g.dtype, across)
            self._add(self._writer.launch(move.kernel, move.launch(across), [self._at(g), self._at(turned)]))
            g = turned
        self._multiply([filter_product(one, x.dtype)], g, columns, out)

    def _launch(
        self, kernel: ConvolutionKernel, one: ImageConvolution, arrays: Sequence[Any], is_across: bool = False
    ) -> None:
        self._add(self._writer.launch(kernel.kernel, kernel.launch(one, is_across), [self._at(a) for a in arrays]))

    def _multiply(self, products: Sequence[ConvolutionProduct], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        item, places = c.itemsize, (self._at(a), self._at(b), self._at(c))
        calls: list[Call] = []
        for product, *steps in products:
            starts = [at + item * step for at, step in zip(places, steps, strict=True)]
            calls.append(self._writer.product(product, *starts))
        self._add(calls)

    def _at(self, array: np.ndarray) -> int:
        return self._writer.at(array)

    # Pooling

    def pool(self, row: Row, x: np.ndarray, out: np.ndarray) -> None:
        """Maxima or averages of the windows of `x` (n, c, h, w)."""
        one = _pooling(row, x.shape, out.shape)
        kernel = max_pool_kernel if row.node.attrs["pooling_type"] == "max" else average_pool_kernel
        self._pool(kernel(x.dtype, one), one, [x, out])

    def spread(self, row: Row, image: Any, g: np.ndarray, out: np.ndarray) -> None:
        """The gradient of the images; averages do not ask for the images themselves."""
        one = _pooling(row, out.shape, g.shape)
        if row.node.attrs["pooling_type"] != "max":
            self._pool(average_spread_kernel(g.dtype, one), one, [g, out])
            return
        places = self._writer.temporary((g.size,), np.int32)
        self._pool(max_pool_kernel(g.dtype, one, has_values=False, has_places=True), one, [image, places])
        self._pool(max_spread_kernel(g.dtype, one), one, [g, places, out])

    def _pool(self, kernel: PoolKernel, one: Pooling, arrays: Sequence[Any]) -> None:
        self._add(self._writer.launch(kernel.kernel, kernel.launch(one), [self._at(a) for a in arrays]))


def _sizes(geo: Geometry) -> ImageConvolution:
    """A convolution of images channels first."""
    return ImageConvolution(*geo)


def _pooling(row: Row, image: Sequence[int], out: Sequence[int]) -> Pooling:
    """The windows of a row, as its attributes tell."""
    attrs = row.node.attrs
    outer, is_adaptive = image[0] * image[1], bool(attrs["global_pooling"] or attrs["adaptive"])
    if is_adaptive:
        height, width = (PooledAxis(size, count) for size, count in zip(image[2:], out[2:], strict=True))
        return Pooling(outer, 1, height, width, True, bool(attrs.get("exclusive", True)))
    pads = both_pads(image[2:], attrs["ksize"], attrs["strides"], attrs["paddings"], attrs["padding_algorithm"])
    if any(before < 0 or after < 0 for before, after in pads):
        raise Unsuitable
    axes = zip(image[2:], out[2:], attrs["ksize"], attrs["strides"], pads, strict=True)
    height, width = (PooledAxis(size, count, kernel, stride, pad) for size, count, kernel, stride, pad in axes)
    return Pooling(outer, 1, height, width, False, bool(attrs.get("exclusive", True)))
