"""What integers name on a simulated GPU: read, placed, added, put; against the ops' NumPy forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.embedding import MOST_RANKED
from workbench.cuda.kernels.launch import CudaKernel, Launch
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.picking import number_kernel, one_hot_kernel, place_kernel, take_kernel
from workbench.cuda.kernels.scattering import ADD, CLEAR, PUT, RENEW, along_kernel, once_kernel, slice_kernels
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype

NEAR = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}
SIZES = [(1, 1, 1, 1), (2, 7, 5, 3), (3, 11, 300, 1), (1, 40, 9, 300), (70, 3, 2, 5)]
"""Entries before the axis, its size, how many of these are named, and what comes behind it."""


def run(kernel: CudaKernel, how: Launch, *operands: Any, seed: int = 0) -> list[np.ndarray]:
    """All operands afterwards; the last one is the status, which is zero before."""
    return run_kernel(kernel, how, [*operands, np.zeros(1, np.int32)], seed)[0]


def numbers(shape: Any, dtype: str, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 9).astype(as_dtype(dtype).numpy)


def integers(high: int, shape: Any, dtype: str = "int64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 7).integers(0, high, shape).astype(dtype)


def near(got: np.ndarray, want: np.ndarray) -> None:
    rtol = NEAR.get(as_dtype(got.dtype).name, 0)
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol, 30 * rtol)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "bool"])
def test_slices_and_entries_along_an_axis(sizes: tuple[int, ...], dtype: str) -> None:
    outer, height, count, inner = sizes
    x, out = numbers((outer, height, inner), dtype), ((outer, count, inner), as_dtype(dtype).numpy)
    kernel = take_kernel(dtype, "int32")
    ids = integers(height, count, "int32")
    after = run(kernel.kernel, kernel.gather(*sizes), x, ids, out, seed=1)
    np.testing.assert_array_equal(after[2], find_op("gather").forward(np, x, ids, axis=1))
    kernel = take_kernel(dtype)
    ids = integers(height, (outer, count, inner))
    after = run(kernel.kernel, kernel.along(*sizes), x, ids, out, seed=2)
    np.testing.assert_array_equal(after[2], find_op("take_along_axis").forward(np, x, ids, axis=1))
    assert after[3][0] == 0


@pytest.mark.parametrize("ignored", [-100, 2])
def test_labels(ignored: int) -> None:
    for outer, classes, inner in [(1, 3, 1), (33, 10, 1), (4, 5, 9)]:
        x, ids = numbers((outer, classes, inner), "float32"), integers(classes, (outer, 1, inner))
        ids[0] = ignored
        attrs = {"axis": 1, "ignore_index": ignored}
        pick, place = take_kernel("float32"), place_kernel("float32")
        how = pick.labels(outer, classes, inner, ignored)
        after = run(pick.kernel, how, x, ids, ((outer, 1, inner), "f"))
        np.testing.assert_array_equal(after[2], find_op("pick_label").forward(np, x, ids, **attrs))
        values = numbers((outer, 1, inner), "float32", 1)
        placed = run(
            place.kernel, place.launch(outer, classes, inner, ignored), values, ids, ((outer, classes, inner), "f")
        )
        np.testing.assert_array_equal(placed[2], find_op("place_label").forward(np, ids, values, x, **attrs))
        assert after[3][0] == placed[3][0] == 0


def test_one_hot() -> None:
    ids = integers(7, 45)
    kernel = one_hot_kernel()
    y, status = run(kernel.kernel, kernel.launch(45, 7), ids, ((45, 7), "f"), seed=1)[1:]
    np.testing.assert_array_equal(y, np.eye(7)[ids])
    assert status[0] == 0
    ids[3] = 7
    for allows in (False, True):
        y, status = run(kernel.kernel, kernel.launch(45, 7, allows), ids, ((45, 7), "f"))[1:]
        assert (status[0], y[3].sum()) == (not allows, 0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_entries_by_coordinates_and_what_is_added_to_them(dtype: str) -> None:
    for shape, depth, count in [((5,), 1, 9), ((3, 4, 6), 2, 50), ((3, 4, 6), 3, 7), ((2, 3, 2, 5), 2, 300)]:
        x = numbers(shape, dtype)
        index = np.stack([integers(shape[d], count, seed=d) for d in range(depth)], -1)
        named, width = int(np.prod(shape[:depth])), int(np.prod(shape[depth:]))
        number = number_kernel(depth)
        how = number.launch(count, shape[:depth])
        _, ids, status = run(number.kernel, how, index, ((count,), "i8"))
        take = take_kernel(dtype)
        out = ((count, *shape[depth:]), x.dtype)
        got = run(take.kernel, take.gather(1, named, count, width), x, ids, out)[2]
        np.testing.assert_array_equal(got, find_op("gather_nd").forward(np, x, index))
        assert status[0] == 0
        values = numbers(out[0], dtype, 1)
        got = put_slices(dtype, ADD, (1, named, count, width), values, ids, x)
        near(got, find_op("scatter_nd_add").forward(np, x.astype("f8"), index, values.astype("f8")))


def put_slices(
    dtype: str, way: str, sizes: tuple[int, ...], g: np.ndarray, ids: np.ndarray, base: Any = None, seed: int = 0
) -> np.ndarray:
    outer, height, count, width = sizes
    both = slice_kernels(dtype, way, base is not None, ids.dtype)
    rank, put = both.launches(outer, height, count, width)
    places, order = run_kernel(both.rank, rank, [ids, ((count,), "i8"), ((count,), "i4")], seed)[0][1:]
    shape = (outer, height, width) if base is None else base.shape
    after = run(both.put, put, g, places, order, *([] if base is None else [base]), (shape, g.dtype), seed=seed)
    assert after[-1][0] == 0
    return after[-2]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [*NEAR, "int64"])
def test_values_at_slices(sizes: tuple[int, ...], dtype: str) -> None:
    outer, height, count, width = sizes
    x, g = numbers((outer, height, width), dtype), numbers((outer, count, width), dtype, 1)
    ids = integers(height, count)
    wide = "f8" if as_dtype(dtype).is_float else "i8"
    want = find_op("index_add").forward(np, x.astype(wide), ids, g.astype(wide), axis=1)
    near(put_slices(dtype, ADD, sizes, g, ids, x), want)
    near(put_slices(dtype, ADD, sizes, g, ids), want - x.astype(wide))
    if outer > 1:
        return
    for way, overwrite in ((PUT, True), (RENEW, False)):
        want = find_op("scatter").forward(np, x[0].astype(wide), ids, g[0].astype(wide), overwrite=overwrite)
        near(put_slices(dtype, way, sizes, g, ids, x), want[None])


def test_what_is_left_out_is_zero_and_gets_nothing() -> None:
    x, g, ids = numbers((2, 9, 4), "float32"), numbers((2, 20, 4), "float32", 1), integers(9, 20)
    kernel = take_kernel("float32")
    y, status = run(kernel.kernel, kernel.gather(2, 9, 20, 4, ignored=3), x, ids, ((2, 20, 4), "f"))[2:]
    np.testing.assert_array_equal(y, np.where((ids == 3)[:, None], np.float32(0), x[:, ids]))
    assert status[0] == 0
    both = slice_kernels("float32", ADD, False)
    rank, put = both.launches(2, 9, 20, 4, skipped=3)
    places, order = run_kernel(both.rank, rank, [ids, ((20,), "i8"), ((20,), "i4")])[0][1:]
    want = np.zeros((2, 9, 4))
    np.add.at(want, (slice(None), ids), g.astype("f8"))
    want[:, 3] = 0
    near(run(both.put, put, g, places, order, ((2, 9, 4), "f"))[-2], want)


def test_slices_that_are_named_become_zeros() -> None:
    x, ids = numbers((2, 9, 4), "int64"), np.array([3, 5, 3])
    both = slice_kernels("int64", CLEAR, True)
    rank, put = both.launches(2, 9, 3, 4)
    places, order = run_kernel(both.rank, rank, [ids, ((3,), "i8"), ((3,), "i4")])[0][1:]
    want = x.copy()
    want[:, ids] = 0
    np.testing.assert_array_equal(run(both.put, put, places, order, x, (x.shape, "i8"))[-2], want)


def test_the_base_may_be_the_result() -> None:
    x, g, ids = numbers((9, 4), "float32"), numbers((20, 4), "float32", 1), integers(9, 20)
    both = slice_kernels("float32", ADD, True)
    rank, put = both.launches(1, 9, 20, 4)
    places, order = run_kernel(both.rank, rank, [ids, ((20,), "i8"), ((20,), "i4")])[0][1:]
    operands = [g, places, order, x, x, np.zeros(1, np.int32)]
    after = run_kernel(both.put, put, operands, shared=(0, 1, 2, 3, 3, 5))[0]
    near(after[4], find_op("index_add").forward(np, x.astype("f8"), ids, g.astype("f8"), axis=0))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [*NEAR, "int32"])
def test_values_along_an_axis(sizes: tuple[int, ...], dtype: str) -> None:
    outer, height, count, inner = sizes
    x, g = numbers((outer, height, inner), dtype), numbers((outer, count, inner), dtype, 1)
    ids = integers(height, g.shape)
    wide = "f8" if as_dtype(dtype).is_float else "i8"
    for way, reduce in ((ADD, "add"), (PUT, "assign")):
        for base in (x, None):
            kernel = along_kernel(dtype, way, base is not None)
            given = [g, ids, *([] if base is None else [base]), (x.shape, x.dtype)]
            after = run(kernel.kernel, kernel.launch(*sizes), *given, seed=3)
            start = np.zeros_like(x) if base is None else base
            forward = find_op("put_along_axis").forward
            near(after[-2], forward(np, start.astype(wide), ids, g.astype(wide), axis=1, reduce=reduce))
            assert after[-1][0] == 0


def test_what_a_sort_gives_is_put_back() -> None:
    x = numbers((3, 30, 4), "float32")
    g = numbers((3, 5, 4), "float32", 1)
    ids = np.argsort(-x, axis=1)[:, :5]
    kernel = once_kernel("float32")
    y = run(kernel.kernel, kernel.launch(3, 30, 5, 4), g, ids, np.zeros_like(x), seed=2)[2]
    want = np.zeros_like(x)
    np.put_along_axis(want, ids, g, 1)
    np.testing.assert_array_equal(y, want)


def test_bits_are_the_same_whatever_the_order_of_threads() -> None:
    sizes = (2, 3, 200, 5)
    g = numbers((2, 200, 5), "float32")
    runs = {put_slices("float32", ADD, sizes, g, integers(3, 200), seed=seed).tobytes() for seed in range(4)}
    assert len(runs) == 1
    kernel, ids = along_kernel("float32", ADD, False), integers(3, g.shape)
    operands = [g, ids, ((2, 3, 5), "f")]
    runs = {run(kernel.kernel, kernel.launch(*sizes), *operands, seed=seed)[2].tobytes() for seed in range(4)}
    assert len(runs) == 1


@pytest.mark.parametrize("bad", [-1, 6, 2**40, -(2**40)])
def test_numbers_that_name_nothing_are_told_and_touch_nothing(bad: int) -> None:
    x, g = numbers((6, 4), "float32"), numbers((3, 4), "float32", 1)
    ids = np.array([2, bad, 0])
    take, along, once = take_kernel("float32"), along_kernel("float32", ADD, False), once_kernel("float32")
    assert run(take.kernel, take.gather(1, 6, 3, 4), x, ids, ((3, 4), "f"))[3][0] == 1
    assert run(take.kernel, take.labels(3, 6, 1, -100), x, ids, ((3,), "f"))[3][0] == 1
    place = place_kernel("float32")
    assert run(place.kernel, place.launch(3, 6, 1, -100), x, ids, ((3, 6), "f"))[3][0] == 1
    assert run(along.kernel, along.launch(1, 6, 3, 1), g[:, 0].copy(), ids, ((6,), "f"))[3][0] == 1
    assert run(once.kernel, once.launch(1, 6, 3, 1), g[:, 0].copy(), ids, np.zeros(6, "f"))[3][0] == 1
    number = number_kernel(2)
    after = run(number.kernel, number.launch(3, (6, 6)), np.stack([ids, ids], 1), ((3,), "i8"))
    assert (after[1][1], after[2][0]) == (-1, 1)
    both = slice_kernels("float32", ADD, False)
    rank, put = both.launches(1, 6, 3, 4)
    places, order = run_kernel(both.rank, rank, [ids, ((3,), "i8"), ((3,), "i4")])[0][1:]
    assert run(both.put, put, g, places, order, ((6, 4), "f"))[-1][0] == 1


def test_nothing_named_leaves_the_base() -> None:
    x, none = numbers((6, 4), "float32"), np.zeros((0,), "i8")
    both = slice_kernels("float32", ADD, True)
    rank, put = both.launches(1, 6, 0, 4)
    assert rank.is_empty
    after = run(both.put, put, np.zeros((0, 4), "f"), none, np.zeros(0, "i4"), x, ((6, 4), "f"))
    np.testing.assert_array_equal(after[4], x)


def test_few_blocks_go_on_with_further_elements() -> None:
    x, g, ids = numbers((3, 11, 7), "float32"), numbers((3, 40, 7), "float32", 1), integers(11, (3, 40, 7))
    take, along = take_kernel("float32"), along_kernel("float32", ADD, True)
    both = slice_kernels("float32", ADD, True)
    rank, put = both.launches(3, 11, 40, 7)
    places, order = run_kernel(both.rank, rank, [ids[0, :, 0], ((40,), "i8"), ((40,), "i4")])[0][1:]
    for kernel, how, given, shape in [
        (take.kernel, take.along(3, 11, 40, 7), [x, ids], g.shape),
        (along.kernel, along.launch(3, 11, 40, 7), [g, ids, x], x.shape),
        (both.put, put, [g, places, order, x], x.shape),
    ]:
        few = replace(how, grid=(how.grid[0] if kernel is both.put else 1, 1, 1))
        runs = [run(kernel, one, *given, (shape, "f"))[-2] for one in (how, few)]
        np.testing.assert_array_equal(*runs)


def test_gathered_slices_move_whole_sectors() -> None:
    x, ids = numbers((40, 64), "float32"), integers(40, 100)
    kernel = take_kernel("float32")
    operands = [x, ids, ((100, 64), "f"), np.zeros(1, np.int32)]
    _, counted = run_kernel(kernel.kernel, kernel.gather(1, 40, 100, 64), operands, 1)
    assert counted.stores.sectors == counted.stores.ideal
    assert counted.loads.sectors <= 1.1 * counted.loads.ideal


def test_too_much_is_refused() -> None:
    with pytest.raises(NoKernel):
        slice_kernels("float32", ADD, False).launches(1, 5, MOST_RANKED + 1, 5)
    with pytest.raises(NoKernel):
        number_kernel(10)


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    kernels = [take_kernel("float16"), place_kernel("bfloat16"), one_hot_kernel(), number_kernel(3, "int32")]
    kernels += [along_kernel("bfloat16", ADD, True), once_kernel("float16")]
    both = slice_kernels("bfloat16", RENEW, True, "int32")
    for kernel in (*[one.kernel for one in kernels], both.rank, both.put):
        assert compile_cubin(kernel.source, architecture)
