"""Attention on a simulated GPU, and its gradients, against the op's NumPy form in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.attention import (
    Attention,
    attention_kernel,
    attention_keys_kernel,
    attention_queries_kernel,
    attention_rows_kernel,
    attention_sizes,
)
from workbench.cuda.kernels.numbers import NoKernel
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype

NEAR = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}
CASES: dict[str, tuple[tuple[int, ...], int, int, int, tuple[int, ...] | None, bool]] = {
    "one of each": ((1,), 1, 1, 1, None, True),
    "heads": ((2, 3), 7, 5, 3, None, True),
    "several tiles": ((2,), 40, 70, 20, None, True),
    "a mask for all": ((2, 2), 9, 33, 8, (9, 33), True),
    "a mask of samples": ((2, 3), 35, 6, 16, (2, 1, 1, 6), True),
    "a mask of heads": ((2, 3), 6, 35, 16, (1, 3, 6, 1), True),
    "keys turned": ((3,), 10, 37, 6, (3, 10, 37), False),
    "without a batch": ((), 34, 3, 5, None, True),
}  # fmt: skip
"""Dimensions in front, queries, keys, numbers of a query, the shape of a mask, and whether K keeps its rows."""
ALL = [(name, "float32") for name in CASES]
ALL += [("a mask of heads", dtype) for dtype in ("float64", "float16", "bfloat16")]


class Case:
    """One attention with its operands; values have two numbers more than queries."""

    def __init__(self, name: str, dtype: str = "float32") -> None:
        batch, queries, keys, depth, mask, self.keeps_rows = CASES[name]
        random = np.random.default_rng(0)
        self.dtype = as_dtype(dtype).numpy

        def numbers(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(self.dtype)

        self.q, self.v = numbers(*batch, queries, depth), numbers(*batch, keys, depth + 2)
        self.k = numbers(*batch, *((keys, depth) if self.keeps_rows else (depth, keys)))
        self.mask = None if mask is None else numbers(*mask)
        if self.mask is not None:  # beside a hidden key there is one that is not, or scores lose what they differ in
            self.mask[..., 1:][random.random((*self.mask.shape[:-1], self.mask.shape[-1] - 1)) < 0.3] = -6e4
        self.g = numbers(*batch, queries, depth + 2)
        self.one = attention_sizes(self.q.shape, self.k.shape, self.v.shape, mask, self.keeps_rows)
        self.attrs = {"by": 0.37, "divides": False, "trans_k": self.keeps_rows}

    @property
    def given(self) -> list[np.ndarray]:
        return [self.q, self.k, self.v, *([] if self.mask is None else [self.mask])]

    def wide(self) -> list[Any]:
        return [None if a is None else a.astype("f8") for a in (self.q, self.k, self.v, self.mask)]

    def result(self, seed: int = 0) -> np.ndarray:
        one = attention_kernel(self.dtype, self.one)
        operands = [*self.given, (self.g.shape, self.dtype)]
        return run_kernel(one.kernel, one.launch(self.one, 0.37), operands, seed)[0][-1]

    def gradients(self, seed: int = 0) -> list[np.ndarray]:
        wide = np.float64 if self.dtype == np.float64 else np.float32
        rows = (self.g.shape[:-1], wide)
        one = attention_rows_kernel(self.dtype, self.one)
        stats = run_kernel(one.kernel, one.launch(self.one, 0.37), [*self.given, self.g, rows, rows], seed)[0][-2:]
        one = attention_queries_kernel(self.dtype, self.one)
        operands = [*self.given, self.g, (self.q.shape, self.dtype), *stats]
        of_q = run_kernel(one.kernel, one.launch(self.one, 0.37), operands, seed)[0][-3]
        one = attention_keys_kernel(self.dtype, self.one)
        operands = [*self.given, self.g, (self.k.shape, self.dtype), (self.v.shape, self.dtype), *stats]
        of_k, of_v = run_kernel(one.kernel, one.launch(self.one, 0.37), operands, seed)[0][-4:-2]
        return [of_q, of_k, of_v]

    def near(self, got: np.ndarray, want: np.ndarray) -> None:
        near = NEAR[as_dtype(self.dtype).name]
        np.testing.assert_allclose(got.astype("f8"), want, near, 4 * near * float(np.abs(want).max(initial=1.0)))


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_attention(name: str, dtype: str) -> None:
    case = Case(name, dtype)
    want = find_op("fused_dot_product_attention").forward(np, *case.wide(), **case.attrs)
    case.near(case.result(seed=1), want)


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_its_gradients(name: str, dtype: str) -> None:
    case = Case(name, dtype)
    backward = find_op("fused_dot_product_attention").backward
    want = backward.forward(np, *case.wide(), case.g.astype("f8"), wanted=(True,) * 3, **case.attrs)
    for got, expected in zip(case.gradients(seed=1), want, strict=False):
        case.near(got, expected)


def test_keys_that_are_hidden_count_nothing() -> None:
    case = Case("a mask of samples")
    assert case.mask is not None
    case.mask[..., 3:] = -np.inf
    want = find_op("fused_dot_product_attention").forward(np, *case.wide(), **case.attrs)
    case.near(case.result(), want)
    of_q, of_k, of_v = case.gradients()
    assert np.isfinite(of_q).all()
    assert not of_k[..., 3:, :].any()
    assert not of_v[..., 3:, :].any()


def test_a_tile_of_hidden_keys_before_others_and_rows_of_hidden_keys_alone() -> None:
    case = Case("several tiles")
    hidden = np.zeros((2, 40, 70), np.float32)
    hidden[0, :, :40] = -np.inf
    hidden[1, 5] = -np.inf
    case.mask = hidden
    case.one = attention_sizes(case.q.shape, case.k.shape, case.v.shape, hidden.shape, True)
    with np.errstate(invalid="ignore"):
        want = find_op("fused_dot_product_attention").forward(np, *case.wide(), **case.attrs)
    got = case.result()
    assert np.isnan(got[1, 5]).all()
    case.near(np.delete(got, 5, 1), np.delete(want, 5, 1))


def test_large_scores_do_not_overflow() -> None:
    case = Case("several tiles")
    case.q *= 1e3
    case.k *= 1e3
    want = find_op("fused_dot_product_attention").forward(np, *case.wide(), **case.attrs)
    assert np.isfinite(case.result()).all()
    np.testing.assert_allclose(case.result(), want, rtol=1e-3, atol=1e-3)


def test_bits_are_the_same_whatever_the_order_of_threads() -> None:
    case = Case("several tiles")
    runs = {b"".join(a.tobytes() for a in (case.result(seed), *case.gradients(seed))) for seed in range(2)}
    assert len(runs) == 1


def test_no_bank_is_met_twice() -> None:
    sizes = Attention(1, 1, 40, 40, 32, 32)
    q, wide = np.ones((40, 32), np.float32), ((40,), "f")
    rows = np.ones(40, np.float32)
    for make, others in [
        (attention_kernel, [(q.shape, "f")]),
        (attention_rows_kernel, [q, wide, wide]),
        (attention_queries_kernel, [q, (q.shape, "f"), rows, rows]),
        (attention_keys_kernel, [q, (q.shape, "f"), (q.shape, "f"), rows, rows]),
    ]:
        one = make("float32", sizes)
        _, counted = run_kernel(one.kernel, one.launch(sizes, 0.1), [q, q, q, *others], 1)
        assert counted.bank_conflicts == 0


def test_what_has_no_kernel_is_refused() -> None:
    with pytest.raises(NoKernel):
        attention_sizes((2, 3, 4), (1, 3, 4), (2, 3, 4), None, True)
    with pytest.raises(NoKernel):
        attention_sizes((2, 3, 4), (2, 3, 4), (2, 3, 4), (5, 2, 3, 3), True)
    with pytest.raises(NoKernel):
        Attention(1, 1, 5, 5, 1000, 1000).tile("float32")
    one = attention_kernel("float32", Attention(1, 1, 5, 5, 8, 8))
    assert one.launch(Attention(2, 3, 500, 7, 8, 8), 1.0).grid == (6 * 16, 1, 1)
    with pytest.raises(NoKernel):
        one.launch(Attention(1, 1, 5, 5, 9, 8), 1.0)


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    for depth, dtype in ((64, "bfloat16"), (128, "float32"), (64, "float64")):
        one = Attention(2, 3, 50, 40, depth, depth, mask=(0, 0, 40, 1))
        for make in (attention_kernel, attention_rows_kernel, attention_queries_kernel, attention_keys_kernel):
            assert compile_cubin(make(dtype, one).kernel.source, architecture)
