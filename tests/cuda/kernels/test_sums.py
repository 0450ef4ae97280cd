"""Sums over dimensions on a simulated GPU, and element-wise gradients that are summed over what was broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.ops  # fills the op table
from tests.cuda.kernels.device_run import run_kernel
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.declared import dropout_gradient, sum_of_terms, summed_op
from workbench.cuda.kernels.sums import SumOver, broadcast_axes, divided, squares_over, sum_over, truths_over
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import OPS, Op, find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec, spec_of

assert workbench.ops

NEAR = {"float32": 1e-6, "float64": 1e-15, "float16": 2e-3, "bfloat16": 1.6e-2}
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (0,)), ((7,), (0,)), ((300,), ()), ((5, 33), (1,)), ((5, 33), (0,)), ((3, 4, 5, 6), (0, 2, 3)),
    ((3, 4, 5, 6), (0, 2)), ((3, 4, 5, 6), (1, 3)), ((2, 3, 2, 5, 3), (0, 2, 4)), ((2, 1, 3, 1), (1, 2)),
    ((2, 5000), (1,)), ((700, 40), (0,)), ((3, 2, 3001), (0, 2)), ((9, 129, 3), (0, 1)), ((20000,), (0,)),
    ((4, 0, 3), (1,)),
]  # fmt: skip


def run_sum(one: SumOver, x: np.ndarray, size: int, to: Any, seed: int = 0, divisor: float = 1.0) -> np.ndarray:
    launches = one.launches(divisor)
    for kernel, how in launches:
        is_last = kernel is launches[-1][0]
        result = ((size,), as_dtype(to).numpy) if is_last else ((one.partial,), as_dtype(one.held).numpy)
        x = run_kernel(kernel, how, [x, result], seed)[0][1]
    return x


def check(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, to: str = "", seed: int = 0) -> np.ndarray:
    to = to or dtype
    x = (np.random.default_rng(1).standard_normal(shape) * 9).astype(as_dtype(dtype).numpy)
    want = np.asarray(x, np.float64).sum(axes) if axes else np.asarray(x, np.float64)
    got = run_sum(sum_over(shape, axes, dtype, to), x, want.size, to, seed)
    if as_dtype(to).is_float:
        size = float(np.abs(x.astype("f8")).sum(axes).max(initial=1.0)) if axes else 1.0
        np.testing.assert_allclose(got.astype("f8"), want.ravel(), rtol=NEAR[to], atol=min(NEAR[to], 1e-6) * size)
    else:
        np.testing.assert_array_equal(got, want.ravel())
    return got


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums_over_any_dimensions(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    check(shape, axes, "float32", seed=1)


KINDS = [
    ("float64", "float64"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float16"),
    ("bfloat16", "float32"), ("int32", "int64"), ("int64", "int64"), ("bool", "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "to"), KINDS)
def test_other_dtypes(dtype: str, to: str) -> None:
    for shape, axes in [((5, 33), (1,)), ((3, 40, 5), (0, 2)), ((700, 40), (0,)), ((2, 5000), (1,))]:
        check(shape, axes, dtype, to)


def test_sums_in_parts_have_the_same_bits_whatever_the_order_of_threads() -> None:
    for shape, axes in [((700, 40), (0,)), ((2, 5000), (1,)), ((3, 2, 3001), (0, 2))]:
        assert sum_over(shape, axes, "float32").partial
        first = check(shape, axes, "float32")
        assert all(check(shape, axes, "float32", seed=seed).tobytes() == first.tobytes() for seed in range(1, 5))


def test_a_mean_is_a_sum_with_a_divisor() -> None:
    x = np.random.default_rng(0).random((6, 5000), np.float32)
    got = run_sum(sum_over(x.shape, (1,), "float32"), x, 6, "float32", divisor=5000)
    np.testing.assert_allclose(got, x.astype("f8").mean(1), rtol=1e-6)


def test_a_long_sum_in_float_loses_nothing() -> None:
    x = np.random.default_rng(0).random(200_000, np.float32) + np.float32(0.1)
    want = x.astype("f8").sum()
    assert abs(float(run_sum(sum_over(x.shape, (0,), "float32"), x, 1, "float32")[0]) - want) <= 2 * np.spacing(
        np.float32(want)
    )


def test_infinity_and_nan_stay_what_they_are() -> None:
    x = np.ones((3, 40), np.float32)
    x[0, 7], x[1, 9] = np.inf, np.nan
    got = run_sum(sum_over(x.shape, (1,), "float32"), x, 3, "float32")
    np.testing.assert_array_equal(got, [np.inf, np.nan, 40])


@pytest.mark.parametrize(("shape", "axes"), [((64, 64, 64), (0, 2)), ((512, 128), (0,)), ((64, 1024), (1,))], ids=str)
def test_aligned_arrays_are_read_once_and_in_whole_sectors(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    one = sum_over(shape, axes, "float32")
    kernel, how = one.launches()[0]
    size = one.partial or x.sum(axes).size
    _, counted = run_kernel(kernel, how, [x, ((size,), np.float32)], seed=1)
    assert counted.loads.nbytes == x.nbytes
    assert counted.loads.sectors <= 1.1 * counted.loads.ideal
    assert counted.bank_conflicts == 0


def test_neighbours_of_a_kind_are_joined() -> None:
    kept, summed = divided((2, 3, 4, 5), (2, 3))
    assert (kept, summed) == (((6,), (20,)), ((20,), (1,)))
    assert broadcast_axes((3, 1), (2, 3, 4)) == (0, 2)


# Gradients of broadcasts


def run_summed(op: Op, arrays: list[Any], outs: list[Spec | None], attrs: dict[str, Any]) -> dict[int, np.ndarray]:
    """The results by the numbers of their slots."""
    one = summed_op(op, [None if a is None else spec_of(a) for a in arrays], outs, attrs)
    shape = np.broadcast_shapes(*[a.shape for a in arrays if a is not None])
    results: dict[int, np.ndarray] = {}
    if one.kernel is not None:
        kinds = [dtype for _, dtype in one.kernel.kernel.operands][len(one.reads) :]
        written = [(shape, as_dtype(kind).numpy) for kind in kinds]
        after, _ = run_kernel(
            one.kernel.kernel, one.kernel.launch(one.one), [*[arrays[n] for n in one.reads], *written]
        )
        results = dict(zip(one.writes, after[len(one.reads) :], strict=True))
    for part in one.sums:
        out = outs[part.output]
        assert out is not None
        x = results[part.output] if part.source is None else arrays[part.source]
        results[part.output] = run_sum(part.sum, x, int(np.prod(out.shape)), out.dtype).reshape(out.shape)
    return results


BROADCAST = [c for c in CASES if c.type in OPS and c.op.is_elementwise and not c.op.has_lists and c.differentiated()]


@pytest.mark.parametrize("case", BROADCAST, ids=[c.label for c in BROADCAST])
def test_the_gradients_of_cases_with_broadcasts(case: C.Case) -> None:
    for dtype in (*case.run_dtypes(), "bfloat16"):
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
        given = [*arrays, *kept, *C.cotangents(case, outputs)]
        if all(a is None or a.shape == outputs[0].shape for a in given) or not outputs[0].size:
            continue
        with np.errstate(all="ignore"):
            want = find_op(case.op.grad_type).forward(numpy_xp, *given, **case.full_attrs)
        want = list(want) if isinstance(want, tuple) else [want]
        outs = [None if w is None else spec_of(w) for w in want]
        got = run_summed(find_op(case.op.grad_type), given, outs, case.full_attrs)
        rtol = {"float16": 4e-3, "bfloat16": 2e-2, "float64": 1e-12}.get(dtype, 2e-5)
        for number, expected in enumerate(want):
            if expected is not None:
                wide = np.asarray(expected, np.float64)
                np.testing.assert_allclose(got[number].astype("f8"), wide, rtol, 2 * rtol, err_msg=dtype)


def test_a_bias_of_channels_is_summed_from_the_gradient_itself() -> None:
    backward = find_op(find_op("elementwise_add").grad_type)
    g = np.random.default_rng(3).standard_normal((3, 4, 5, 7)).astype("f")
    arrays = [g if slot.name.endswith("@GRAD") else None for slot in backward.inputs]
    bias = Spec((1, 4, 1, 1), as_dtype("float32"))
    attrs = find_op("elementwise_add").complete({})
    one = summed_op(backward, [None if a is None else spec_of(a) for a in arrays], [None, bias], attrs)
    assert one.kernel is None
    assert one.sums[0].source == next(n for n, a in enumerate(arrays) if a is not None)
    got = run_summed(backward, arrays, [None, bias], attrs)
    np.testing.assert_allclose(got[1].ravel(), g.astype("f8").sum((0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("is_any", [False, True])
def test_whether_any_or_all_are_true(is_any: bool) -> None:
    for shape, axes in [((5, 33), (1,)), ((9000,), (0,)), ((700, 40), (0,)), ((3, 4, 5), (0, 1, 2)), ((4, 300), (0,))]:
        for share in (0.0, 0.01, 0.99, 1.0):
            x = np.random.default_rng(1).random(shape) < share
            want = x.any(axes) if is_any else x.all(axes)
            got = run_sum(truths_over(shape, axes, is_any), x, want.size, "bool", seed=1, divisor=x.size // want.size)
            np.testing.assert_array_equal(got, want.ravel())


def test_sums_of_squares() -> None:
    for shape, axes in [((5, 33), (1,)), ((9000,), (0,)), ((700, 40), (0,)), ((3, 4, 5), (0, 1, 2))]:
        for dtype, to in [("float32", "float32"), ("float16", "float32"), ("float64", "float64")]:
            x = (np.random.default_rng(1).standard_normal(shape) * 9).astype(dtype)
            want = np.square(x.astype("f8")).sum(axes)
            got = run_sum(squares_over(shape, axes, dtype, to), x, want.size, to, seed=1)
            np.testing.assert_allclose(got, want.ravel(), rtol=1e-6 if to == "float32" else 1e-14)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_sums_of_several_arrays(dtype: str) -> None:
    arrays = [(np.random.default_rng(n).standard_normal(77) * 9).astype(as_dtype(dtype).numpy) for n in range(4)]
    kernel, one = sum_of_terms(4, dtype, 77)
    got = run_kernel(kernel.kernel, kernel.launch(one), [*arrays, ((77,), arrays[0].dtype)], seed=1)[0][4]
    np.testing.assert_array_equal(got, find_op("sum").forward(np, arrays))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_gradient_of_dropout(dtype: str) -> None:
    for mask_shape in [(3, 5, 7), (3, 1, 7), (1, 5, 1)]:
        g = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(as_dtype(dtype).numpy)
        mask = np.random.default_rng(1).integers(0, 2, mask_shape).astype(np.uint8)
        kernel, one = dropout_gradient(dtype, 1.25, g.shape, mask_shape)
        got = run_kernel(kernel.kernel, kernel.launch(one), [g, mask, (g.shape, g.dtype)], seed=1)[0][2]
        want = (g.astype("f8") * (mask * 1.25)).astype(g.dtype)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    for shape, axes in SHAPES[3:6]:
        for kernel, _ in sum_over(shape, axes, "bfloat16").launches():
            assert compile_cubin(kernel.source, architecture)
