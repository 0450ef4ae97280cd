"""Deformable convolution against sums over taps in NumPy, and its gradients against differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import Session, program
from workbench.framework.notice import Notice
from workbench.ops.conv.convolutions.deformable import deform_conv2d

RNG = np.random.default_rng(41)
CASES: dict[str, dict[str, Any]] = {
    "plain": {"padding": 1},
    "groups": {"stride": 2, "padding": 1, "groups": 2, "deformable_groups": 2},
    "sparse taps": {"padding": 2, "dilation": 2, "deformable_groups": 2},
    "uneven": {"stride": (1, 2), "padding": (0, 1), "dilation": (2, 1), "groups": 2},
}


def both(value: Any) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def pixel(image: np.ndarray, y: float, x: float) -> float:
    """Between pixels, by how near the four around are; outside there is 0."""
    top, left = math.floor(y), math.floor(x)
    total = 0.0
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            total += image[row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def reference(x: Any, offset: Any, weight: Any, mask: Any, **options: Any) -> np.ndarray:
    (sy, sx), (py, px), (dy, dx) = (
        both(options.get(k, d)) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    groups, moved = options.get("groups", 1), options.get("deformable_groups", 1)
    (n, channels, _, _), (filters, depth, kh, kw) = x.shape, weight.shape
    out = np.zeros((n, filters, *offset.shape[2:]))
    for b, f, r, c, d, i, j in np.ndindex(*out.shape, depth, kh, kw):
        channel = f // (filters // groups) * depth + d
        tap = channel // (channels // moved) * kh * kw + i * kw + j
        down, right = offset[b, 2 * tap, r, c], offset[b, 2 * tap + 1, r, c]
        value = pixel(x[b, channel], r * sy - py + i * dy + down, c * sx - px + j * dx + right)
        out[b, f, r, c] += weight[f, d, i, j] * value * (1.0 if mask is None else mask[b, tap, r, c])
    return out


def operands(**options: Any) -> list[np.ndarray]:
    """x, offset, weight and mask for a filter of 3 x 2."""
    (sy, sx), (py, px), (dy, dx) = (
        both(options.get(k, d)) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    out = (5 + 2 * py - 2 * dy - 1) // sy + 1, (4 + 2 * px - dx - 1) // sx + 1
    taps = options.get("deformable_groups", 1) * 6
    shapes = (2, 4, 5, 4), (2, 2 * taps, *out), (2, 4 // options.get("groups", 1), 3, 2), (2, taps, *out)
    return [RNG.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_values_and_gradients(options: dict[str, Any], masked: bool) -> None:
    x, offset, weight, mask = operands(**options)
    given = [x, offset * 1.5, weight, *([mask] if masked else [])]
    cotangent: np.ndarray | None = None

    def computed(arrays: list[np.ndarray]) -> np.ndarray:
        return reference(*arrays[:3], arrays[3] if masked else None, **options)

    tensors = [wb.to_tensor(a, stop_gradient=False) for a in given]
    y = deform_conv2d(*tensors[:3], mask=tensors[3] if masked else None, **options)
    expected = computed(given)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
    cotangent = RNG.standard_normal(expected.shape)
    wb.sum(y * wb.to_tensor(cotangent)).backward()
    for i, tensor in enumerate(tensors):
        step = RNG.standard_normal(given[i].shape)
        ahead, behind = ([*given[:i], given[i] + s * 1e-6 * step, *given[i + 1 :]] for s in (1, -1))
        slope = ((computed(ahead) - computed(behind)) * cotangent).sum() / 2e-6
        assert float((tensor.grad.numpy() * step).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_without_offsets_it_is_a_convolution_and_offsets_still_learn() -> None:
    """At -1, one row above the image, nothing is read or learned; on pixels the slope to the next one counts."""
    x, weight = RNG.standard_normal((1, 2, 4, 4)), RNG.standard_normal((3, 2, 3, 3))
    offset = wb.to_tensor(np.zeros((1, 18, 4, 4)), stop_gradient=False)
    y = deform_conv2d(wb.to_tensor(x), offset, wb.to_tensor(weight), padding=1)
    plain = wb.nn.functional.conv2d(wb.to_tensor(x), wb.to_tensor(weight), padding=1)
    np.testing.assert_allclose(y.numpy(), plain.numpy(), atol=1e-12)
    wb.sum(y).backward()
    slopes = offset.grad.numpy()[0]
    assert not slopes[:6, 0].any() and slopes[6:, 0].any()
    below = (weight[:, :, 1, 1] * (x[0, :, 2, 1] - x[0, :, 1, 1])).sum()
    assert slopes[8, 1, 1] == pytest.approx(below)


def test_the_layer_makes_its_parameters_and_trains() -> None:
    with program() as (main, startup):
        x = wb.static.data("x", [None, 3, 6, 6])
        offset, mask = wb.static.data("offset", [None, 18, 6, 6]), wb.static.data("mask", [None, 9, 6, 6])
        y = wb.static.nn.deform_conv2d(x, offset, mask, num_filters=2, filter_size=3, padding=1)
        loss = wb.mean(y * y)
        wb.optimizer.SGD(0.1).minimize(loss)
    assert y.shape == (-1, 2, 6, 6)
    assert [list(p.shape) for p in main.all_parameters()] == [[2, 3, 3, 3], [2]]
    session = Session(main, startup)
    feed = {"x": RNG.standard_normal((4, 3, 6, 6)), "offset": RNG.standard_normal((4, 18, 6, 6))}
    feed = {name: value.astype(np.float32) for name, value in feed.items()}
    losses = [session.run([loss], mask=np.ones((4, 9, 6, 6), np.float32), **feed)[0].item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 2}, "do not divide"),
        ({"deformable_groups": 3}, "do not divide"),
        ({"stride": 0}, "strides and dilations >= 1"),
        ({"dilation": 4}, "beyond the image"),
        ({"padding": 2}, "offset"),
        ({"padding": 1, "mask": wb.zeros([1, 9, 3, 3], "float64")}, "mask"),
    ],
)
def test_what_it_refuses(options: dict[str, Any], message: str) -> None:
    x, offset, weight = (wb.zeros(shape, "float64") for shape in ([1, 2, 4, 4], [1, 18, 4, 4], [3, 2, 3, 3]))
    with pytest.raises(ValueError, match=message):
        deform_conv2d(x, offset, weight, **{"padding": 1, **options})


def test_an_option_without_effect_is_told() -> None:
    with program():
        x, offset = wb.static.data("x", [None, 3, 6, 6]), wb.static.data("offset", [None, 18, 6, 6])
        with pytest.warns(Notice, match="im2col_step has no effect"):
            wb.static.nn.deform_conv2d(x, offset, None, 2, 3, padding=1, im2col_step=4)
