"""Rules of matrix products and strided copies: programs on the tape against the same in NumPy calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.native.one_row import kernels, run_tape
from tests.parallel.models import Model, build
from workbench import static
from workbench.config import override
from workbench.executors.lowering.tape.math.products import MOST_ROWS, product_rows, way_of
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.lowering.tape.transposes import strided_copy
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.framework.program.guard import static_mode
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.tape import Tape


class Writer:
    """What rules of products ask of a writer."""

    def __init__(self) -> None:
        self.tape = Tape(kernels())

    def gemm(self, item: int) -> int:
        return gemm_address(item) or 0

    def temporary(self, shape: Any, dtype: Any = np.float32) -> np.ndarray:
        array = np.full(shape, np.nan, dtype)
        self.tape.keep(array)
        return array


def run_product(left: np.ndarray, right: np.ndarray, out: np.ndarray, adds: bool = False) -> int:
    """Runs the rows of a product; how many there were."""
    writer: Any = Writer()
    rows = product_rows(writer, left, right, out, adds)
    for kernel, *arguments in rows:
        writer.tape.row(kernel, *arguments)
    assert run_tape(writer.tape) == 0
    return len(rows)


def arranged(data: Any, shape: tuple[int, ...], name: str, whole: bool = False, dtype: Any = np.float32) -> np.ndarray:
    """An array of this shape whose dimensions lie in any order; those before the last two may be missing or 1."""
    if not whole:
        shape = tuple(data.draw(st.sampled_from([n, 1]), name) for n in shape[:-2]) + shape[-2:]
        shape = shape[data.draw(st.integers(0, len(shape) - 2), name) :]
    order = data.draw(st.permutations(range(len(shape))), name)
    rng = np.random.default_rng(len(order))
    array = rng.standard_normal([shape[i] for i in order], dtype)
    return array.transpose(np.argsort(order))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_products_of_any_arrangement(data: Any) -> None:
    """Strided, broadcast and summed over what the result has not; else refused before anything is written."""
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=3), "batch"))
    m, n, k = (data.draw(st.sampled_from([1, 2, 7, 8, 9, 16, 33, 70]), name) for name in "mnk")
    dtype = data.draw(st.sampled_from([np.float32, np.float64]), "dtype")
    left = arranged(data, (*batch, m, k), "left", dtype=dtype)
    right = arranged(data, (*batch, k, n), "right", dtype=dtype)
    full = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    out = arranged(data, (*full, m, n), "out", dtype=dtype)
    adds = data.draw(st.booleans(), "adds")
    product = left.astype(float) @ right.astype(float)
    missing = product.ndim - out.ndim
    axes = tuple(i for i in range(product.ndim) if i < missing or product.shape[i] != out.shape[i - missing])
    expected = product.sum(axis=axes, keepdims=True).reshape(out.shape) + (out if adds else 0.0)
    if not adds:
        out[...] = np.nan
    before = out.copy()
    try:
        assert run_product(left, right, out, adds)
    except Unsuitable:
        np.testing.assert_array_equal(out, before)
        return
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-5 * np.sqrt(k * len(axes) + k))


def test_attention_takes_one_row_and_copies_nothing() -> None:
    """Heads side by side in [batch, seq, heads · size], seen as [batch, heads, seq, size]."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((4, 10, 3, 16), np.float32).transpose(0, 2, 1, 3) for _ in "qk")
    scores, context = np.empty((4, 3, 10, 10), np.float32), np.empty((4, 10, 3, 16), np.float32)
    assert run_product(q, k.swapaxes(-1, -2), scores) == 1
    assert run_product(scores, k, context.transpose(0, 2, 1, 3)) == 1
    np.testing.assert_allclose(scores, q @ k.swapaxes(-1, -2), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(context.transpose(0, 2, 1, 3), scores @ k, rtol=1e-5, atol=1e-4)


def test_a_gradient_of_one_matrix_is_one_product_over_the_batch() -> None:
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((5, 7, 12), np.float32), rng.standard_normal((5, 7, 20), np.float32)
    out = np.empty((12, 20), np.float32)
    assert run_product(x.swapaxes(-1, -2), g, out) == 1
    np.testing.assert_allclose(out, np.einsum("bsi,bsj->ij", x, g), rtol=1e-5, atol=1e-5)


def test_a_sum_over_too_many_products_is_refused() -> None:
    x = np.ones((2 * MOST_ROWS, 1, 8, 8), np.float32)
    g = np.ones((2 * MOST_ROWS, 2, 8, 8), np.float32)
    with pytest.raises(Unsuitable):
        run_product(x.swapaxes(-1, -2), g, np.empty((1, 2, 8, 8), np.float32))


@settings(max_examples=60, deadline=None)
@given(m=st.integers(8, 40), n=st.integers(8, 40), k=st.integers(1, 300))
def test_bits_follow_from_the_shape(m: int, n: int, k: int) -> None:
    """Who computes does, and by tiles no arrangement makes a difference."""
    assert {way_of(m, n, k, f, g).by_blas for f in (False, True) for g in (False, True)} == {False}
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    outs = [np.empty((m, n), np.float32), np.empty((n, m), np.float32).T]
    for out, left, right in zip(outs, (a, np.asfortranarray(a)), (b, np.asfortranarray(b)), strict=True):
        assert run_product(left, right, out)
    assert (outs[0] == outs[1]).all()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_strided_copies(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 16, 18]), min_size=1, max_size=5), "shape"))
    source, out = arranged(data, shape, "source", whole=True), arranged(data, shape, "out", whole=True)
    row = strided_copy(source, out)
    if row is None:
        return
    out[...] = np.nan
    tape = Tape(kernels())
    tape.row(*row)
    assert run_tape(tape) == 0
    assert (out == source).all()


