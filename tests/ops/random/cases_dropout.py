"""Dropout: what is kept is scaled, what is not is 0, and the share of both fits the probability."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case

rng = np.random.default_rng(22)
X = rng.standard_normal((8, 5)) + 4  # never 0: a 0 in the result was dropped
UP, DOWN = "upscale_in_train", "downgrade_in_infer"


def kept_times(factor: float, x: np.ndarray = X) -> Callable[..., None]:
    """A check: kept elements are `factor` times their input, the others 0."""

    def check(out: np.ndarray, mask: np.ndarray) -> None:
        assert mask.dtype == np.uint8
        assert set(np.unique(mask)) <= {0, 1}
        rtol = {"float16": 4e-3, "float32": 1e-6, "float64": 1e-12}[out.dtype.name]
        np.testing.assert_allclose(out, x * np.broadcast_to(mask, x.shape) * factor, rtol=rtol)

    return check


def with_mask_of(shape: tuple[int, ...], factor: float) -> Callable[..., None]:
    def check(out: np.ndarray, mask: np.ndarray) -> None:
        assert mask.shape == shape
        assert 0 < mask.sum() < mask.size
        kept_times(factor)(out, mask)

    return check


def constant(factor: float, kept: int) -> Callable[..., Any]:
    return lambda x, **attrs: (x * factor, np.full(x.shape, kept))


CASES = [
    Case(
        "dropout",
        [X],
        {"dropout_prob": 0.3, "dropout_implementation": UP},
        check=kept_times(1 / 0.7),
        id="up",
    ),
    Case("dropout", [X], {"dropout_prob": 0.3}, check=kept_times(1.0), id="down"),
    Case(
        "dropout",
        [X],
        {"axis": (0,), "dropout_implementation": UP},
        check=with_mask_of((8, 1), 2.0),
        id="rows",
        size0=True,
    ),
    Case("dropout", [X], {"axis": (-1,)}, check=with_mask_of((1, 5), 1.0), id="columns", size0=False),
    Case("dropout", [X], {"axis": (0, 1)}, check=with_mask_of((8, 5), 1.0), id="both axes"),
    Case("dropout", [X], {"dropout_prob": 0.0, "dropout_implementation": UP}, constant(1.0, 1), id="none"),
    Case("dropout", [X], {"dropout_prob": 1.0, "dropout_implementation": UP}, constant(0.0, 0), id="all, up"),
    Case("dropout", [X], {"dropout_prob": 1.0}, constant(0.0, 0), id="all, down"),
    Case("dropout", [X], {"is_test": True, "dropout_implementation": UP}, constant(1.0, 1), id="test, up"),
    Case("dropout", [X], {"is_test": True, "dropout_prob": 0.2}, constant(0.8, 1), id="test, down"),
]
