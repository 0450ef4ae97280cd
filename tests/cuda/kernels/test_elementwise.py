"""Element-wise kernels on a simulated GPU: the cases of all ops, odd dtypes and strides, and what memory they move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.ops  # fills the op table
from tests.cuda.kernels.device_run import run_kernel
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.declared import elementwise_op
from workbench.cuda.kernels.elementwise import (
    broadcast_strides,
    dense_strides,
    elementwise_kernel,
    iteration,
    lowered_for_device,
    read_by,
)
from workbench.cuda.kernels.launch import Launch
from workbench.cuda.kernels.numbers import NoKernel
from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.grad_op import receiver_slots
from workbench.framework.op.record import OPS, Op, find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import spec_of

assert workbench.ops

ELEMENTWISE = [c for c in CASES if c.type in OPS and c.op.is_elementwise and not c.op.has_lists]
NEAR = {"float16": (4e-3, 1e-3), "bfloat16": (2e-2, 1e-2), "float64": (1e-12, 1e-13)}


def run_op(op: Op, arrays: list[Any], shapes: list[Any], attrs: dict[str, Any], seed: int = 0) -> list[Any]:
    """The results of a kernel; `shapes`: (shape, dtype) of every output, None where it is not wanted."""
    ins = [None if a is None else spec_of(a) for a in arrays]
    outs = [None if s is None else spec_of(np.empty(s[0], as_dtype(s[1]).numpy)) for s in shapes]
    kernel, one = elementwise_op(op, ins, outs, attrs)
    how = kernel.launch(one)
    if how.is_empty:
        return []
    read = [arrays[int(name[1:])] for name, _ in kernel.kernel.operands if name[0] == "x"]
    written = [shapes[int(name[1:])] for name, _ in kernel.kernel.operands if name[0] == "y"]
    after, _ = run_kernel(kernel.kernel, how, [*read, *[(s, as_dtype(d).numpy) for s, d in written]], seed)
    results = iter(after[len(read) :])
    return [None if s is None else next(results) for s in shapes]


def compare(got: Any, want: Any, dtype: str, what: str) -> None:
    if as_dtype(got.dtype).is_float:
        rtol, atol = NEAR.get(dtype, (2e-5, 2e-6))
        wide = np.asarray(want, np.float64)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(got.astype(np.float64), wide, rtol=rtol, atol=atol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[c.label for c in ELEMENTWISE])
def test_the_cases_of_ops(case: C.Case) -> None:
    for dtype in (*case.run_dtypes(), "bfloat16"):
        arrays = case.arrays(dtype)
        want = C.run_forward(case.op, arrays, case.full_attrs)
        got = run_op(case.op, arrays, [w if w is None else (w.shape, w.dtype) for w in want], case.full_attrs)
        for a, b in zip(got, want, strict=bool(got)):
            if b is not None:
                compare(a, b, dtype, f"{case.label} {dtype}")


DIFFERENTIATED = [c for c in ELEMENTWISE if c.differentiated()]


@pytest.mark.parametrize("case", DIFFERENTIATED, ids=[c.label for c in DIFFERENTIATED])
def test_the_gradients_of_cases(case: C.Case) -> None:
    for dtype in (*case.run_dtypes(), "bfloat16"):
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
        given = [*arrays, *kept, *C.cotangents(case, outputs)]
        backward = find_op(case.op.grad_type)
        with np.errstate(all="ignore"):
            want = backward.forward(numpy_xp, *given, **case.full_attrs)
        want = list(want) if isinstance(want, tuple) else [want]
        assert len(want) == len(receiver_slots(case.op))
        shapes = [None if w is None else (w.shape, w.dtype) for w in want]
        whole = np.broadcast_shapes(*[a.shape for a in given if a is not None])
        if any(w is not None and w.shape != whole for w in want):
            with pytest.raises(NoKernel, match="broadcast"):  # the sum is a row program's
                run_op(backward, given, shapes, case.full_attrs)
            continue
        got = run_op(backward, given, shapes, case.full_attrs)
        for a, b in zip(got, want, strict=bool(got)):
            if b is not None:
                compare(a, b, dtype, f"{case.label} {dtype}")


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, -7.0, np.inf, -np.inf, np.nan, 1e-40, 3e38])
BINARY = ["maximum", "minimum", "remainder", "floor_divide", "divide", "power", "less", "not_equal", "arctan2"]
UNARY = ["sign", "rint", "isnan", "isfinite", "isinf", "logical_not", "abs", "floor", "trunc", "reciprocal", "square"]


def of_one_function(function: str, *arrays: Any) -> Any:
    inputs = [Expr("input", value=n, dtype=a.dtype) for n, a in enumerate(arrays)]
    lowered = lowered_for_device([getattr(Recording, function)(*inputs)], [a.dtype for a in arrays])
    shape = arrays[0].shape
    one = iteration(shape, [dense_strides(shape)] * (len(arrays) + 1))
    kernel = elementwise_kernel(function, lowered, one)
    dtype = as_dtype(kernel.kernel.operands[-1][1]).numpy
    return run_kernel(kernel.kernel, kernel.launch(one), [*arrays, (shape, dtype)])[0][-1]


@pytest.mark.parametrize("function", [*BINARY, *UNARY])
def test_special_numbers(function: str) -> None:
    for dtype in (np.float32, np.float64):
        a, b = (x.ravel().astype(dtype) for x in np.meshgrid(SPECIAL, SPECIAL))
        arrays = (a, b) if function in BINARY else (a,)
        with np.errstate(all="ignore"):
            want = getattr(np, function)(*arrays)
        np.testing.assert_allclose(of_one_function(function, *arrays), want, rtol=1e-6)


@pytest.mark.parametrize("function", ["floor_divide", "remainder", "maximum", "multiply", "bitwise_xor", "sign"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integers(function: str, dtype: Any) -> None:
    ends = np.iinfo(dtype)
    some = np.array([ends.min, ends.max, 0, 1, 2, 3, 7, ends.max - 1, ends.min + 1], dtype)
    a, b = (x.ravel() for x in np.meshgrid(some, some))
    arrays = (a,) if function == "sign" else (a, b)
    with np.errstate(all="ignore"):
        want = getattr(np, function)(*arrays)
    np.testing.assert_array_equal(of_one_function(function, *arrays), want)


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64", "int32", "bool"])
def test_casts(source: str, target: str) -> None:
    numbers = np.array([0, 1, 0.3, 65519.0, 65520.0, 2**-24, 1.0009765625 + 2**-13, 200.7, 5.9604645e-8, 7e4])
    with np.errstate(all="ignore"):
        a = np.minimum(numbers, 200 if target == "uint8" else np.inf).astype(as_dtype(source).numpy)
        a = a[np.isfinite(a.astype(float))]  # what has no place among the integers is nobody's to say
        want = a.astype(as_dtype(target).numpy)
    x = Expr("input", value=0, dtype=a.dtype)
    lowered = lowered_for_device([x.astype(target)], [source])
    one = iteration(a.shape, [(1,), (1,)])
    kernel = elementwise_kernel("cast", lowered, one, [target])
    got = run_kernel(kernel.kernel, kernel.launch(one), [a, (a.shape, want.dtype)])[0][-1]
    np.testing.assert_array_equal(got, want)


def affine(*arrays: Any) -> Any:
    a, b, c = arrays
    return a * b + c, Recording.where(a < b, c, a)


def chain(shape: tuple[int, ...], *strides: Any) -> tuple[Any, Any]:
    inputs = [Expr("input", value=n) for n in range(3)]
    lowered = lowered_for_device(affine(*inputs), ["float32"] * 3)
    one = iteration(shape, [*strides, dense_strides(shape), dense_strides(shape)])
    return elementwise_kernel("affine", lowered, one), one


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_with_broadcasts_and_two_results(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (5, 1, 33, 7)
    shapes = [shape, (33, 1), (5, 1, 1, 7)]
    a, b, c = (rng.standard_normal(s).astype("f") for s in shapes)
    kernel, one = chain(shape, *[broadcast_strides(x.shape, dense_strides(x.shape), shape) for x in (a, b, c)])
    after, _ = run_kernel(kernel.kernel, kernel.launch(one), [a, b, c, (shape, "f"), (shape, "f")], seed)
    np.testing.assert_allclose(after[3], a * b + c, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(after[4], np.where(a < b, c, a))


def test_dimensions_are_joined_where_all_operands_allow_it() -> None:
    assert iteration((2, 3, 4), [(12, 4, 1), (12, 4, 1)]).shape == (24,)
    assert iteration((2, 3, 4), [(12, 4, 1), (0, 4, 1)]).shape == (2, 12)
    assert iteration((2, 3, 4), [(12, 4, 1), (0, 0, 0)]) == ((24,), ((1,), (0,)))
    assert iteration((1, 1), [(1, 1), (1, 1)]) == ((), ((), ()))


def test_a_transposed_operand_and_the_sizes_of_one_launch_for_another() -> None:
    kernel, _ = chain((4, 6), (1, 4), (6, 1), (0, 0))
    for rows, width in [(4, 6), (9, 5)]:
        a, b, c = (np.random.default_rng(n).standard_normal((rows, width)).astype("f") for n in range(3))
        strides = [(1, rows), (width, 1), (0, 0), (width, 1), (width, 1)]
        other = iteration((rows, width), strides)
        arrays = [a.T.copy(), b, c[:1, :1], ((rows, width), "f"), ((rows, width), "f")]
        after, _ = run_kernel(kernel.kernel, kernel.launch(other), arrays)
        np.testing.assert_allclose(after[3], a * b + c[0, 0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_dense_operands_move_no_sector_more_than_they_have_to(dtype: str) -> None:
    count = 4096
    x = Expr("input", value=0, dtype=dtype)
    one = iteration((count,), [(1,), (1,)])
    kernel = elementwise_kernel("twice", lowered_for_device([x + x], [dtype]), one)
    a = np.arange(count).astype(dtype) / 64
    after, counted = run_kernel(kernel.kernel, kernel.launch(one), [a, ((count,), dtype)], seed=1)
    np.testing.assert_array_equal(after[1], a + a)
    assert counted.loads.sectors == counted.loads.ideal == count * a.itemsize // 32
    assert counted.stores.sectors == counted.stores.ideal


def test_few_blocks_go_on_with_further_elements() -> None:
    count = 1000
    one = iteration((count,), [(1,), (1,)])
    x = Expr("input", value=0)
    kernel = elementwise_kernel("twice", lowered_for_device([x + x], ["float32"]), one)
    a = np.arange(count, dtype="f")
    how = replace(kernel.launch(one), grid=(2, 1, 1))
    np.testing.assert_array_equal(run_kernel(kernel.kernel, how, [a, ((count,), "f")])[0][1], a + a)


def test_nothing_to_do_is_no_launch() -> None:
    one = iteration((0, 3), [(3, 1), (3, 1)])
    x = Expr("input", value=0)
    kernel = elementwise_kernel("twice", lowered_for_device([x + x], ["float32"]), one)
    assert kernel.launch(one).is_empty
    assert isinstance(kernel.launch(one), Launch)


@pytest.mark.parametrize("architecture", ["sm_70", "sm_80", "sm_90", "sm_100"])
def test_it_compiles_for_the_architectures_we_claim(architecture: str) -> None:
    inputs = [Expr("input", value=n, dtype=d) for n, d in enumerate(("float16", "bfloat16", "float32"))]
    wide = [x.astype("float32") for x in inputs]
    results = [Recording.exp(wide[0]) * Recording.power(wide[1], wide[2]), wide[0].astype("bfloat16")]
    lowered = lowered_for_device(results, ["float16", "bfloat16", "float32"])
    assert read_by(lowered) == [0, 1, 2]
    one = iteration((7,), [(1,)] * 5)
    assert compile_cubin(elementwise_kernel("mixed", lowered, one).kernel.source, architecture)
