"""Pooling against a loop over windows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_convolutions import DividedWriter, Writer
from workbench.executors.lowering.tape.conv import pooling
from workbench.executors.lowering.tape.conv.pooling import pool2d, pool2d_grad
from workbench.ops.conv.pools.pool import POOL, SPREAD

ATTRS: dict[str, Any] = {
    "pooling_type": "max", "ksize": [1, 1], "strides": [1, 1], "paddings": [0, 0, 0, 0],
    "padding_algorithm": "EXPLICIT", "global_pooling": False, "adaptive": False, "ceil_mode": False, "exclusive": True,
    "data_format": "NCHW",
}  # fmt: skip


def write(writer: Any, rule: Any, attrs: dict[str, Any], out: np.ndarray, *ins: np.ndarray) -> None:
    """Write the rows of a rule."""
    row: Any = SimpleNamespace(node=SimpleNamespace(attrs=attrs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "operands", lambda writer, row: ([out], list(ins)))
        rule(writer, row)


def run(rule: Any, attrs: dict[str, Any], out: np.ndarray, *ins: np.ndarray, by: type[Writer] = Writer) -> np.ndarray:
    """Write and run them."""
    writer: Any = by()
    write(writer, rule, attrs, out, *ins)
    writer.run()
    return out


@st.composite
def windows(draw: Any) -> dict[str, Any]:
    """Pairs side by side, others, adaptive ones, everything."""
    attrs: dict[str, Any] = {**ATTRS, "pooling_type": draw(st.sampled_from(["max", "avg"]))}
    sizes = st.integers(1, 5)
    kind = draw(st.sampled_from(["pairs", "sliding", "adaptive", "global"]))
    if kind == "pairs":
        return attrs | {"ksize": [2, 2], "strides": [2, 2]}
    if kind == "adaptive":
        return attrs | {"adaptive": True, "ksize": [draw(st.integers(1, 9)), draw(st.integers(1, 9))]}
    if kind == "global":
        return attrs | {"global_pooling": True}
    kernel = [draw(sizes), draw(sizes)]
    return attrs | {
        "ksize": kernel, "strides": [draw(sizes), draw(sizes)],
        "paddings": [draw(st.integers(0, k - 1)) for k in kernel for _ in range(2)],
        "padding_algorithm": draw(st.sampled_from(["EXPLICIT", "SAME", "VALID"])),
        "ceil_mode": draw(st.booleans()), "exclusive": draw(st.booleans()),
    }  # fmt: skip


@st.composite
def cases(draw: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Images with ties or without, and windows; maxima also of images with numbers that are none."""
    image = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 40), st.integers(1, 40)))
    attrs, rng = draw(windows()), np.random.default_rng(draw(st.integers(0, 9)))
    x = rng.standard_normal(image)
    if draw(st.booleans()):
        x = np.round(2 * x)
    if attrs["pooling_type"] == "max":
        share = draw(st.sampled_from([0.0, 0.03, 0.5]))
        x = np.where(rng.random(image) < share, rng.choice([np.nan, -np.inf, np.inf], image), x)
    return x.astype(draw(st.sampled_from([np.float32, np.float64]))), attrs


