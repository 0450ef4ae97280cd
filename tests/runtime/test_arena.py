"""Arenas: views, alignment, memory that really goes back to the system."""

from __future__ import annotations

import gc
import mmap
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, Unavailable
from workbench.framework.values.place import CPUPlace
from workbench.runtime import arena as arena_module
from workbench.runtime.arena import ALIGN, Arena
from workbench.runtime.device import CPUDevice, Device

MIB = 1 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")


def rss() -> int:
    """Bytes of memory the process takes up."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@linux
def test_memory_is_taken_when_touched_and_given_back_while_views_stay() -> None:
    before = rss()
    arena = Arena(256 * MIB)
    view = arena.array(0, (64 * MIB,), np.float32)
    assert rss() - before < 16 * MIB and arena.resident < MIB
    view[: 32 * MIB] = 3
    assert rss() - before > 120 * MIB and arena.resident == pytest.approx(128 * MIB, rel=0.05)
    address = view.ctypes.data
    assert arena.release() == pytest.approx(128 * MIB, rel=0.05)
    assert rss() - before < 16 * MIB and arena.resident == 0
    assert view.ctypes.data == address and not view[:: MIB // 4].any()
    view[-1] = 5
    assert arena.array(256 * MIB - 4, (1,), np.float32)[0] == 5 and 0 < arena.resident <= 4 * MIB


def test_a_new_arena_and_a_released_one_read_as_zero() -> None:
    arena = Arena(1000)
    bytes_ = arena.array(0, (1000,), np.uint8)
    assert not bytes_.any()
    for _ in range(3):
        bytes_[:] = 7
        arena.release()
        assert not bytes_.any()


def test_where_the_system_takes_nothing_back_it_is_filled_with_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "_GIVES_BACK", False)
    arena_module._mincore.cache_clear()
    try:
        arena = Arena(10_000)
        view = arena.array(64, (9_000,), np.uint8)
        view[:] = 1
        assert arena.release() == 0 and not view.any()
        assert arena.resident == 3 * mmap.PAGESIZE
    finally:
        arena_module._mincore.cache_clear()


@given(st.data())
def test_views_are_those_of_an_ordinary_buffer(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["float16", "float32", "int64", "bool", ml_dtypes.bfloat16])))
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    offset = ALIGN * data.draw(st.integers(0, 4))
    nbytes = offset + int(np.prod(shape)) * dtype.itemsize
    arena = Arena(nbytes)
    view = arena.array(offset, shape, dtype)
    assert view.shape == shape and view.dtype == dtype and view.flags.c_contiguous and view.flags.writeable
    assert view.size == 0 or view.ctypes.data % ALIGN == 0
    ordinary = np.zeros(nbytes, np.uint8)
    expected = np.ndarray(shape, dtype, ordinary, offset)
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    view[...] = values
    expected[...] = values
    assert np.array_equal(arena.array(0, (nbytes,), np.uint8), ordinary)


def test_strides_transpose_and_reverse() -> None:
    arena = Arena(4096)
    arena.array(64, (2, 3), np.float32)[...] = [[0, 1, 2], [3, 4, 5]]
    assert arena.array(64, (3, 2), np.float32, (4, 12)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert arena.array(64 + 20, (6,), np.float32, (-4,)).tolist() == [5, 4, 3, 2, 1, 0]
    assert arena.array(64, (2, 4), np.float32, (4, 0)).tolist() == [[0] * 4, [1] * 4]


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (1 << 20, (1,), None),
        (97, (1,), None),
        (0, (26,), None),
        (-4, (1,), None),
        (0, (1 << 20,), None),
        (100, (1,), None),
        (0, (2,), (1 << 16,)),
        (0, (2,), (-4,)),
        (0, (-1,), None),
        (0, (2, 2), (4,)),
    ],
)
def test_what_does_not_lie_in_the_arena_is_refused(
    offset: int, shape: tuple[int, ...], strides: tuple[int] | None
) -> None:
    with pytest.raises(InvalidArgument, match="does not fit at byte"):
        Arena(100).array(offset, shape, np.float32, strides)


def test_arenas_are_counted_as_long_as_anything_holds_their_memory() -> None:
    gc.collect()
    count, size = Arena.live(), Arena.live_bytes()
    arena = Arena(10 * mmap.PAGESIZE - 5)
    other = Arena(0)
    assert (Arena.live() - count, Arena.live_bytes() - size) == (2, 11 * mmap.PAGESIZE)
    view = arena.array(0, (4,), np.float32)[1:]
    del arena, other
    gc.collect()
    assert (Arena.live() - count, Arena.live_bytes() - size) == (1, 10 * mmap.PAGESIZE)
    view[:] = 2  # still there
    del view
    gc.collect()
    assert (Arena.live(), Arena.live_bytes()) == (count, size)


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(InvalidArgument, match=">= 0, got -1"):
        Arena(-1)
    for nbytes in (1 << 62, 1 << 70):
        with pytest.raises(Unavailable, match="the system gives no"):
            Arena(nbytes)


def test_its_size_is_what_was_asked_for() -> None:
    arena = Arena(100)
    assert arena.nbytes == 100 and "100 bytes" in repr(arena)


# The CPU as a device


def test_a_cpu_device_does_what_the_protocol_says() -> None:
    device: Device = CPUDevice(3)
    assert device.place == CPUPlace(3) and device.grows_by_use
    memory = device.allocate(1024)
    target = memory.array(64, (2, 3), np.float32)
    target[:] = 1
    assert memory.nbytes == 1024
    memory.release()
    assert not target.any()
