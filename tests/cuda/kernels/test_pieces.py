"""Parts of arrays on a simulated GPU: copied, padded, rolled; against NumPy and the ops' NumPy forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.device_run import compiled, run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.padding import MODES, PadKernel, pad_kernel, roll_kernel, unpad_kernel
from workbench.cuda.kernels.pieces import CopiedPart, concat, cut, expand, flip, split, stack, tile, tiled
from workbench.cuda.simulated.memory import AddressSpace
from workbench.cuda.simulated.ptx import launch
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.views import range_of


def filled(shape: Any, dtype: str = "float32") -> np.ndarray:
    return (np.arange(np.prod(shape)) % 251 + 1).reshape(shape).astype(as_dtype(dtype).numpy)


def copied(piece: CopiedPart, source: np.ndarray, result: np.ndarray, seed: int = 0) -> np.ndarray:
    """The result after a copy."""
    memory, kernel = AddressSpace(1 << 24), piece.kernel(source.dtype)
    addresses = [memory.allocate(array.nbytes) for array in (source, result)]
    for address, array in zip(addresses, (source, result), strict=True):
        memory.write(address, np.ascontiguousarray(array).tobytes())
    begins = [a + n * source.itemsize for a, n in zip(addresses, (piece.source, piece.result), strict=True)]
    how = kernel.launch(piece.one)
    if not how.is_empty:
        launch(compiled(kernel.kernel), memory, how.grid, how.block, how.arguments(begins), seed=seed)
    return np.frombuffer(memory.read(addresses[1], result.nbytes), result.dtype).reshape(result.shape)


SHAPES = [((3,), 0), ((2, 5, 4), 0), ((2, 5, 4), 1), ((2, 5, 40), 2), ((1, 1), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_concat_and_split(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    arrays = [filled([*shape[:axis], size, *shape[axis + 1 :]], dtype) for size in (shape[axis], 1, 7, 0)]
    whole = np.concatenate(arrays, axis)
    result = np.zeros_like(whole)
    for piece, array in zip(concat([a.shape for a in arrays], axis), arrays, strict=True):
        result = copied(piece, array, result, seed=1)
    np.testing.assert_array_equal(result, whole)
    for piece, array in zip(split(whole.shape, axis, [a.shape[axis] for a in arrays]), arrays, strict=True):
        np.testing.assert_array_equal(copied(piece, whole, np.zeros_like(array)), array)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stack_and_unstack(axis: int) -> None:
    arrays = [filled((3, 4)) + n for n in range(3)]
    whole = np.stack(arrays, axis)
    result = np.zeros_like(whole)
    for piece, array in zip(stack((3, 4), 3, axis), arrays, strict=True):
        result = copied(piece, array, result)
        np.testing.assert_array_equal(copied(piece.turned, whole, np.zeros_like(array)), array)
    np.testing.assert_array_equal(result, whole)


INDICES = [
    np.s_[1:4], np.s_[::2, 1:], np.s_[:, ::-1], np.s_[-1:0:-2, 3:0:-1, 2:], np.s_[:, :, ::3], np.s_[4:2],
    np.s_[2:3, 0:1],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_slices_and_their_gradients(index: Any) -> None:
    x = filled((6, 5, 9))
    parts = index if isinstance(index, tuple) else (index,)
    piece = cut(x.shape, {axis: range_of(part, x.shape[axis]) for axis, part in enumerate(parts)})
    want = x[index]
    np.testing.assert_array_equal(copied(piece, x, np.zeros(want.shape, "f")), want)
    zeros = np.zeros_like(x)
    zeros[index] = want
    np.testing.assert_array_equal(copied(piece.turned, np.ascontiguousarray(want), np.zeros_like(x)), zeros)


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_flips(axes: tuple[int, ...]) -> None:
    x = filled((2, 3, 40))
    np.testing.assert_array_equal(copied(flip(x.shape, axes), x, np.zeros_like(x)), np.flip(x, axes))


def test_expansions_and_tiles() -> None:
    for shape, to in [((1, 3), (4, 3)), ((3, 1), (2, 3, 40)), ((1,), (5,)), ((2, 1, 3), (2, 4, 3))]:
        x = filled(shape)
        np.testing.assert_array_equal(copied(expand(shape, to), x, np.zeros(to, "f")), np.broadcast_to(x, to))
    for shape, repeats in [((3,), (2,)), ((2, 3), (2, 3)), ((2, 3), (4,)), ((3,), (2, 2)), ((1, 5), (3, 1))]:
        x = filled(shape)
        want = np.tile(x, repeats)
        np.testing.assert_array_equal(copied(tile(shape, repeats), x, np.zeros_like(want)), want)
        copies, axes = tiled(shape, repeats)
        np.testing.assert_array_equal(want.reshape(copies).sum(axes).ravel(), x.ravel() * (want.size // x.size))


# Padding


def padded(kernel: PadKernel, x: np.ndarray, shape: Any, value: float = 0.0, seed: int = 0) -> np.ndarray:
    return run_kernel(kernel.kernel, kernel.launch(value), [x, (shape, x.dtype)], seed)[0][1]


PADDINGS = [
    ((5,), [2, 3]), ((2, 3, 4, 5), [0, 0, 0, 0, 1, 2, 3, 0]), ((4, 3), [3, 0, 0, 2]), ((2, 3, 2), [1, 1, 0, 0, 1, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "paddings"), PADDINGS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_padding_in_all_modes_and_its_adjoint(shape: tuple[int, ...], paddings: list[int], mode: str) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        x = filled(shape, dtype)
        want = find_op("pad").forward(np, x, paddings=paddings, mode=mode, value=2.5)
        got = padded(pad_kernel(dtype, shape, paddings, mode), x, want.shape, 2.5, seed=1)
        np.testing.assert_array_equal(got, want)
    g = np.random.default_rng(0).standard_normal(want.shape).astype("f")
    got = padded(unpad_kernel("float32", shape, paddings, mode), g, shape, seed=1)
    want = find_op("unpad").forward(np, g.astype("f8"), paddings=paddings, mode=mode)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shifts", [(1, 0, 0), (0, -2, 0), (0, 3, 7), (5, -11, 80), (0, 0, 0)], ids=str)
def test_rolls(shifts: tuple[int, ...]) -> None:
    x = filled((3, 4, 33), "float16")
    got = padded(roll_kernel("float16", x.shape, shifts, (0, 1, 2)), x, x.shape, seed=1)
    np.testing.assert_array_equal(got, np.roll(x, shifts, (0, 1, 2)))


def test_rolls_of_nothing_and_of_one_axis() -> None:
    assert roll_kernel("float32", (0, 3), [2], [0]).launch().is_empty
    x = filled((5, 2, 3))
    np.testing.assert_array_equal(padded(roll_kernel("float32", x.shape, [2], [1]), x, x.shape), np.roll(x, 2, 1))


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    for mode in MODES:
        for make in (pad_kernel, unpad_kernel):
            assert compile_cubin(make("bfloat16", (2, 3, 4), [1, 1, 0, 0, 0, 2], mode).kernel.source, architecture)
