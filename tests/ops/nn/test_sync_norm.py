"""A batch spread over devices is normalised as one: against `batch_norm` on the rows of all devices together."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.case import run_forward
from workbench.errors import InvalidArgument
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype, float32, float64
from workbench.framework.values.spec import Spec

rng = np.random.default_rng(60)
# How far the two may be apart: in units of the largest value compared
ROUNDING = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-13}
SPLITS = {1: [11], 2: [8, 3], 4: [1, 5, 3, 2], 5: [4, 0, 3, 0, 4]}
INNER = {"2-D": (), "NCHW": (2, 3), "NHWC": (2, 3)}


def run(type: str, *arrays: Any, **attrs: Any) -> tuple[Any, ...]:
    op = find_op(type)
    for a in arrays:
        if a is not None:
            a.flags.writeable = False
    extra = {"wanted": (True,) * len(op.outputs)} if "wanted" in op.needs else {}
    return run_forward(op, arrays, {**op.attrs, **attrs}, **extra)


def added(parts: Sequence[Any]) -> Any:
    """An all-reduce: the sum, in device order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def forward(xs: Sequence[Any], *channels: Any, data_layout: str = "NCHW", **attrs: Any) -> list[tuple[Any, ...]]:
    """The outputs of every device."""
    sums = added([run("batch_norm_sums", x, data_layout=data_layout)[0] for x in xs])
    return [run("batch_norm_with_sums", x, *channels, sums, data_layout=data_layout, **attrs) for x in xs]


def backward(xs: Any, gs: Any, scale: Any, bias: Any, saved: Any, data_layout: str) -> list[tuple[Any, ...]]:
    layout = {"data_layout": data_layout}
    local = [run("batch_norm_grad_sums", x, *saved, g, **layout)[0] for x, g in zip(xs, gs, strict=True)]
    sums = added(local)
    return [
        run("batch_norm_grad_with_sums", x, scale, bias, *saved, g, share, sums, **layout)
        for x, g, share in zip(xs, gs, local, strict=True)
    ]


def split(x: Any, rows: Sequence[int]) -> list[Any]:
    return np.split(x, np.cumsum(rows)[:-1])


def near(got: Any, want: Any, dtype: str) -> None:
    assert got.dtype == want.dtype
    size = max(float(np.abs(want.astype(np.float64)).max()), 1e-3)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=ROUNDING[dtype] * size)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("with_scale", [True, False])
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("kind", INNER)
@pytest.mark.parametrize("devices", SPLITS)
def test_as_one_batch(devices: int, kind: str, dtype: str, with_scale: bool, with_bias: bool) -> None:
    shape = (11, *INNER[kind], 4) if kind == "NHWC" else (11, 4, *INNER[kind])
    layout = "NHWC" if kind == "NHWC" else "NCHW"
    x, g = ((rng.standard_normal(shape) * 2 + 1).astype(dtype) for _ in range(2))
    channels = [(rng.random(4) + 0.5).astype(dtype) for _ in range(4)]
    scale, bias = channels[0] if with_scale else None, channels[1] if with_bias else None
    attrs = {"data_layout": layout, "momentum": 0.7, "epsilon": 1e-3}
    whole = run("batch_norm", x, scale, bias, *channels[2:], **attrs)
    xs, gs = split(x, SPLITS[devices]), split(g, SPLITS[devices])
    parts = forward(xs, scale, bias, *channels[2:], **attrs)
    near(np.concatenate([part[0] for part in parts]), whole[0], dtype)
    for part in parts:
        for ours, first, want in zip(part[1:], parts[0][1:], whole[1:], strict=True):
            np.testing.assert_array_equal(ours, first)  # the same bits on all devices
            near(ours, want, dtype)

    # The gradients of the statistics are not taken; those of scale and bias are each device's own share
    want = run("batch_norm_grad", x, scale, bias, *channels[2:], *whole[3:], g, *[None] * 4, **attrs)
    grads = backward(xs, gs, scale, bias, parts[0][3:], layout)
    near(np.concatenate([part[0] for part in grads]), want[0], dtype)
    for k, has in ((1, with_scale), (2, with_bias)):
        shares = [part[k] for part in grads]
        if has:
            near(added(shares), want[k], dtype)
        else:
            assert shares == [None] * len(shares)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_shares_of_scale_and_bias_are_local(dtype: str) -> None:
    """Bit for bit what batch_norm_grad gives a device, with the statistics of all of them."""
    x, g = (rng.standard_normal((9, 3, 4)).astype(dtype) for _ in range(2))
    scale, bias, mean, variance = rng.random((4, 3)).astype(dtype)
    xs, gs = split(x, [2, 7]), split(g, [2, 7])
    saved = forward(xs, scale, bias, mean, variance)[0][3:]
    grads = backward(xs, gs, scale, bias, saved, "NCHW")
    for mine, x_part, g_part in zip(grads, xs, gs, strict=True):
        alone = run("batch_norm_grad", x_part, scale, bias, mean, variance, *saved, g_part, *[None] * 4)
        np.testing.assert_array_equal(mine[1], alone[1])
        np.testing.assert_array_equal(mine[2], alone[2])
        assert not np.array_equal(mine[0], alone[0])


