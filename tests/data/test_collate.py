"""Collating samples into batches."""

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from workbench.data import default_collate_fn, default_convert_fn
from workbench.errors import InvalidArgument, InvalidType

DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]


@given(
    st.data(),
    st.sampled_from(DTYPES),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    st.integers(1, 5),
)
def test_arrays_are_stacked(data: Any, dtype: str, shape: tuple[int, ...], count: int) -> None:
    samples = [data.draw(hnp.arrays(dtype, shape)) for _ in range(count)]
    batch = default_collate_fn(samples)
    assert batch.shape == (count, *shape) and batch.dtype == dtype
    for row, sample in zip(batch, samples):
        np.testing.assert_array_equal(row, sample)


@pytest.mark.parametrize(
    ("samples", "dtype"),
    [
        ([1, 2, 3], "int64"),
        ([1.5, 2.0], "float32"),
        ([1, 2.5], "float32"),
        ([True, False], "bool"),
        ([np.int32(1), np.int32(2)], "int32"),
        ([np.float64(1), np.float64(2)], "float64"),
    ],
)
def test_numbers(samples: list[Any], dtype: str) -> None:
    batch = default_collate_fn(samples)
    assert batch.dtype == dtype
    assert batch.tolist() == samples


def test_structure_is_kept() -> None:
    Pair = namedtuple("Pair", "image label")
    samples = [{"pair": Pair(np.full(2, i, "float32"), i), "name": f"s{i}", "list": [i, [i]]} for i in range(3)]
    batch = default_collate_fn(samples)
    assert list(batch) == ["pair", "name", "list"]
    assert batch["pair"][0].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch["pair"][1].tolist() == [0, 1, 2]
    assert batch["name"] == ["s0", "s1", "s2"]
    assert batch["list"][1][0].tolist() == [0, 1, 2]


def test_objects_with_array_protocol() -> None:
    class Boxed:
        def __init__(self, value: float) -> None:
            self.value = value

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([self.value], np.float32)

    assert default_collate_fn([Boxed(1), Boxed(2)]).tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (
            [(np.zeros((2, 2)), 0), (np.zeros((2, 2)), 1), (np.zeros((2, 3)), 2)],
            ["field [0]", "[2, 2] in sample 0", "[2, 3] in sample 2"],
        ),
        ([{"a": {"b": np.zeros(1)}}, {"a": {"b": np.zeros(2)}}], ["field ['a']['b']", "[1]", "[2]"]),
        ([np.zeros(1, "f4"), np.zeros(1, "f8")], ["the value", "float32 in sample 0", "float64 in sample 1"]),
        ([{"a": 1}, {"b": 1}], ["keys ['a']", "['b'] in sample 1"]),
        ([{"a": 1}, 5], ["keys ['a']", "int in sample 1"]),
        ([(1, 2), (1, 2), (1,)], ["2 fields in sample 0", "1 in sample 2"]),
        ([[1, 2], "ab"], ["2 fields in sample 0"]),
        ([np.int32(1), 2], ["int32 in sample 0", "int64 in sample 1"]),
        ([2**70], ["outside int64"]),
        ([], ["no samples"]),
    ],
)
def test_samples_that_do_not_fit_are_named(samples: list[Any], expected: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        default_collate_fn(samples)
    assert all(text in str(caught.value) for text in expected), str(caught.value)


@pytest.mark.parametrize("value", [None, object(), {1, 2}, 1j, np.array([None])])
def test_values_that_make_no_batch_are_refused(value: Any) -> None:
    with pytest.raises(InvalidType, match=r"field \[1\]"):
        default_collate_fn([(1, value), (2, value)])


def test_convert_keeps_one_sample() -> None:
    array = np.zeros(3)
    converted = default_convert_fn((array, {"a": (1, "x")}))
    assert converted[0] is array
    assert converted[1] == {"a": [1, "x"]}
