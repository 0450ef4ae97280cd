"""Element types and places."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values import dtype as D
from workbench.framework.values.dtype import as_dtype, promote
from workbench.framework.values.place import CPUPlace, CUDAPlace

NAMES = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_is_found_by_every_way_of_writing_it(name: str) -> None:
    dtype = as_dtype(name)
    assert dtype.name == f"{dtype}" == name and str(dtype) == f"paddle.{name}"
    assert as_dtype(dtype) is as_dtype(dtype.numpy) is as_dtype(f"paddle.{name}") is dtype
    assert dtype == name and dtype == dtype.numpy and dtype == f"paddle.{name}"
    assert dtype.itemsize == dtype.numpy.itemsize
    assert np.zeros(1, dtype.numpy).dtype == dtype.numpy


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    assert D.bfloat16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert as_dtype(ml_dtypes.bfloat16) is D.bfloat16


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (float, "float64"),
        ("float", "float32"),
        ("double", "float64"),
        (int, "int64"),
        (bool, "bool"),
        (np.int8, "int8"),
    ],
)
def test_aliases(value: object, name: str) -> None:
    assert as_dtype(value).name == name


@pytest.mark.parametrize("value", ["float31", "complex64", np.complex64, object, None, 3, "", np.dtype("U3")])
def test_what_is_no_dtype_is_refused(value: object) -> None:
    with pytest.raises(InvalidType, match="is not a dtype"):
        as_dtype(value)


def test_the_message_offers_the_closest_name() -> None:
    with pytest.raises(InvalidType, match=r"'flaot32' is not a dtype; .* Did you mean 'float32'\?"):
        as_dtype("flaot32")


def test_kinds() -> None:
    kinds = {d.name: (d.is_float, d.is_integer) for d in D.ALL}
    assert kinds["bfloat16"] == kinds["float16"] == (True, False)
    assert kinds["uint8"] == kinds["int64"] == (False, True)
    assert kinds["bool"] == (False, False)


def test_copies_are_the_same_object() -> None:
    assert copy.deepcopy(D.int8) is D.int8
    assert pickle.loads(pickle.dumps(D.bool_)) is D.bool_


def test_it_is_equal_to_nothing_else() -> None:
    assert D.float32 != "float64" and D.float32 != np.float64 and D.float32 != 4 and D.float32 != D.float64
    assert len({*D.ALL, as_dtype("float32")}) == len(NAMES)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float32", "int64", "float32"),
        ("int32", "float16", "float16"),
        ("int32", "int64", "int64"),
        ("uint8", "int8", "int16"),
        ("float16", "float64", "float64"),
        ("bool", "int32", "int32"),
        ("bfloat16", "bfloat16", "bfloat16"),
    ],
)
def test_promotion(a: str, b: str, expected: str) -> None:
    assert promote(as_dtype(a), as_dtype(b)).name == promote(as_dtype(b), as_dtype(a)).name == expected


def test_places_are_values() -> None:
    assert CPUPlace() == CPUPlace(0) != CPUPlace(1)
    assert CUDAPlace(0) != CPUPlace(0)
    assert len({CPUPlace(), CPUPlace(0), CUDAPlace(0), CUDAPlace(1)}) == 3
    assert [str(CPUPlace(2)), repr(CPUPlace()), repr(CUDAPlace(1))] == ["cpu:2", "CPUPlace()", "CUDAPlace(1)"]
    assert CUDAPlace(3).get_device_id() == 3


@pytest.mark.parametrize("index", [True, "0", 1.0, None])
def test_an_index_is_an_int(index: object) -> None:
    with pytest.raises(InvalidType, match="a device index is an int"):
        CUDAPlace(index)  # type: ignore[arg-type]


def test_an_index_is_not_negative() -> None:
    with pytest.raises(InvalidArgument, match=">= 0, got -1"):
        CPUPlace(-1)