@pytest.mark.parametrize("dtype", ROUNDING)
def test_the_backward_of_one_device_is_batch_norm_grad(dtype: str) -> None:
    x, g = (rng.standard_normal((9, 3, 4)).astype(dtype) for _ in range(2))
    scale, bias, mean, variance = rng.random((4, 3)).astype(dtype)
    saved = run("batch_norm", x, scale, bias, mean, variance)[3:]
    (mine,) = backward([x], [g], scale, bias, saved, "NCHW")
    want = run("batch_norm_grad", x, scale, bias, mean, variance, *saved, g, *[None] * 4)
    for a, b in zip(mine, want, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def batch_statistics(xs: Sequence[Any], dtype: str, c: int = 1) -> tuple[Any, Any]:
    """Mean and variance, as moving statistics of that dtype show them under a momentum of 0."""
    zeros = np.zeros(c, dtype)
    return forward(xs, None, None, zeros, zeros, momentum=0.0)[0][1:3]


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_a_large_mean_in_single_precision(devices: int, offset: float) -> None:
    """Against float64 on the very same rows: the variance keeps single precision's digits."""
    rows = np.multiply(SPLITS[devices], 400)
    x = (rng.standard_normal((int(rows.sum()), 3)) + offset).astype(np.float32)
    xs, exact = split(x, rows), x.astype(np.float64)
    mean, variance = batch_statistics(xs, "float64", 3)
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-7, atol=1e-6)
    np.testing.assert_allclose(variance, exact.var(0), rtol=1e-5)
    y = np.concatenate([part[0] for part in forward(xs, None, None, *np.zeros((2, 3), np.float32), epsilon=0.0)])
    ulp = np.spacing(np.float32(offset))  # the mean is rounded to it before it is subtracted
    np.testing.assert_allclose(y, (exact - exact.mean(0)) / exact.std(0), rtol=1e-5, atol=2e-5 + ulp)


def test_plain_sums_of_squares_would_not_do() -> None:
    """What the anchors are for: float64 rows with a large mean."""
    x = rng.standard_normal((4000, 1)) + 1e6
    exact = x.astype(np.longdouble).var()
    assert abs((x * x).mean() - x.mean() ** 2 - exact) > 1e-4 * exact
    assert abs(batch_statistics(split(x, [1000, 2500, 500]), "float64")[1][0] - exact) < 1e-13 * exact


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(-(2**10), 2**10), max_size=20), min_size=1, max_size=6),
    st.integers(-(2**40), 2**40),
    st.integers(-30, 30),
)
def test_statistics_of_any_split(parts: list[list[int]], offset: int, exponent: int) -> None:
    """Rows of any size, mean and split, empty ones among them; the answer in rational numbers."""
    values = [Fraction(v + offset) * Fraction(2) ** exponent for part in parts for v in part]
    if not values:
        return
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / len(values)
    xs = [np.ldexp(np.array(part, np.float64).reshape(-1, 1) + offset, exponent) for part in parts]
    got_mean, got_variance = batch_statistics(xs, "float64")
    deviation = float(variance) ** 0.5
    assert abs(got_mean[0] - float(mean)) <= 1e-15 * abs(float(mean)) + 1e-14 * deviation
    # An anchor is off by at most 2**-14 of the mean; with a deviation below that, its square is what is rounded
    off = abs(float(mean)) * 2.0**-14
    assert abs(got_variance[0] - float(variance)) <= 1e-13 * float(variance) + 4e-15 * off * off


