"""Pooling against a walk over the windows: sliding, adaptive, global; where gradients go; what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.ops.conv.cases_pool import ref_pick, ref_pool, ref_spread
from tests.ops.programs import both, check_second_derivative, dynamic
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op

F = wb.nn.functional
POOL, BACK, PICK = find_op("pool2d"), find_op("pool2d_grad"), find_op("pool2d_pick")


@st.composite
def poolings(draw: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """A small image with many ties, and attributes that fit."""
    kernel = [draw(st.integers(1, 4)), draw(st.integers(1, 4))]
    kind = draw(st.sampled_from(["sliding", "sliding", "sliding", "adaptive", "global"]))
    attrs: dict[str, Any] = {
        "pooling_type": draw(st.sampled_from(["max", "avg"])),
        "ksize": kernel,
        "strides": [draw(st.integers(1, 4)), draw(st.integers(1, 4))],
        "paddings": [draw(st.integers(0, k - 1)) for k in kernel for _ in range(2)],
        "padding_algorithm": draw(st.sampled_from(["EXPLICIT", "EXPLICIT", "SAME", "VALID"])),
        "ceil_mode": draw(st.booleans()),
        "exclusive": draw(st.booleans()),
        "adaptive": kind == "adaptive",
        "global_pooling": kind == "global",
        "data_format": draw(st.sampled_from(["NCHW", "NHWC"])),
    }
    if attrs["padding_algorithm"] == "SAME":
        attrs["ceil_mode"] = False  # SAME says how many windows there are
    size = [k + draw(st.integers(0, 4)) for k in kernel]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    shape = (2, 2, *size) if attrs["data_format"] == "NCHW" else (2, *size, 2)
    return rng.integers(0, 4, shape).astype(np.float64), attrs


@settings(max_examples=250, deadline=None)
@given(poolings())
def test_forward_and_gradient(case: Any) -> None:
    x, attrs = case
    out = POOL.forward(numpy_xp, x, **attrs)
    np.testing.assert_allclose(out, ref_pool(x, **attrs), atol=1e-12)
    rng = np.random.default_rng(1)
    g, v = rng.standard_normal(out.shape), rng.standard_normal(x.shape)
    np.testing.assert_allclose(
        BACK.forward(numpy_xp, x, g, wanted=(True,), **attrs), ref_spread(x, g, **attrs), atol=1e-12
    )
    np.testing.assert_allclose(PICK.forward(numpy_xp, x, v, **attrs), ref_pick(x, v, **attrs), atol=1e-12)


def test_the_first_maximum_gets_the_gradient() -> None:
    x = np.array([[1, 3, 3], [3, 3, 2], [0, 3, 3]], np.float32).reshape(1, 1, 3, 3)
    attrs = POOL.complete({"ksize": [2, 2]})
    got = BACK.forward(numpy_xp, x, np.array([[1, 2], [4, 8]], np.float32).reshape(1, 1, 2, 2), wanted=(True,), **attrs)
    np.testing.assert_array_equal(got[0, 0], [[0, 3, 0], [4, 8, 0], [0, 0, 0]])
    whole = POOL.complete({"global_pooling": True})
    got = BACK.forward(numpy_xp, x, np.full((1, 1, 1, 1), 5, np.float32), wanted=(True,), **whole)
    np.testing.assert_array_equal(got[0, 0], [[0, 5, 0], [0, 0, 0], [0, 0, 0]])


X = np.random.default_rng(3).permutation(2 * 3 * 6 * 7).reshape(2, 3, 6, 7) / 9.0
BLOCKS = X[:, :, :6, :6].reshape(2, 3, 3, 2, 3, 2)


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda x: F.max_pool2d(x, 2), BLOCKS.max(axis=(3, 5))),
        (lambda x: F.avg_pool2d(x, 2, 2), BLOCKS.mean(axis=(3, 5))),
        (lambda x: F.max_pool2d(x, [6, 7]), X.max(axis=(2, 3), keepdims=True)),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), BLOCKS.sum(axis=(3, 5)) / 3),
        (
            lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False),
            ref_pool(X, pooling_type="avg", ksize=[3, 3], strides=[2, 2], paddings=[1, 1], exclusive=False),
        ),
        (lambda x: F.max_pool2d(x, 3, 2, "SAME"), ref_pool(X, ksize=[3, 3], strides=[2, 2], padding_algorithm="SAME")),
        (
            lambda x: F.max_pool2d(x, 3, 2, [[0, 0], [0, 0], [1, 0], [0, 2]]),
            ref_pool(X, ksize=[3, 3], strides=[2, 2], paddings=[1, 0, 0, 2]),
        ),
        (lambda x: F.max_pool2d(x, 4, 3, ceil_mode=True), ref_pool(X, ksize=[4, 4], strides=[3, 3], ceil_mode=True)),
        (lambda x: F.adaptive_avg_pool2d(x, 1), X.mean(axis=(2, 3), keepdims=True)),
        (lambda x: F.adaptive_avg_pool2d(x, [2, 4]), ref_pool(X, pooling_type="avg", adaptive=True, ksize=[2, 4])),
        (lambda x: F.adaptive_max_pool2d(x, 3), ref_pool(X, adaptive=True, ksize=[3, 3])),
    ],
)  # fmt: skip
def test_public_functions(build: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(both(build, X), want, atol=1e-12)


def test_channels_last() -> None:
    got = both(lambda x: F.max_pool2d(x, 2, data_format="NHWC"), np.moveaxis(X, 1, -1))
    np.testing.assert_array_equal(got, np.moveaxis(BLOCKS.max(axis=(3, 5)), 1, -1))
    got = dynamic(lambda x: F.adaptive_avg_pool2d(x, [None, 1], data_format="NHWC"), np.moveaxis(X, 1, -1))
    np.testing.assert_allclose(got[:, :, 0, :], np.moveaxis(X.mean(axis=3), 1, -1))


def test_mask_says_where_the_maxima_were() -> None:
    values, mask = F.max_pool2d(wb.to_tensor(X), 3, 2, 1, return_mask=True)
    assert mask.numpy().dtype == np.int32
    flat = X.reshape(2, 3, 42)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, mask.numpy().reshape(2, 3, -1), 2).ravel(), values.numpy().ravel()
    )
    _, mask = F.adaptive_max_pool2d(wb.to_tensor(X), 1, return_mask=True)
    np.testing.assert_array_equal(mask.numpy().reshape(2, 3), flat.argmax(axis=2))


def test_negative_maxima_are_not_beaten_by_padding() -> None:
    got = dynamic(lambda x: F.max_pool2d(x, 3, 1, 1), np.full((1, 1, 2, 2), -7, np.int32))
    np.testing.assert_array_equal(got, -7)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: F.max_pool2d(x, 8), InvalidArgument, r"larger than the input(.|\n)*at least 8(.|\n)*6"),
        (lambda x: F.max_pool2d(x, 2, padding=2), InvalidArgument, r"smaller than the window(.|\n)*below 2"),
        (lambda x: F.max_pool2d(x, 0), InvalidArgument, "ksize are two sizes"),
        (lambda x: F.max_pool2d(x, 2, -1), InvalidArgument, "strides are two sizes"),
        (lambda x: F.max_pool2d(x[0], 2), InvalidArgument, "images of 4 dimensions"),
        (lambda x: F.max_pool2d(x > 0, 2), InvalidType, "pool2d takes numbers"),
        (lambda x: F.avg_pool2d(x.astype("int64"), 2), InvalidType, "average pooling takes floating-point"),
        (lambda x: F.adaptive_avg_pool2d(x, [1, 2, 3]), InvalidArgument, "an int >= 1 or two"),
        (lambda x: F.adaptive_avg_pool2d(x, 0), InvalidArgument, "an int >= 1 or two"),
        (lambda x: F.max_pool2d(x, 2, return_mask=True, data_format="NHWC"), InvalidArgument, "return_mask"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), InvalidArgument, "divisor_override"),
        (lambda x: POOL(x, pooling_type="min"), InvalidArgument, "'max' or 'avg'"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(wb.to_tensor(X))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: F.max_pool2d(x * x, 3, 2, 1),
        lambda x: F.avg_pool2d(x * x, 3, 2, 1),
        lambda x: F.adaptive_max_pool2d(x * x, [2, 3]),
    ],
)
def test_second_derivatives(build: Any) -> None:
    check_second_derivative(build, X[:, :1])
