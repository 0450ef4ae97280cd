"""Matrix products against einsum, without temporaries, and what they refuse."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.ops.programs import both, check_second_derivative, dynamic, static
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op

MATMUL, MUL = find_op("matmul_v2"), find_op("mul")
SIZES = st.integers(1, 4)


@st.composite
def factors(draw: Any) -> tuple[np.ndarray, np.ndarray, bool, bool]:
    """Operands of every rank, batch dims that broadcast, transposed or not."""
    m, k, n = draw(SIZES), draw(SIZES), draw(SIZES)
    tx, ty = draw(st.booleans()), draw(st.booleans())
    batch = draw(st.lists(SIZES, max_size=2))

    def lead() -> list[int]:
        kept = batch[draw(st.integers(0, len(batch))) :]
        return [1 if draw(st.booleans()) else d for d in kept]

    x_shape = [k] if draw(st.integers(0, 4)) == 0 else [*lead(), *((k, m) if tx else (m, k))]
    y_shape = [k] if draw(st.integers(0, 4)) == 0 else [*lead(), *((n, k) if ty else (k, n))]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rng.standard_normal(x_shape), rng.standard_normal(y_shape), tx, ty


def einsum(x: np.ndarray, y: np.ndarray, tx: bool, ty: bool) -> np.ndarray:
    left = "k" if x.ndim == 1 else "...km" if tx else "...mk"
    right = "k" if y.ndim == 1 else "...nk" if ty else "...kn"
    batch = "..." * (x.ndim > 1 or y.ndim > 1)
    return np.einsum(f"{left},{right}->{batch}{'m' * (x.ndim > 1)}{'n' * (y.ndim > 1)}", x, y)


@settings(max_examples=60, deadline=None)
@given(factors())
def test_matmul(case: Any) -> None:
    x, y, tx, ty = case
    want = einsum(*case)
    got = dynamic(lambda x, y: wb.matmul(x, y, tx, ty), x, y)
    np.testing.assert_allclose(got, want.reshape(1) if want.ndim == 0 else want, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(factors())
def test_direct_gradient_is_the_rule_s(case: Any) -> None:
    """Against autodiff by hand: the derivative of <g, x @ y> along one entry is <g, e @ y>."""
    x, y, tx, ty = case
    out = MATMUL.forward(numpy_xp, x, y, tx, ty)
    g = np.random.default_rng(1).standard_normal(out.shape)
    gx, gy = find_op("matmul_v2_grad").forward(numpy_xp, x, y, g, wanted=(True, True), trans_x=tx, trans_y=ty)
    for place in [(0,) * x.ndim, tuple(d - 1 for d in x.shape)]:
        unit = np.zeros_like(x)
        unit[place] = 1
        np.testing.assert_allclose(gx[place], np.sum(g * einsum(unit, y, tx, ty).reshape(g.shape)), atol=1e-10)
    for place in [(0,) * y.ndim, tuple(d - 1 for d in y.shape)]:
        unit = np.zeros_like(y)
        unit[place] = 1
        np.testing.assert_allclose(gy[place], np.sum(g * einsum(x, unit, tx, ty).reshape(g.shape)), atol=1e-10)


def peak(run: Any) -> int:
    """Bytes allocated at most while `run` runs, beyond what was there."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_gradient_of_mul_allocates_only_the_results() -> None:
    x, y = np.ones((64, 8, 32), "f"), np.ones((256, 128), "f")
    out, attrs = np.ones((64, 128), "f"), {"x_num_col_dims": 1, "y_num_col_dims": 1}
    back = find_op("mul_grad")
    used = peak(lambda: back.forward(numpy_xp, x, y, out, wanted=(True, True), **attrs))
    assert used < x.nbytes + y.nbytes + 8192
    used = peak(lambda: back.forward(numpy_xp, x, y, out, wanted=(False, True), **attrs))
    assert used < y.nbytes + 8192


