"""What rounding may do to long sums: bounds for products and reductions, by every way in which a program is computed.

For a sum of K terms, of numbers that all have one sign or not, computed with unit roundoff u,

    |error| <= u (log2(K) sum |terms| + |result|)

One chain of additions over 8,192 positive terms is off by 70 u and more, pairwise and blocked sums by less than 10 u.
Results are compared with the same formula in extended precision. bfloat16 is multiplied and added up in float32 and
rounded once: its u counts for the result alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
import workbench.nn.functional as F
from tests.autodiff.small import Built
from workbench import static
from workbench.config import override

K = 8192
EXACT = np.longdouble
ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-8}
WAYS = ("dynamic", "tape", "calls", "reference")


class Sum(NamedTuple):
    """A function that is linear in every argument.

    Attributes:
        function: of tensors. exact: of arrays. shapes: of the arguments.
        terms: that are added up. slope: of which argument the gradient is looked at, the last shape being that of what
            arrives at the result. ways: which keep the bound.
    """

    function: Callable[..., Any]
    exact: Callable[..., Any]
    shapes: list[tuple[int, ...]]
    terms: int = K
    slope: int | None = None
    ways: tuple[str, ...] = WAYS


def einsum(text: str, *leave_out: int) -> Callable[..., Any]:
    return lambda *arrays: np.einsum(text, *(a for i, a in enumerate(arrays) if i not in leave_out))


PRODUCTS = {
    "dot": Sum(wb.dot, einsum("k,k->"), [(K,), (K,)]),
    "dot of rows": Sum(wb.dot, einsum("nk,nk->n"), [(3, K), (3, K)]),
    "matmul": Sum(wb.matmul, einsum("mk,kn->mn"), [(16, K), (K, 16)]),
    "matmul of odd sizes": Sum(wb.matmul, einsum("mk,kn->mn"), [(9, K), (K, 70)]),
    "matmul, right side turned": Sum(
        lambda x, y: wb.matmul(x, y, transpose_y=True), einsum("mk,nk->mn"), [(16, K), (16, K)]
    ),
    "matmul, left side turned": Sum(
        lambda x, y: wb.matmul(x, y, transpose_x=True), einsum("km,kn->mn"), [(K, 24), (K, 80)]
    ),
    "bmm": Sum(wb.bmm, einsum("bmk,bkn->bmn"), [(2, 16, K), (2, K, 16)]),
    "gradient of a weight": Sum(wb.matmul, einsum("mk,mn->kn", 1), [(K, 8), (8, 16), (K, 16)], slope=1),
    "gradient of a weight of a batch": Sum(
        wb.matmul, einsum("bmk,bmn->kn", 1), [(16, 512, 8), (8, 16), (16, 512, 16)], slope=1
    ),
    "linear": Sum(F.linear, einsum("mk,kn->mn"), [(16, K), (K, 16)]),
}  # fmt: skip

N = 1 << 15
REDUCTIONS = {
    "sum of all": Sum(wb.sum, lambda x: x.sum(), [(4 * N,)], 4 * N),
    "sum of columns": Sum(lambda x: wb.sum(x, axis=0), lambda x: x.sum(0), [(N + 7, 5)], N),
    "sum of rows": Sum(lambda x: wb.sum(x, axis=1), lambda x: x.sum(1), [(5, N)], N),
    "sum in the middle": Sum(lambda x: wb.sum(x, axis=1), lambda x: x.sum(1), [(3, N, 5)], N),
    "sum of two axes": Sum(lambda x: wb.sum(x, axis=[0, 2]), lambda x: x.sum((0, 2)), [(N, 3, 4)], 4 * N),
    "sum of what is turned": Sum(  # the tape keeps NumPy's call for it, which is one chain
        lambda x: wb.sum(x.transpose([1, 0]), axis=1), lambda x: x.sum(0), [(N, 5)], N,
        ways=("dynamic", "calls", "reference"),
    ),
    "mean of all": Sum(wb.mean, lambda x: x.mean(), [(4 * N,)], 4 * N),
    "mean of columns": Sum(lambda x: wb.mean(x, axis=0), lambda x: x.mean(0), [(N, 5)], N),
    "gradient of a bias": Sum(lambda x, b: x + b, lambda x, b, g: g.sum(0), [(N, 8), (8,), (N, 8)], N, slope=1),
    "gradient of a bias of channels": Sum(
        lambda x, b: x + b, lambda x, b, g: g.sum((0, 2), keepdims=True), [(256, 3, 64), (1, 3, 1), (256, 3, 64)], N,
        slope=1,
    ),
    "gradient of what is expanded": Sum(
        lambda b: wb.expand(b, [N, 3]), lambda b, g: g.sum(0), [(3,), (N, 3)], N, slope=0
    ),
    "gradient of what is tiled": Sum(
        lambda b: wb.tile(b, [N, 1]), lambda b, g: g.sum(0, keepdims=True), [(1, 3), (N, 3)], N, slope=0
    ),
    "gradient of the bias of layer_norm": Sum(
        lambda x, w, b: F.layer_norm(x, [8], w, b), lambda x, w, b, g: g.sum(0), [(N, 8), (8,), (8,), (N, 8)], N,
        slope=2,
    ),
}  # fmt: skip
SUMS = PRODUCTS | REDUCTIONS

KINDS: dict[str, Callable[..., np.ndarray]] = {
    "positive": lambda rng, shape: rng.random(shape),
    "of both signs": lambda rng, shape: rng.standard_normal(shape),
    "nearly equal": lambda rng, shape: 100.0 + rng.standard_normal(shape),
}


def at_once(row: Sum, arrays: list[np.ndarray], dtype: str) -> np.ndarray:
    tensors = [wb.to_tensor(a).astype(dtype) for a in arrays]
    if row.slope is None:
        return row.function(*tensors).astype(arrays[0].dtype.name).numpy()
    *xs, g = tensors
    for x in xs:
        x.stop_gradient = False
    return wb.grad(row.function(*xs), xs[row.slope], g)[0].astype(arrays[0].dtype.name).numpy()


def in_a_program(row: Sum, arrays: list[np.ndarray], dtype: str, way: str) -> np.ndarray:
    with Built() as built:
        fed = [static.data(f"x{i}", list(a.shape), a.dtype.name) for i, a in enumerate(arrays)]
        for x in fed:
            x.stop_gradient = False
        xs = [x.astype(dtype) for x in fed]
        if row.slope is None:
            out = row.function(*xs)
        else:
            (out,) = static.gradients(row.function(*xs[:-1]), xs[row.slope], xs[-1])
        out = out.astype(arrays[0].dtype.name)
    options = {"executor": "reference"} if way == "reference" else {"cpu_tape": way == "tape"}
    with override(**options):
        return built.run({f"x{i}": a for i, a in enumerate(arrays)}, [out])[0]


def data(row: Sum, kind: str, dtype: str) -> list[np.ndarray]:
    """Numbers that the dtype holds, in one that NumPy has."""
    rng = np.random.default_rng(0)
    arrays = [KINDS[kind](rng, shape) for shape in row.shapes]
    if dtype == "bfloat16":
        return [wb.to_tensor(a).astype(dtype).astype("float32").numpy() for a in arrays]
    return [a.astype(dtype) for a in arrays]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("name", SUMS)
def test_errors_of_long_sums_are_bounded(name: str, dtype: str, kind: str) -> None:
    row = SUMS[name]
    arrays = data(row, kind, dtype)
    wide = [a.astype(EXACT) for a in arrays]
    result, size = row.exact(*wide), row.exact(*map(abs, wide))
    adding = ROUNDOFF["float64" if dtype == "float64" else "float32"] * math.log2(row.terms) * size
    allowed = adding + ROUNDOFF[dtype] * (abs(result) + adding)
    for way in row.ways:
        got = at_once(row, arrays, dtype) if way == "dynamic" else in_a_program(row, arrays, dtype, way)
        worst = (abs(got.reshape(result.shape) - result) / allowed).max()
        assert worst <= 1, f"{way}: {worst:.1f} times what is allowed"