def forward(x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray | None:
    """None where no window fits."""
    try:
        pooled: np.ndarray = POOL.forward(np, x, **attrs)
    except Exception:
        return None
    return pooled if pooled.size else None


UNIT = {4: 2.0**-24, 8: 2.0**-52}  # by the bytes of a number; that of float64 is the reference's, too


def error_of(
    windows_of: np.ndarray, attrs: dict[str, Any], image: tuple[int, ...], out: tuple[int, ...], item: int
) -> Any:
    """How far an average may be off: sums of columns are summed, then multiplied by a rounded factor."""
    sliding = not attrs["adaptive"] and not attrs["global_pooling"]
    terms = sum(attrs["ksize"]) if sliding else sum(image[2:]) + sum(out[2:])
    return (terms + 2) * UNIT[item] * windows_of


@pytest.mark.filterwarnings("ignore:invalid value")
@settings(max_examples=300, deadline=None)
@given(case=cases(), strip=st.sampled_from([1, 2**14, pooling._STRIP_BYTES]))
def test_pooling_and_its_gradient(case: tuple[np.ndarray, dict[str, Any]], strip: int) -> None:
    """Maxima and their gradients are NumPy's, whatever is treated at once; averages are near those in float64."""
    x, attrs = case
    wanted = forward(x, attrs)
    if wanted is None:
        return
    g = np.random.default_rng(1).standard_normal(wanted.shape).astype(x.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "_STRIP_BYTES", strip)
        out = run(pool2d, attrs, np.full_like(wanted, np.nan), x)
        gradient = run(pool2d_grad, attrs, np.full_like(x, np.nan), x, g)
    if attrs["pooling_type"] == "max":
        np.testing.assert_array_equal(out, wanted)
        same_bins = attrs["adaptive"] and any(o > i for o, i in zip(out.shape, x.shape, strict=True))
        error = (
            {4: 1e-5, 8: 1e-14}[x.itemsize] if same_bins else 0.0
        )  # several bins are one pixel: NumPy adds these in another order
        np.testing.assert_allclose(gradient, SPREAD.forward(np, x, g, **attrs), rtol=error, atol=error)
        return
    exact, spread = x.astype(float), g.astype(float)
    sizes = x.shape, out.shape, x.itemsize
    error = error_of(POOL.forward(np, abs(exact), **attrs), attrs, *sizes)
    assert (abs(out - POOL.forward(np, exact, **attrs)) <= error).all()
    error = error_of(SPREAD.forward(np, exact, abs(spread), **attrs), attrs, *sizes)
    assert (abs(gradient - SPREAD.forward(np, exact, spread, **attrs)) <= error).all()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 31, 32, 33, 34, 65])
@pytest.mark.parametrize("window", [2, 3])
def test_maxima_are_those_of_a_loop(size: int, window: int) -> None:
    """Windows side by side; what is left at the end belongs to none."""
    x = np.random.default_rng(0).standard_normal((2, 3, size + 2, size + 2)).astype(np.float32)
    attrs = {**ATTRS, "ksize": [window] * 2, "strides": [window] * 2}
    count = (size + 2) // window
    wanted, places = np.empty((2, 3, count, count), np.float32), np.zeros_like(x)
    for n, c, h, w in np.ndindex(*wanted.shape):
        part = x[n, c, h * window : (h + 1) * window, w * window : (w + 1) * window]
        wanted[n, c, h, w] = part.max()
        row, column = np.unravel_index(part.argmax(), part.shape)
        places[n, c, h * window + row, w * window + column] = 1
    if not count:
        return
    np.testing.assert_array_equal(run(pool2d, attrs, np.empty_like(wanted), x), wanted)
    np.testing.assert_array_equal(run(pool2d_grad, attrs, np.empty_like(x), x, np.ones_like(wanted)), places)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_blocks_of_planes_have_the_same_bits(kind: str, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 11, 9, 13)).astype(dtype)
    attrs = {**ATTRS, "pooling_type": kind, "ksize": [3, 3], "strides": [2, 1], "paddings": [1, 1, 1, 1]}
    like = POOL.forward(np, x, **attrs)
    outs = [run(pool2d, attrs, np.full_like(like, np.nan), x, by=by) for by in (Writer, DividedWriter)]
    assert (outs[0] == outs[1]).all()
    spread = [run(pool2d_grad, attrs, np.full_like(x, np.nan), x, like, by=by) for by in (Writer, DividedWriter)]
    assert (spread[0] == spread[1]).all()


@pytest.mark.parametrize("strides", [[2, 2], [1, 1]])
def test_nan_goes_through_maxima(strides: list[int]) -> None:
    x = np.zeros((1, 1, 4, 36), np.float32)
    x[0, 0, 1, 4], x[0, 0, 2, 35], x[0, 0, 0, 20] = np.nan, np.nan, np.inf
    attrs = {**ATTRS, "ksize": [2, 2], "strides": strides}
    wanted = POOL.forward(np, x, **attrs)
    np.testing.assert_array_equal(run(pool2d, attrs, np.empty_like(wanted), x), wanted)


def test_averages_are_those_of_a_loop() -> None:
    """Padding counts where averages are not exclusive."""
    x = np.random.default_rng(0).standard_normal((2, 2, 7, 9)).astype(np.float32)
    attrs = {**ATTRS, "pooling_type": "avg", "ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1, 1, 1]}
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = np.array([[padded[..., h : h + 3, w : w + 3].sum((2, 3)) for w in range(0, 9, 2)] for h in range(0, 7, 2)])
    out = run(pool2d, {**attrs, "exclusive": False}, np.empty((2, 2, 4, 5), np.float32), x)
    np.testing.assert_allclose(out, sums.transpose(2, 3, 0, 1) / 9, rtol=1e-5, atol=1e-6)
