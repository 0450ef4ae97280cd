"""Images of other sizes, in the precision of what is resized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.programs import dynamic, static
from workbench.nn import functional as F


def between(values: np.ndarray, wanted: int) -> np.ndarray:
    """Entries of a line with their middles aligned, by NumPy's own interpolation."""
    places = (np.arange(wanted) + 0.5) * len(values) / wanted - 0.5
    return np.interp(places, np.arange(len(values)), values)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-14), ("float32", 1e-6), ("float16", 2e-3)])
def test_linear_interpolation_is_as_precise_as_its_dtype(dtype: str, tolerance: float) -> None:
    image = np.random.default_rng(3).random((1, 2, 4, 5)).astype(dtype)

    def resized(x: Any) -> Any:
        return F.interpolate(x, [3, 7], mode="bilinear")

    wide = image.astype(np.float64)
    wanted = np.apply_along_axis(between, 3, np.apply_along_axis(between, 2, wide, 3), 7)
    np.testing.assert_allclose(known(resized, image), wanted, atol=tolerance)


def test_cubic_interpolation_of_float64_keeps_polynomials() -> None:
    """Weights of float32 would move a constant by 1e-8, and refuse float64 images."""
    image = np.full((1, 1, 5, 6), 1 / 3)
    wanted = np.full((1, 1, 9, 4), 1 / 3)
    np.testing.assert_allclose(known(lambda x: F.interpolate(x, [9, 4], mode="bicubic"), image), wanted, rtol=1e-14)


def known(build: Any, image: np.ndarray) -> np.ndarray:
    """The result at once, after checking that a program gives the same; sizes of images are known in it."""
    value = dynamic(build, image)
    assert value.dtype == image.dtype
    np.testing.assert_array_equal(static(build, image, known=True)[0], value)
    return value