def test_half_precision_is_summed_in_single() -> None:
    x = np.full((1, 4096), 0.1, np.float16)
    got = dynamic(wb.matmul, x, np.ones((4096, 1), np.float16))
    assert got.dtype == np.float16
    assert abs(float(got[0, 0]) - 4096 * float(x[0, 0])) < 0.2  # float16 steps are 0.25 here; its own sum stalls at 256


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (wb.matmul, InvalidArgument, r"inner dimensions(.|\n)*3 rows on the right(.|\n)*\[2, 3\](.|\n)*got: *2"),
        (wb.bmm, InvalidArgument, r"\[b, m, k\] and \[b, k, n\](.|\n)*\[2, 3\] and \[2, 3\]"),
        (wb.dot, None, ""),
        (lambda x, y: wb.dot(x, y[0]), InvalidArgument, "of one shape"),
        (lambda x, y: wb.matmul(x, y.astype("float32")), InvalidType, "one dtype(.|\n)*float64(.|\n)*float32"),
        (lambda x, y: wb.matmul(x > 0, y > 0), InvalidType, "matmul takes numbers"),
        (lambda x, y: MUL(x, y, x_num_col_dims=2), InvalidArgument, r"x_num_col_dims(.|\n)*\[1, 2\)(.|\n)*2"),
        (lambda x, y: MUL(x, y), InvalidArgument, r"equally many(.|\n)*3 rows(.|\n)*2, from \[2\] of Y"),
    ],
)
def test_what_is_refused(call: Any, error: Any, words: str) -> None:
    x, y = wb.to_tensor(np.ones((2, 3))), wb.to_tensor(np.ones((2, 3)))
    if error is None:
        assert call(x, y).shape == [2]
        return
    with pytest.raises(error, match=words):
        call(x, y)


def test_in_programs() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5))
    np.testing.assert_allclose(both(wb.bmm, x, y), np.einsum("bmk,bkn->bmn", x, y))
    np.testing.assert_allclose(both(lambda x, y: x @ y, x, y[0]), np.einsum("bmk,kn->bmn", x, y[0]))
    np.testing.assert_allclose(both(wb.mm, x[0], y[0]), np.einsum("mk,kn->mn", x[0], y[0]))


def test_dot_has_one_dimension_less() -> None:
    """[n] of n rows in both modes, as in Paddle 2.6.2; of vectors a program makes [1], unless it is told otherwise."""
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 4, 5))
    for a, b, shape in ((x, y, (4,)), (x[0], y[0], (1,))):
        want = (a * b).sum(axis=-1)
        value, declared = static(wb.dot, a, b, known=True)
        assert value.shape == declared == shape
        np.testing.assert_allclose(value, want.reshape(shape))
        for function in (wb.dot, wb.matmul, lambda p, q: p @ q) if a.ndim == 1 else (wb.dot,):
            got = dynamic(function, a, b)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want)


def test_cost_counts_two_flops_per_product() -> None:
    spec = wb.framework.values.spec.Spec
    f32 = wb.framework.values.dtype.float32
    cost = MATMUL.cost(spec((8, 5, 4), f32), spec((4, 3), f32), trans_x=False, trans_y=False)
    assert cost == (2 * 8 * 5 * 4 * 3, 4 * (8 * 5 * 4 + 4 * 3 + 8 * 5 * 3))


def test_gradients_cost_two_products() -> None:
    spec, f32 = wb.framework.values.spec.Spec, wb.framework.values.dtype.float32
    specs = [spec((8, 4), f32), spec((4, 3), f32), spec((8, 3), f32)]
    attrs = {"x_num_col_dims": 1, "y_num_col_dims": 1}
    work = find_op("mul_grad").estimate(specs, specs[:2], attrs)
    assert work == tuple(2 * part for part in MUL.estimate(specs[:2], specs[2:], attrs))


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (wb.matmul, [(2, 3, 4), (4, 5)]),
        (lambda x, y: wb.matmul(x, y, True, True), [(4, 3), (2, 5, 4)]),
        (wb.matmul, [(4,), (2, 4, 3)]),
        (wb.matmul, [(2, 3, 4), (4,)]),
        (lambda x, y: MUL(x, y, x_num_col_dims=2, y_num_col_dims=2), [(2, 3, 4), (2, 2, 3)]),
    ],
)
def test_second_derivatives(build: Any, shapes: Any) -> None:
    rng = np.random.default_rng(3)
    check_second_derivative(build, *(rng.standard_normal(s) for s in shapes))
