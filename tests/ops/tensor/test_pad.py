"""Padding against numpy.pad, and the two ways of naming the dimensions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.ops.programs import both, check_second_derivative, dynamic
from workbench.errors import InvalidArgument
from workbench.ops.tensor.pad import UNPAD

F = wb.nn.functional
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
X = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(2, 4), min_size=3, max_size=5),
    st.sampled_from(["constant", *MODES]),
    st.lists(st.integers(0, 5), min_size=6, max_size=6),
    st.booleans(),
)
def test_pad_is_numpy_s(dims: list[int], mode: str, sizes: list[int], channels_last: bool) -> None:
    x = np.arange(float(np.prod(dims))).reshape(dims)
    axes = list(range(1, len(dims) - 1)) if channels_last else list(range(2, len(dims)))
    widths = [(0, 0)] * len(dims)
    pad: list[int] = []
    for i, axis in enumerate(reversed(axes)):  # the last spatial dimension is named first
        room = {"constant": 5, "reflect": dims[axis] - 1, "replicate": 5, "circular": dims[axis]}[mode]
        widths[axis] = (min(sizes[2 * i], room), min(sizes[2 * i + 1], room))
        pad += widths[axis]
    formats = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
    more = {"constant_values": 2.5} if mode == "constant" else {}
    want = np.pad(x, widths, mode=MODES.get(mode, "constant"), **more)
    got = dynamic(lambda x: F.pad(x, pad, mode, 2.5, formats[len(dims)][channels_last]), x)
    np.testing.assert_array_equal(got, want)


def test_two_sizes_per_dimension_from_the_first_one() -> None:
    got = both(lambda x: F.pad(x, [1, 0, 0, 2, 0, 0, 3, 1], value=9), X)
    np.testing.assert_array_equal(got, np.pad(X, [(1, 0), (0, 2), (0, 0), (3, 1)], constant_values=9))
    np.testing.assert_array_equal(dynamic(lambda x: F.pad(x, [1, 2]), X[0, 0, 0]), np.pad(X[0, 0, 0], (1, 2)))


def test_default_format_of_other_ranks() -> None:
    np.testing.assert_array_equal(both(lambda x: F.pad(x, [1, 2]), X[0]), np.pad(X[0], [(0, 0), (0, 0), (1, 2)]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: F.pad(x, [1, 2, 3]), r"4 sizes, or 8 for all dimensions(.|\n)*\[1, 2, 3\]"),
        (lambda x: F.pad(x, [0] * 8, "reflect"), "4 sizes"),
        (lambda x: F.pad(x, [1, 1, -1, 1]), "sizes >= 0"),
        (lambda x: F.pad(x, [5, 0, 0, 0], "reflect"), r"at most 4 entries from dimension 3(.|\n)*got: *5"),
        (lambda x: F.pad(x, [0, 0, 0, 5], "circular"), r"at most 4 entries from dimension 2(.|\n)*got: *5"),
        (lambda x: F.pad(x, [1, 1, 1, 1], "mirror"), "unknown mode(.|\n)*'reflect'(.|\n)*'mirror'"),
        (lambda x: F.pad(x, [1, 1, 1, 1], data_format="HWC"), "data_format is one of.*'HWC'"),
        (lambda x: F.pad(x[0, 0], [1, 1]), "3, 4 or 5 dimensions"),
    ],
)
def test_what_is_refused(call: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        call(wb.to_tensor(X))


@pytest.mark.parametrize("mode", ["constant", *MODES])
def test_second_derivatives(mode: str) -> None:
    check_second_derivative(lambda x: F.pad(x * x, [1, 2, 0, 1], mode), X[:1] / 20 - 1.3)


@pytest.mark.parametrize("mode", ["constant", "circular"])
def test_no_more_is_taken_away_than_there_is(mode: str) -> None:
    """A size below 0 would be taken for one nobody knows, and anything fit it."""
    with pytest.raises(InvalidArgument, match="unpad takes 3 entries from dimension 0"):
        UNPAD(wb.ones([2, 4]), paddings=[1, 2, 0, 1], mode=mode)
    assert mode != "constant" or UNPAD(wb.ones([3, 4]), paddings=[1, 2, 0, 1], mode=mode).shape == [0, 3]
