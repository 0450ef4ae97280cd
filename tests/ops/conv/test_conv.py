"""Convolution against SciPy and against the sum over taps: every stride, padding, dilation and grouping."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import correlate

import workbench as wb
from tests.ops.conv.cases_conv import PLAIN, ref_conv, ref_filter, ref_input, ref_transpose
from tests.ops.programs import both, check_second_derivative, dynamic
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op
from workbench.ops.conv.convolutions import convolve

F = wb.nn.functional
RNG = np.random.default_rng(31)


@st.composite
def convolutions(draw: Any) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """A small image, a filter and attributes that fit."""
    small = st.integers(1, 3)
    groups, per_group, kernels = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    attrs: dict[str, Any] = {
        "strides": [draw(small), draw(small)],
        "dilations": [draw(small), draw(small)],
        "groups": groups,
        "padding_algorithm": draw(st.sampled_from(["EXPLICIT", "EXPLICIT", "SAME", "VALID"])),
        "paddings": draw(st.lists(st.integers(0, 3), min_size=4, max_size=4)),
        "data_format": draw(st.sampled_from(["NCHW", "NHWC"])),
    }
    kernel = [draw(small), draw(small)]
    least = [d * (k - 1) + 1 for d, k in zip(attrs["dilations"], kernel, strict=True)]
    size = [n + draw(st.integers(0, 3)) for n in least]
    image = [draw(st.integers(1, 2)), groups * per_group, *size]
    if attrs["data_format"] == "NHWC":
        image = [image[0], *image[2:], image[1]]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rng.standard_normal(image), rng.standard_normal((groups * kernels, per_group, *kernel)), attrs


@settings(max_examples=120, deadline=None)
@given(convolutions(), st.sampled_from([1, 200, 1 << 22]))
def test_forward_and_gradients(case: Any, column_bytes: int) -> None:
    """Whatever the columns may take: blocks of rows, of samples, or everything at once."""
    x, w, attrs = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolve, "COLUMN_BYTES", column_bytes)
        out = find_op("conv2d").forward(numpy_xp, x, w, **attrs)
        g = np.random.default_rng(1).standard_normal(out.shape)
        gx, gw = find_op("conv2d_grad").forward(numpy_xp, x, w, g, wanted=(True, True), **attrs)
    np.testing.assert_allclose(out, ref_conv(x, w, **attrs), atol=1e-12)
    np.testing.assert_allclose(gx, ref_input(g, w, x, **attrs), atol=1e-12)
    np.testing.assert_allclose(gw, ref_filter(x, g, w, **attrs), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(convolutions(), st.integers(0, 2), st.integers(0, 2))
def test_transpose(case: Any, more_rows: int, more_columns: int) -> None:
    x, w, attrs = case
    x = np.random.default_rng(2).standard_normal((2, w.shape[0], 3, 2))
    extra = [min(m, s - 1) for m, s in zip((more_rows, more_columns), attrs["strides"], strict=True)]
    attrs = {**attrs, "data_format": "NCHW", "output_padding": extra}
    if attrs["padding_algorithm"] == "EXPLICIT":
        attrs["paddings"] = [0, 0, 0, 0]
    got = find_op("conv2d_transpose").forward(numpy_xp, x, w, **{**attrs, "output_size": []})
    np.testing.assert_allclose(got, ref_transpose(x, w, **attrs), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
def test_same_padding_gives_a_pixel_per_stride(size: int, kernel: int, stride: int) -> None:
    out = dynamic(
        lambda x, w: F.conv2d(x, w, stride=stride, padding="same"),
        np.ones((1, 1, size, size)),
        np.ones((1, 1, kernel, kernel)),
    )
    assert out.shape[2:] == (-(-size // stride),) * 2


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_padding_takes_the_dilation_for_1(rank: int, stride: int) -> None:
    """As Paddle 1.8.5 and 2.6.2 do, whose results are those without a dilation; here a notice says so."""
    rng = np.random.default_rng(rank)
    x, w = rng.standard_normal((2, 2, *[7] * rank)), rng.standard_normal((3, 2, *[3] * rank))
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    plain = dynamic(lambda x, w: conv(x, w, padding="SAME", stride=stride), x, w)
    with pytest.warns(UserWarning, match="the dilation is 1, as in Paddle"):
        spread = dynamic(lambda x, w: conv(x, w, padding="SAME", stride=stride, dilation=2), x, w)
    np.testing.assert_array_equal(spread, plain)
    valid = dynamic(lambda x, w: conv(x, w, padding="VALID", stride=stride, dilation=2), x, w)
    assert valid.shape[2:] == (-(-3 // stride),) * rank


def test_scipy_agrees() -> None:
    x, w = RNG.standard_normal((2, 3, 9, 8)), RNG.standard_normal((4, 3, 3, 2))
    want = [[correlate(image, kernel, "valid")[0] for kernel in w] for image in x]
    np.testing.assert_allclose(both(F.conv2d, x, w), want, atol=1e-12)


def test_lenet_and_residual_shapes() -> None:
    for image, filter, padding in (
        ((2, 1, 28, 28), (6, 1, 5, 5), 2),
        ((2, 6, 14, 14), (16, 6, 5, 5), 0),
        ((1, 8, 9, 9), (8, 8, 3, 3), 1),
    ):
        x, w = RNG.standard_normal(image), RNG.standard_normal(filter)
        wide = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
        want = [[correlate(i, kernel, "valid")[0] for kernel in w] for i in wide]
        np.testing.assert_allclose(dynamic(lambda x, w, p=padding: F.conv2d(x, w, padding=p), x, w), want, atol=1e-10)


@pytest.mark.parametrize(
    ("padding", "four"),
    [
        (1, [1, 1, 1, 1]),
        ([1, 2], [1, 1, 2, 2]),
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([[0, 0], [0, 0], [1, 0], [2, 1]], [1, 0, 2, 1]),
        ("VALID", [0, 0, 0, 0]),
    ],
)
def test_forms_of_padding(padding: Any, four: list[int]) -> None:
    x, w = RNG.standard_normal((1, 2, 4, 5)), RNG.standard_normal((3, 2, 3, 2))
    got = both(lambda x, w: F.conv2d(x, w, padding=padding), x, w)
    np.testing.assert_allclose(got, ref_conv(x, w, paddings=four), atol=1e-12)


def test_bias_is_added_per_kernel_in_both_layouts() -> None:
    x, w, b = RNG.standard_normal((2, 4, 5, 2)), RNG.standard_normal((3, 2, 2, 2)), np.array([1.0, 20.0, 300.0])
    got = both(lambda x, w, b: F.conv2d(x, w, b, data_format="NHWC"), x, w, b)
    np.testing.assert_allclose(got, ref_conv(x, w, data_format="NHWC") + b, atol=1e-12)
    x = np.moveaxis(x, -1, 1)
    got = both(lambda x, w, b: F.conv2d(x, w, b), x, w, b)
    np.testing.assert_allclose(got, ref_conv(x, w) + b[:, None, None], atol=1e-12)


def test_transposed_layer() -> None:
    x, w, b = RNG.standard_normal((2, 2, 3, 4)), RNG.standard_normal((2, 3, 3, 3)), np.arange(3.0)
    got = dynamic(lambda x, w, b: F.conv2d_transpose(x, w, b, stride=2, padding=1, output_size=[6, 7]), x, w, b)
    want = ref_transpose(x, w, strides=[2, 2], paddings=[1, 1, 1, 1], output_size=[6, 7]) + b[:, None, None]
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_depthwise_is_its_own_type() -> None:
    main = wb.static.Program()
    with wb.framework.program.guard.static_mode(), wb.static.program_guard(main):
        x = wb.static.data("x", [None, 4, 8, 8], "float32")
        w = wb.static.data("w", [8, 1, 3, 3], "float32")
        out = F.conv2d(x, w, groups=4, padding="SAME", name="dw")
        plain = F.conv2d(x, wb.static.data("v", [2, 2, 3, 3], "float32"), groups=2)
    assert [op.type for op in main.global_block().ops] == ["depthwise_conv2d", "conv2d"]
    assert (out.shape, plain.shape) == ((-1, 8, 8, 8), (-1, 2, 6, 6))


def test_columns_stay_small() -> None:
    """Twice COLUMN_BYTES beyond what goes in and out, however large the image is."""
    x, w = np.ones((1, 16, 256, 256), "f"), np.ones((16, 16, 3, 3), "f")
    attrs = {**PLAIN, "data_format": "NCHW"}
    out = np.ones((1, 16, 254, 254), "f")
    conv, back = find_op("conv2d"), find_op("conv2d_grad")

    def peak(run: Any) -> int:
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    room = 2 * convolve.COLUMN_BYTES
    assert out.nbytes * 9 > 4 * room  # all columns at once would not pass
    assert peak(lambda: conv.forward(numpy_xp, x, w, **attrs)) < room + out.nbytes
    assert peak(lambda: back.forward(numpy_xp, x, w, out, wanted=(False, True), **attrs)) < room
    assert peak(lambda: back.forward(numpy_xp, x, w, out, wanted=(True, False), **attrs)) < room + 2 * x.nbytes


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"w": (4, 2, 3, 3)}, InvalidArgument, r"channels of the input(.|\n)*2 \* 1 = 2 channels(.|\n)*got: *3"),
        ({"w": (4, 1, 3, 3), "groups": 3}, InvalidArgument, r"a multiple of 3(.|\n)*got: *4"),
        ({"w": (4, 3, 9, 3)}, InvalidArgument, r"larger than the input(.|\n)*at least 9(.|\n)*6"),
        ({"w": (4, 3, 3)}, InvalidArgument, r"filter of 4 dimensions"),
        ({"x": (3, 6, 6)}, InvalidArgument, r"images of 4 dimensions(.|\n)*\[N, C, H, W\]"),
        ({"stride": 0}, InvalidArgument, "strides are two sizes"),
        ({"stride": [1, 2, 3]}, InvalidArgument, "1 or 2 ints"),
        ({"dilation": [0, 1]}, InvalidArgument, "dilations are two sizes"),
        ({"groups": 0}, InvalidArgument, "groups"),
        ({"padding": "FULL"}, InvalidArgument, "'SAME' or 'VALID', got 'FULL'"),
        ({"padding": [1, 2, 3]}, InvalidArgument, "1, 2 or 4 ints"),
        ({"padding": -1}, InvalidArgument, "ints >= 0"),
        ({"padding": [[1, 0], [0, 0], [0, 0], [0, 0]]}, InvalidArgument, "zero for batch and channels"),
        ({"data_format": "CHWN"}, InvalidArgument, "NCHW or NHWC(.|\n)*'CHWN'"),
        ({"dtype": "int64"}, InvalidType, "floating-point tensors"),
    ],
)
def test_what_is_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    x, w = (np.ones(change.pop(k, d)) for k, d in (("x", (2, 3, 6, 6)), ("w", (4, 3, 3, 3))))
    dtype = change.pop("dtype", "float64")
    with pytest.raises(error, match=words):
        F.conv2d(wb.to_tensor(x.astype(dtype)), wb.to_tensor(w.astype(dtype)), **change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"output_size": [9, 5]}, r"output size along height(.|\n)*\[5, 7\)(.|\n)*9"),
        ({"output_padding": [0, 2]}, r"along width(.|\n)*\[5, 7\)(.|\n)*7"),
        ({"groups": 2}, "whole groups"),
    ],
)
def test_what_the_transpose_refuses(change: dict[str, Any], words: str) -> None:
    x, w = wb.to_tensor(np.ones((1, 3, 2, 2))), wb.to_tensor(np.ones((3, 4, 3, 3)))
    with pytest.raises(InvalidArgument, match=words):
        F.conv2d_transpose(x, w, stride=2, **change)


@pytest.mark.parametrize(
    ("build", "image", "filter"),
    [
        (lambda x, w: F.conv2d(x * x, w, stride=2, padding=1), (2, 2, 5, 4), (3, 2, 3, 2)),
        (lambda x, w: F.conv2d(x, w, groups=2, padding="SAME", data_format="NHWC"), (1, 4, 4, 2), (4, 1, 3, 3)),
        (lambda x, w: F.conv2d_transpose(x, w, stride=2, output_padding=1), (2, 2, 3, 2), (2, 3, 2, 3)),
    ],
    ids=["conv", "depthwise", "transpose"],
)
def test_second_derivatives(build: Any, image: Any, filter: Any) -> None:
    check_second_derivative(build, RNG.standard_normal(image), RNG.standard_normal(filter))


@pytest.mark.parametrize("type", ["conv2d", "depthwise_conv2d"])
def test_paddings_of_an_op_that_would_cut_something_off_are_refused(type: str) -> None:
    """As a program that was loaded may have them; the functions refuse them before."""
    image, weight = wb.to_tensor(np.ones((2, 3, 5, 4), np.float32)), wb.to_tensor(np.ones((3, 1, 3, 3), np.float32))
    with pytest.raises(InvalidArgument, match=r"paddings cut nothing off(?s:.*)\[-1, 1\]"):
        find_op(type)(image, weight, paddings=[-1, 1], groups=3)