def test_devices_with_rows_of_different_size() -> None:
    """Each device's anchor is another one."""
    xs = [rng.standard_normal((n, 2, 3)) * spread + mean for n, mean, spread in ((3, 1e3, 1), (5, -2, 0.1), (1, 0, 9))]
    whole = np.concatenate(xs)
    mean, variance = batch_statistics(xs, "float64", 2)
    np.testing.assert_allclose(mean, whole.mean((0, 2)), rtol=1e-13)
    np.testing.assert_allclose(variance, whole.var((0, 2)), rtol=1e-13)


def test_constant_rows_have_no_variance() -> None:
    xs = [np.full((n, 2), 0.1, np.float32) for n in (3, 4)]
    _, _, variance, _, inverse = forward(xs, None, None, *np.zeros((2, 2), np.float32), momentum=0.0)[0]
    assert (variance >= 0).all()
    np.testing.assert_allclose(variance, 0, atol=1e-12)
    np.testing.assert_allclose(inverse, 1e-5**-0.5, rtol=1e-5)


def test_not_a_number_stays_in_its_channel() -> None:
    x = rng.standard_normal((6, 3)).astype(np.float32)
    x[1, 0], x[5, 2] = np.nan, np.inf
    y = np.concatenate([part[0] for part in forward(split(x, [2, 4]), None, None, *np.zeros((2, 3), np.float32))])
    assert np.isnan(y[:, [0, 2]]).all()
    assert np.isfinite(y[:, 1]).all()


def test_half_precision_rows_with_single_precision_channels() -> None:
    """The usual mixture: statistics and gradients of scale and bias keep single precision."""
    x, g = ((rng.standard_normal((64, 3)) + 100).astype(np.float16) for _ in range(2))
    scale, bias, mean, variance = rng.random((4, 3)).astype(np.float32)
    xs, gs = split(x, [60, 4]), split(g, [60, 4])
    parts = forward(xs, scale, bias, mean, variance, momentum=0.0)
    assert [out.dtype for out in parts[0]] == [np.float16, *[np.float32] * 4]
    np.testing.assert_allclose(parts[1][1], x.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(parts[1][2], x.astype(np.float64).var(0), rtol=1e-5)
    grads = backward(xs, gs, scale, bias, parts[0][3:], "NCHW")
    assert [out.dtype for out in grads[0]] == [np.float16, np.float32, np.float32]
    np.testing.assert_allclose(grads[0][2] + grads[1][2], g.astype(np.float64).sum(0), rtol=1e-6)


def test_no_rows_anywhere() -> None:
    empty = np.zeros((0, 3, 2), np.float32)
    with pytest.raises(InvalidArgument, match=r"at least one value per channel\n.*rows on some device"):
        forward([empty, empty], None, None, *np.zeros((2, 3), np.float32))


WITH_SUMS = "batch_norm_with_sums"
X32, C32 = Spec((-1, 3), float32), Spec((3,), float32)


@pytest.mark.parametrize(
    ("type", "specs", "attrs", "message"),
    [
        ("batch_norm_sums", [Spec((3,), float32)], {}, "at least 2 dimensions"),
        ("batch_norm_sums", [Spec((4, 3), as_dtype("int64"))], {}, "floating-point"),
        ("batch_norm_sums", [X32], {"data_layout": "CN"}, "layout of batch_norm is unknown"),
        (WITH_SUMS, [X32, None, None, C32, C32, Spec((3, 3), float64)], {}, r"Sums.*\n.*\[6, 3\]\n.*\[3, 3\]"),
        (WITH_SUMS, [X32, None, None, C32, C32, Spec((6, 3), float32)], {}, r"Sums.*\n.*float64\n.*float32"),
        (WITH_SUMS, [X32, Spec((2,), float32), None, C32, C32, Spec((6, 3), float64)], {}, "Scale"),
        ("batch_norm_grad_sums", [X32, Spec((4,), float32), C32, X32], {}, "Mean of batch_norm"),
        (
            "batch_norm_grad_with_sums",
            [X32, None, None, C32, C32, X32, Spec((3, 2), float64), Spec((3, 3), float64)],
            {},
            r"LocalSums.*\n.*\[3, 3\]\n.*\[3, 2\]",
        ),
    ],
)
def test_what_is_refused(type: str, specs: list[Any], attrs: dict[str, Any], message: str) -> None:
    op = find_op(type)
    with pytest.raises(InvalidArgument, match=message):
        op.infer(*specs, **op.complete(attrs))
