"""Fetched values of several devices made one: rules X-41, X-42 and X-45, at the functions the engine calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import static
from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType
from workbench.executors.fetching.merge import Merger, check_merge, merge
from workbench.framework.values.rows import Rows
from workbench.ops.flow.control_flow import Stack

FIRSTS = st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=1, max_size=6)
TAILS = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((1,), (2,)), ((1, 2), (2, 2)), ((2,), (4,)), ((), (2,)), ((0, 3), (0, 3)), ((2, 0), (4, 0))],
)
def test_x41_arrays_one_after_the_other(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    values = [np.full(shape, device, np.float32) for device in range(2)]
    merged = merge("v", values)
    assert merged is not None
    assert merged.shape == expected == check_merge("v", [shape] * 2, training=True)
    assert merged.dtype == np.float32
    assert merged.tolist() == np.concatenate([np.atleast_1d(v) for v in values]).tolist()


def test_x45_losses_are_not_averaged() -> None:
    losses = [np.array([0.5], np.float32), np.array([2.5], np.float32)]
    assert np.asarray(merge("loss", losses)).tolist() == [0.5, 2.5]


@given(FIRSTS, TAILS, st.integers(0, 99))
def test_merging_is_concatenating_what_there_is(firsts: list[int | None], tail: tuple[int, ...], seed: int) -> None:
    r = np.random.default_rng(seed)
    values = [None if rows is None else r.random((rows, *tail)) for rows in firsts]
    given_values = [v for v in values if v is not None]
    merged = merge("v", values)
    if not given_values:
        assert merged is None
        return
    assert merged is not None
    assert np.array_equal(merged, np.concatenate(given_values)) or not merged.size
    assert merged.shape[1:] == tail
    assert not any(np.shares_memory(merged, v) for v in given_values)


@given(FIRSTS, TAILS)
def test_a_prepared_merger_fills_again_and_again(firsts: list[int | None], tail: tuple[int, ...]) -> None:
    shapes = [None if rows is None else (rows, *tail) for rows in firsts]
    merger = Merger("v", shapes, "int32")
    for step in range(2):
        values = [None if s is None else np.full(s, 10 * step + i, "int32") for i, s in enumerate(shapes)]
        out = merger.allocate()
        merger.fill(out, values)
        expected = merge("v", values)
        assert (out is None) == (expected is None)
        assert out is None or np.array_equal(out, np.asarray(expected))


def test_memory_is_taken_before_the_values_are_known() -> None:
    """A parameter is fetched after its update, by a commit that allocates nothing."""
    devices = [np.zeros((2, 3), np.float32) for _ in range(2)]
    merger = Merger("w", [d.shape for d in devices], np.float32)
    out = merger.allocate()
    for device, array in enumerate(devices):
        array += device + 1
    merger.fill(out, devices)
    devices[0] += 100
    assert np.asarray(out).tolist() == [[1, 1, 1]] * 2 + [[2, 2, 2]] * 2


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 2)])
def test_a_single_device_gives_a_copy_of_the_same_shape(shape: tuple[int, ...]) -> None:
    value = np.ones(shape)
    merged = merge("v", [value])
    assert merged is not None
    assert merged.shape == shape
    assert not np.shares_memory(merged, value)
    assert np.array_equal(merged, value)


def test_views_are_copied_too() -> None:
    base = np.arange(12.0).reshape(3, 4)
    merged = merge("v", [base.T, base.T[:2]])
    assert np.array_equal(np.asarray(merged), np.concatenate([base.T, base.T[:2]]))


def test_x42_empty_and_missing_pieces_are_left_out() -> None:
    """Also where their other dimensions would not fit."""
    merged = merge("v", [None, np.empty((0, 7)), np.ones((2, 3)), None, np.zeros((1, 3))])
    assert np.asarray(merged).tolist() == [[1, 1, 1]] * 2 + [[0, 0, 0]]
    assert np.asarray(merge("v", [np.array(3.0), None])).tolist() == [3.0]
    assert merge("v", [None, None]) is None
    assert np.asarray(merge("v", [None, np.empty((0, 7))])).shape == (0, 7)


MISFITS: list[list[Any]] = [
    [(2, 3), (2, 4)],
    [(2, 3), (2,)],
    [(1,), (1, 1)],
    [(), (2, 2)],
    [None, (2, 3), (0,), (4, 5)],
]


@pytest.mark.parametrize("shapes", MISFITS)
@pytest.mark.parametrize("training", [True, False])
def test_x42_shapes_that_do_not_join(shapes: list[Any], training: bool) -> None:
    values = [None if s is None else np.ones(s) for s in shapes]
    with pytest.raises(EnforceNotMet, match="fetch 'v': the devices' values cannot be merged on dimension 0") as error:
        merge("v", values, training)
    assert ("return_merged=False" in str(error.value)) == training
    with pytest.raises(InvalidArgument):
        Merger("v", shapes, "float32", training)


def test_x42_the_whole_message() -> None:
    with pytest.raises(InvalidArgument) as error:
        check_merge("out", [(2, 3), None, (2, 4)], training=True, places=static.cpu_places(3))
    assert str(error.value) == (
        "fetch 'out': the devices' values cannot be merged on dimension 0; "
        "fetch it from every device with Executor.run(..., return_merged=False)\n"
        "  expected: equal ranks, and equal dimensions after the first\n"
        "  got:      [2, 3] on cpu:0, [2, 4] on cpu:2"
    )


def test_different_dtypes_are_not_joined() -> None:
    with pytest.raises(InvalidType, match="'v': the devices' values have different dtypes: float32, float64"):
        merge("v", [np.ones(1, np.float32), np.ones(1)])


def test_sparse_gradients_become_dense_first() -> None:
    rows = Rows(np.array([2, 0, 2]), np.ones((3, 2), np.float32), 3)
    merged = merge("w@GRAD", [rows, np.zeros((3, 2), np.float32)])
    assert np.asarray(merged).tolist() == [[1, 1], [0, 0], [2, 2], [0, 0], [0, 0], [0, 0]]


def test_what_a_loop_keeps_cannot_be_merged() -> None:
    with pytest.raises(InvalidArgument, match="cannot be fetched"):
        merge("saved", [Stack(), Stack()])