def test_copies_that_have_kernels() -> None:
    x, out = np.zeros((2, 10, 3, 16), np.float32), np.zeros((2, 3, 10, 16), np.float32)
    assert strided_copy(x.transpose(0, 2, 1, 3), out)[0] == "copy_rows"  # type: ignore[index]
    assert strided_copy(x.transpose(0, 2, 3, 1), np.zeros((2, 3, 16, 10), np.float32))[0] == "transpose"  # type: ignore[index]
    assert strided_copy(x, x.copy()) is None
    assert strided_copy(x.transpose(0, 2, 1, 3), x.reshape(2, 3, 10, 16)) is None


# Programs


def attention() -> Any:
    """Two heads of 8 over sequences of 9, then one score per sample."""
    x = static.data("x", [None, 9, 16])
    q, k, v = (
        wb.transpose(wb.reshape(static.nn.fc(x, 16, num_flatten_dims=2), [0, 0, 2, 8]), [0, 2, 1, 3]) for _ in "qkv"
    )
    weights = wb.nn.functional.softmax(wb.matmul(q, k, transpose_y=True) * 8**-0.5)
    mixed = wb.reshape(wb.transpose(wb.matmul(weights, v), [0, 2, 1, 3]), [0, 0, 16])
    return wb.mean(static.nn.fc(mixed, 1) ** 2)


def products() -> Any:
    """Vectors, single matrices and transposed operands on both sides."""
    x = static.data("x", [None, 9, 16])
    shared = static.create_parameter([16, 16], "float32")
    column, row = static.create_parameter([16], "float32"), static.create_parameter([9], "float32")
    h = wb.matmul(x, shared, transpose_y=True)
    inner = wb.matmul(h, wb.matmul(x, shared), transpose_y=True)
    outer = wb.matmul(h, x, transpose_x=True)
    ends = wb.mean(wb.matmul(h, column) ** 2) + wb.mean(wb.matmul(row, h) ** 2)
    return wb.mean(inner**2) * 1e-3 + wb.mean(outer**2) * 1e-3 + ends


def trained(model: Model, devices: int = 2) -> tuple[dict[str, np.ndarray], set[str]]:
    """All that the program keeps after three steps, and the types of rows that were NumPy calls."""
    model.start()
    exe = model.parallel(devices)
    for step in range(3):
        x = np.random.default_rng(step).standard_normal((4, 9, 16), np.float32)
        exe.run([], feed={"x": x})
    programs = [p for part in (exe.inspection.last.speculative, exe.inspection.last.commit) for p in part]
    return model.values(), {u.row.node.type for p in programs for u in p.units if not isinstance(u, Segment)}


@pytest.mark.parametrize("body", [attention, products])
def test_training_gives_what_numpy_calls_give(body: Callable[[], Any]) -> None:
    kernels()
    with static_mode(), override(cpu_tape=True):
        values, by_numpy = trained(build(body, wb.optimizer.SGD(0.1)))
    assert not by_numpy & {"mul", "mul_grad", "matmul_v2", "matmul_v2_grad", "transpose2", "transpose2_grad"}
    with static_mode(), override(cpu_tape=False):
        expected, _ = trained(build(body, wb.optimizer.SGD(0.1)))
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=2e-4, atol=2e-6, err_msg=name)
