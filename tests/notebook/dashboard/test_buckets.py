"""Long series in few buckets: compared with NumPy over the whole series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.notebook.buckets import Buckets, Points

FLOATS = st.floats(-1e6, 1e6, width=32)


@given(st.lists(st.lists(FLOATS, max_size=40), max_size=12), st.sampled_from([2, 4, 10]))
def test_buckets_sum_up_what_was_added_however_it_came(pieces: list[list[float]], limit: int) -> None:
    buckets = Buckets(limit)
    for piece in pieces:
        buckets.add(piece)
    values = np.array([v for piece in pieces for v in piece])
    message = buckets.message()
    assert buckets.taken == len(values)
    assert len(message["step"]) <= limit + 1
    edges = [0, *message["step"].astype(int)]
    assert edges[-1] == len(values)
    for (begin, end), mean, low, high in zip(pairwise(edges), message["mean"], message["low"], message["high"]):
        part = values[begin:end]
        assert len(part) == buckets.width or end == len(values)
        np.testing.assert_allclose(mean, part.mean(), rtol=1e-5, atol=1e-2)
        assert (low, high) == (np.float32(part.min()), np.float32(part.max()))


def test_a_nan_shows_in_the_mean_and_not_in_the_range() -> None:
    buckets = Buckets(2)
    buckets.add([1.0, np.nan, 3.0, 5.0])
    message = buckets.message()
    assert np.isnan(message["mean"][0]) and message["mean"][1] == 4.0
    assert (message["low"][0], message["high"][0]) == (1.0, 1.0)


@given(st.integers(1, 300), st.sampled_from([4, 7, 50]))
def test_points_keep_the_newest_and_the_first_in_order(count: int, limit: int) -> None:
    points = Points(2, limit)
    for i in range(count):
        points.add(i, 10 * i)
    steps, values = points.columns()
    assert len(steps) <= limit and steps[0] == 0 and steps[-1] == count - 1
    assert (np.diff(steps) > 0).all() and (values == 10 * steps).all()


def test_the_first_value_that_is_no_number_is_known_exactly() -> None:
    buckets = Buckets(4)
    for begin in range(0, 40, 8):
        buckets.add([np.nan if step >= 27 else 1.0 for step in range(begin + 1, begin + 9)])
    assert buckets.width > 1 and buckets.message()["broken"] == 27


def test_a_sawtooth_stays_one_however_long_it_is() -> None:
    points = Points(2, 100)
    for drop in range(5000):
        for step, held in ((1, 7.0), (100, 7.0), (100, 0.0)):
            points.add(100 * drop + step, held)
    steps, held = points.columns()
    old = held[: len(held) // 2]
    assert len(steps) <= 100 and 0.3 < (old == 0).mean() < 0.7 and set(old) == {0.0, 7.0}
