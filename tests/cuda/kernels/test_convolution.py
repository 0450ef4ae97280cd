"""Convolutions on a simulated GPU, kernels and products, against the ops' NumPy forms in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
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
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.transposes import move_kernel
from workbench.cuda.simulated.products import multiply
from workbench.framework.values.dtype import as_dtype
from workbench.ops.conv.convolutions.conv import (
    BACKPROP_FILTER,
    BACKPROP_INPUT,
    CONV2D,
    CONV2D_TRANSPOSE,
    _forward_attrs,
    _geometry,
    _transposed_image,
)
from workbench.ops.conv.windows import as_nchw

NEAR = {"float32": 2e-5, "float64": 1e-13, "float16": 1e-2, "bfloat16": 6e-2}
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 3, 7, 9), (4, 3, 3, 3), {"paddings": [1, 1, 1, 1]}),
    "one pixel": ((1, 2, 1, 1), (3, 2, 1, 1), {}),
    "plain": ((3, 5, 6, 7), (4, 5, 1, 1), {}),
    "strides, dilations and odd pads": (
        (2, 2, 11, 10), (3, 2, 3, 2), {"strides": [2, 3], "dilations": [2, 1], "paddings": [2, 1, 0, 3]},
    ),
    "groups": ((3, 4, 6, 5), (6, 2, 3, 3), {"groups": 2, "paddings": [1, 1, 1, 1]}),
    "more groups than samples": ((1, 6, 5, 5), (6, 2, 2, 2), {"groups": 3}),
    "same": ((2, 3, 7, 7), (4, 3, 3, 3), {"strides": [2, 2], "padding_algorithm": "SAME"}),
    "channels last": ((2, 6, 7, 4), (6, 2, 3, 2), {"groups": 2, "data_format": "NHWC", "strides": [2, 1]}),
    "a large image": ((1, 2, 40, 41), (2, 2, 5, 5), {"paddings": [2, 2, 2, 2]}),
}  # fmt: skip
DEPTHWISE: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 5, 7, 9), (5, 1, 3, 3), {"groups": 5, "paddings": [1, 1, 1, 1]}),
    "two of a channel": ((2, 3, 8, 6), (6, 1, 3, 2), {"groups": 3, "strides": [2, 1], "dilations": [1, 2]}),
    "channels last": (
        (2, 7, 8, 3), (3, 1, 3, 3), {"groups": 3, "strides": [2, 2], "paddings": [1, 0, 1, 1], "data_format": "NHWC"},
    ),
}  # fmt: skip


class Case:
    """One convolution with its operands."""

    def __init__(self, shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any], dtype: str) -> None:
        self.attrs = CONV2D.complete(attrs)
        self.dtype = as_dtype(dtype).numpy
        random = np.random.default_rng(0)
        self.x = self._numbers(random, shape)
        self.w = self._numbers(random, filter)
        self.y = CONV2D.forward(np, self.x.astype("f8"), self.w.astype("f8"), **self.attrs)
        self.g = self._numbers(random, self.y.shape)
        image = as_nchw(self.x, self.attrs["data_format"]).shape
        self.one = ImageConvolution(
            *_geometry(image, filter, **self.attrs), channels_last=self.attrs["data_format"] == "NHWC"
        )

    def _numbers(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return random.standard_normal(shape).astype(self.dtype)

    def run(self, kernel: ConvolutionKernel, given: list[np.ndarray], shape: Any, **how: Any) -> np.ndarray:
        operands = [*given, (shape, self.dtype)]
        return run_kernel(kernel.kernel, kernel.launch(self.one, **how), operands, seed=1)[0][-1]

    def unfolded(self, is_across: bool = False) -> np.ndarray:
        return self.run(unfold_kernel(self.dtype), [self.x], (self.one.columns,), is_across=is_across)

    def near(self, got: np.ndarray, want: np.ndarray) -> None:
        near = NEAR[as_dtype(self.dtype).name]
        scale = float(np.abs(want).max(initial=1.0))
        np.testing.assert_allclose(got.astype("f8"), want, near, near * scale)


def product_of(steps: list[ConvolutionProduct], a: np.ndarray, b: np.ndarray, shape: Any) -> np.ndarray:
    """What products give; each of their operands is memory from an address on."""
    parts = [a.ravel(), b.ravel(), np.zeros(shape, a.dtype).ravel()]
    memory = np.concatenate([part.view(np.uint8) for part in parts])
    begins = [0, parts[0].nbytes, parts[0].nbytes + parts[1].nbytes]
    for step in steps:
        addresses = [start + n * a.itemsize for start, n in zip(begins, (step.a, step.b, step.c), strict=True)]
        multiply(step.product, *addresses, lambda at, nbytes: memory[at : at + nbytes])
    return memory[begins[2] :].view(a.dtype).reshape(shape)


def case_of(name: str, dtype: str = "float32") -> Case:
    return Case(*CASES[name], dtype)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", NEAR)
def test_the_output(name: str, dtype: str) -> None:
    case = case_of(name, dtype)
    columns = case.x if case.one.is_plain else case.unfolded()
    a, b = (columns, case.w) if case.one.channels_last else (case.w, columns)
    case.near(product_of(forward_products(case.one, dtype), a, b, case.y.shape), case.y)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", NEAR)
def test_the_gradient_of_the_input(name: str, dtype: str) -> None:
    case = case_of(name, dtype)
    got = product_of(input_products(case.one, dtype), case.w, case.g, (case.one.columns,))
    if not case.one.is_plain:
        got = case.run(fold_kernel(dtype), [got], case.x.shape)
    want = BACKPROP_INPUT.forward(np, case.g.astype("f8"), case.w.astype("f8"), case.x, **case.attrs)
    case.near(got.reshape(want.shape), want)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", NEAR)
def test_the_gradient_of_the_filter(name: str, dtype: str) -> None:
    case = case_of(name, dtype)
    g, copy = case.g, gradient_across(case.one)
    if copy is not None:
        move = move_kernel(dtype, copy)
        g = run_kernel(move.kernel, move.launch(copy), [g, (g.shape, g.dtype)])[0][1]
    step = filter_product(case.one, dtype)
    got = product_of([step], g, case.unfolded(is_across=True), case.w.shape)
    case.near(got, BACKPROP_FILTER.forward(np, case.x.astype("f8"), case.g.astype("f8"), case.w, **case.attrs))


def test_parts_of_a_batch_add_up_to_the_gradient_of_the_filter() -> None:
    case = case_of("groups")
    want = BACKPROP_FILTER.forward(np, case.x.astype("f8"), case.g.astype("f8"), case.w, **case.attrs)
    one, total = case.one._replace(samples=1), np.zeros(0, "f")
    for n in range(case.one.samples):
        unfold = unfold_kernel("float32")
        columns = run_kernel(unfold.kernel, unfold.launch(one, is_across=True), [case.x[n], ((one.columns,), "f")])[0][
            1
        ]
        step = filter_product(one, "float32", accumulate=bool(n))
        parts = [case.g[n].ravel(), columns, total if n else np.zeros(case.w.size, "f")]
        memory = np.concatenate(parts)
        begins = [0, parts[0].nbytes, parts[0].nbytes + parts[1].nbytes]
        raw = memory.view(np.uint8)
        multiply(step.product, *begins, lambda at, nbytes, raw=raw: raw[at : at + nbytes])
        total = memory[-case.w.size :].copy()
    case.near(total.reshape(want.shape), want)


TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "doubled": ((2, 3, 5, 4), (3, 4, 2, 2), {"strides": [2, 2]}),
    "output padding": (
        (1, 4, 4, 5), (4, 3, 3, 3), {"strides": [2, 3], "paddings": [1, 1, 1, 1], "output_padding": [1, 2], "groups": 2}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSPOSED)
def test_a_transposed_convolution_is_the_gradient_of_an_input(name: str) -> None:
    shape, filter, attrs = TRANSPOSED[name]
    attrs = CONV2D_TRANSPOSE.complete(attrs)
    random = np.random.default_rng(0)
    x, w = random.standard_normal(shape).astype("f"), random.standard_normal(filter).astype("f")
    want = CONV2D_TRANSPOSE.forward(np, x.astype("f8"), w.astype("f8"), **attrs)
    one = ImageConvolution(*_geometry(_transposed_image(shape, filter, attrs), filter, **_forward_attrs(filter, attrs)))
    columns = product_of(input_products(one, "float32"), w, x, (one.columns,))
    fold = fold_kernel("float32")
    got = run_kernel(fold.kernel, fold.launch(one), [columns, (want.shape, "f")])[0][1]
    np.testing.assert_allclose(got, want, 2e-5, 2e-5)


@pytest.mark.parametrize("name", DEPTHWISE)
@pytest.mark.parametrize("dtype", NEAR)
def test_depthwise_convolutions_and_their_gradients(name: str, dtype: str) -> None:
    case = Case(*DEPTHWISE[name], dtype)
    assert case.one.is_depthwise
    x, w, g = (a.astype("f8") for a in (case.x, case.w, case.g))
    case.near(case.run(depthwise_kernel(dtype), [case.x, case.w], case.y.shape), case.y)
    got = case.run(depthwise_input_kernel(dtype), [case.g, case.w], case.x.shape)
    case.near(got, BACKPROP_INPUT.forward(np, g, w, x, **case.attrs))
    got = case.run(depthwise_filter_kernel(dtype), [case.x, case.g], case.w.shape)
    case.near(got, BACKPROP_FILTER.forward(np, x, g, w, **case.attrs))


def test_bits_are_the_same_whatever_the_order_of_threads() -> None:
    case = Case(*DEPTHWISE["3x3"], "float32")
    columns = np.random.default_rng(0).standard_normal(case.one.columns).astype("f")
    for kernel, given, shape in [
        (fold_kernel("float32"), [columns], case.x.shape),
        (depthwise_filter_kernel("float32"), [case.x, case.g], case.w.shape),
    ]:
        how = kernel.launch(case.one)
        runs = [run_kernel(kernel.kernel, how, [*given, (shape, "f")], seed)[0][-1] for seed in range(4)]
        assert len({run.tobytes() for run in runs}) == 1


def test_few_blocks_go_on_with_further_pixels() -> None:
    case = Case(*DEPTHWISE["3x3"], "float32")
    for kernel, given, shape in [
        (unfold_kernel("float32"), [case.x], (case.one.columns,)),
        (fold_kernel("float32"), [np.arange(case.one.columns, dtype="f")], case.x.shape),
        (depthwise_kernel("float32"), [case.x, case.w], case.y.shape),
    ]:
        how = kernel.launch(case.one)
        few = replace(how, grid=(1, 1, 1), block=(32, 1, 1))
        runs = [run_kernel(kernel.kernel, one, [*given, (shape, "f")])[0][-1] for one in (how, few)]
        np.testing.assert_array_equal(*runs)


def test_unfolding_writes_whole_sectors() -> None:
    one = ImageConvolution(2, 3, 16, 32, 4, (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1, (16, 32))
    kernel = unfold_kernel("float32")
    x = np.ones((2, 3, 16, 32), np.float32)
    _, counted = run_kernel(kernel.kernel, kernel.launch(one), [x, ((one.columns,), "f")], seed=1)
    assert counted.stores.sectors == counted.stores.ideal


def test_whole_numbers_are_not_convolved() -> None:
    with pytest.raises(NoKernel):
        unfold_kernel("int64")


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    for make in (unfold_kernel, fold_kernel, depthwise_kernel, depthwise_input_kernel, depthwise_filter_kernel):
        assert compile_cubin(make("bfloat16").kernel.source, architecture)
