"""What tests of prebound calls share: memory full of garbage, running, comparing bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.framework.expr import bound_steps

FLOATS = ("float16", "float32", "float64")
LONG = bound_steps._LONG
FULL = np.random.default_rng(3).standard_normal((32, 64)).astype("float32")


@dataclass
class Scratch:
    """Temporary memory full of garbage; counts what is asked for."""

    arrays: list[np.ndarray] = field(default_factory=list)

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        array = np.empty(shape, dtype)
        self.arrays.append(array)
        self.spoil()
        return array

    def spoil(self) -> None:
        for array in self.arrays:
            array.view("uint8" if array.ndim else array.dtype)[...] = 1


def run(calls: Sequence[Callable[[], Any]] | None, scratch: Scratch) -> None:
    assert calls is not None
    scratch.spoil()
    with np.errstate(all="ignore"):
        for call in calls:
            call()


def same_bits(got: Any, want: Any, what: str = "") -> None:
    """Equal values, NaN where NaN is due, and the same signs of zeros."""
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    np.testing.assert_array_equal(got, want, err_msg=what)
    if want.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number], err_msg=what)


def stale(want: Any) -> Any:
    """An out with something else in it."""
    return None if want is None else np.full_like(want, 1, order="C")
