"""What rounding may do to long sums: a bound for every product and reduction, by every way in which a program runs.

For a sum of K terms, of numbers that all have one sign or not, computed with unit roundoff u,

    |error| <= u (c(K) sum |terms| + |result|)

* `log2(K)` where terms are added up in pairs or in blocks: sums, means, variances, norms, losses, softmax, along every
  axis; matrix products and gradients of weights that the tape's kernels compute. It is what the project promises.
* `2 sqrt(K)` where one term is added after the other: convolutions (a chain over channels and taps), running sums and
  products, rows that are added at repeated indices, sums over a transposed tensor on the tape, sums over the batch in
  batch_norm, and whatever NumPy's BLAS multiplies (calls, dynamic mode, float64, a row times a matrix), of which small
  products are chains. In the worst case that can be constructed such a sum is off by K; rounding errors that have
  nothing to do with each other walk at random, and the largest measured was 0.7 sqrt(K).

Of functions that are no sums (softmax, a norm, a loss) `sum |terms|` is what a relative error of 1 in every term makes
of the result. One chain over 4,096 positive terms is off by 40 u, blocks by less than 10 u, so a row tells one from
the other. Results are compared with the same formula in extended precision. bfloat16 is multiplied and added up in
float32 and rounded once: its u counts for the result alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import workbench as wb
import workbench.nn.functional as F
import workbench.ops  # fills the op table
from tests.autodiff.small import Built
from workbench import static
from workbench.config import override
from workbench.framework.op.record import OPS
from workbench.ops.update.gradient_clip import squared_l2_norm

K = 4096
N = 1 << 14
EXACT = np.longdouble
ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-8}
WAYS = ("dynamic", "tape", "calls", "reference")
BLAS = ("dynamic", "calls", "reference")


class Sum(NamedTuple):
    """A function, and what its rounding errors are measured by.

    Attributes:
        function: of tensors. exact: of arrays. shapes: of the arguments.
        terms: that are added up. slope: of which argument the gradient is looked at, the last shape being that of what
            arrives at the result. chained: the ways in which one term is added after the other.
        size: of the exact result and the arrays, the sum of absolute terms; None for functions that are linear in
            every argument.
    """

    function: Callable[..., Any]
    exact: Callable[..., Any]
    shapes: list[tuple[int, ...]]
    terms: int = K
    slope: int | None = None
    chained: tuple[str, ...] = ()
    size: Callable[..., Any] | None = None

    def factor(self, way: str, dtype: str) -> float:
        """c(K) of the bound. float64 has no kernels: on the tape it runs as calls."""
        way = "calls" if way == "tape" and dtype == "float64" else way
        return 2 * math.sqrt(self.terms) if way in self.chained else math.log2(self.terms)


def einsum(text: str, *leave_out: int) -> Callable[..., Any]:
    return lambda *arrays: np.einsum(text, *(a for i, a in enumerate(arrays) if i not in leave_out))


def zeros_for(x: Any) -> Any:
    """One index 0 for every row of x."""
    return wb.zeros([x.shape[0]], "int64")


def relative(result: Any, *arrays: Any) -> Any:
    return abs(result)


PRODUCTS = {
    "dot": Sum(wb.dot, einsum("k,k->"), [(K,), (K,)]),
    "dot of rows": Sum(wb.dot, einsum("nk,nk->n"), [(3, K), (3, K)]),
    "matmul": Sum(wb.matmul, einsum("mk,kn->mn"), [(16, K), (K, 16)], chained=BLAS),
    "matmul of odd sizes": Sum(wb.matmul, einsum("mk,kn->mn"), [(9, K), (K, 70)], chained=BLAS),
    "matmul of few numbers": Sum(wb.addmm, lambda a, x, y: a + x @ y, [(9, 9), (9, K), (K, 9)], chained=BLAS),
    "matmul, right side turned": Sum(
        lambda x, y: wb.matmul(x, y, transpose_y=True), einsum("mk,nk->mn"), [(16, K), (16, K)], chained=BLAS
    ),
    "matmul, left side turned": Sum(
        lambda x, y: wb.matmul(x, y, transpose_x=True), einsum("km,kn->mn"), [(K, 24), (K, 80)], chained=BLAS
    ),
    "a row times a matrix": Sum(wb.matmul, einsum("k,kn->n"), [(K,), (K, 20)], chained=WAYS),  # BLAS, on the tape too
    "bmm": Sum(wb.bmm, einsum("bmk,bkn->bmn"), [(2, 16, K), (2, K, 16)], chained=BLAS),
    "tensordot": Sum(wb.tensordot, einsum("iab,abj->ij"), [(9, 64, 64), (64, 64, 9)], chained=BLAS),
    "gradient of a weight": Sum(
        wb.matmul, einsum("mk,mn->kn", 1), [(K, 8), (8, 16), (K, 16)], slope=1, chained=BLAS
    ),
    "gradient of a weight of a batch": Sum(
        wb.matmul, einsum("bmk,bmn->kn", 1), [(16, 256, 8), (8, 16), (16, 256, 16)], slope=1, chained=BLAS
    ),
    "linear": Sum(F.linear, einsum("mk,kn->mn"), [(16, K), (K, 16)], chained=BLAS),
    "mul": Sum(wb.fluid.layers.mul, einsum("mk,kn->mn"), [(16, K), (K, 16)], chained=BLAS),
}  # fmt: skip


def taps(x: np.ndarray, kernel: tuple[int, ...]) -> np.ndarray:
    return sliding_window_view(x, kernel, axis=tuple(range(2, x.ndim)))


def chain_of_taps(function: Callable[..., Any], exact: Callable[..., Any], *shapes: Any, **more: Any) -> Sum:
    return Sum(function, exact, list(shapes), chained=WAYS, **more)


CONVOLUTIONS = {
    "conv2d": chain_of_taps(
        F.conv2d, lambda x, w: np.einsum("nchwij,ocij->nohw", taps(x, (3, 3)), w), (1, 512, 5, 5), (8, 512, 3, 3),
        terms=512 * 9,
    ),
    "conv2d of few channels": chain_of_taps(
        F.conv2d, lambda x, w: np.einsum("nchwij,ocij->nohw", taps(x, (3, 3)), w), (1, 512, 5, 5), (2, 512, 3, 3),
        terms=512 * 9,
    ),
    "conv1d": chain_of_taps(
        F.conv1d, lambda x, w: np.einsum("nchi,oci->noh", taps(x, (9,)), w), (1, 512, 12), (4, 512, 9), terms=512 * 9
    ),
    "conv3d": chain_of_taps(
        F.conv3d, lambda x, w: np.einsum("ncdhwijk,ocijk->nodhw", taps(x, (3, 3, 3)), w),
        (1, 160, 4, 4, 4), (4, 160, 3, 3, 3), terms=160 * 27,
    ),
    "conv2d_transpose": chain_of_taps(
        F.conv2d_transpose, lambda x, w: np.einsum("nchw,co->nohw", x, w[:, :, 0, 0]), (1, K, 3, 3), (K, 4, 1, 1)
    ),
    "depthwise conv2d": chain_of_taps(
        lambda x, w: F.conv2d(x, w, groups=3), lambda x, w: np.einsum("nchwij,cij->nchw", taps(x, (64, 64)), w[:, 0]),
        (1, 3, 66, 66), (3, 1, 64, 64),
    ),
    "gradient of what is convolved": chain_of_taps(
        F.conv2d, lambda x, w, g: np.einsum("nohw,oc->nchw", g, w[:, :, 0, 0]),
        (1, 4, 3, 3), (K, 4, 1, 1), (1, K, 3, 3), slope=0,
    ),
    "gradient of a filter": chain_of_taps(
        F.conv2d, lambda x, w, g: np.einsum("nchwij,nohw->ocij", taps(x, (3, 3)), g),
        (4, 3, 34, 34), (4, 3, 3, 3), (4, 4, 32, 32), slope=1,
    ),
    "gradient of a filter of channels": chain_of_taps(
        lambda x, w: F.conv2d(x, w, groups=3),
        lambda x, w, g: np.einsum("nchwij,nchw->cij", taps(x, (3, 3)), g)[:, None],
        (4, 3, 34, 34), (3, 1, 3, 3), (4, 3, 32, 32), slope=1,
    ),
}  # fmt: skip

REDUCTIONS = {
    "sum of all": Sum(wb.sum, lambda x: x.sum(), [(4 * N,)], 4 * N),
    "sum of columns": Sum(lambda x: wb.sum(x, axis=0), lambda x: x.sum(0), [(N + 7, 5)], N),
    "sum of rows": Sum(lambda x: wb.sum(x, axis=1), lambda x: x.sum(1), [(5, N)], N),
    "sum in the middle": Sum(lambda x: wb.sum(x, axis=1), lambda x: x.sum(1), [(3, N, 5)], N),
    "sum of two axes": Sum(lambda x: wb.sum(x, axis=[0, 2]), lambda x: x.sum((0, 2)), [(N, 3, 4)], 4 * N),
    "sum of what is turned": Sum(  # the tape keeps NumPy's call for it, which is one chain
        lambda x: wb.sum(x.transpose([1, 0]), axis=1), lambda x: x.sum(0), [(N, 5)], N, chained=("tape",)
    ),
    "mean of all": Sum(wb.mean, lambda x: x.mean(), [(4 * N,)], 4 * N),
    "mean of all of 1.x": Sum(wb.fluid.layers.mean, lambda x: x.mean(), [(4 * N,)], 4 * N),
    "mean of columns": Sum(lambda x: wb.mean(x, axis=0), lambda x: x.mean(0), [(N, 5)], N),
    "sum of tensors": Sum(lambda *xs: wb.add_n(list(xs)), lambda *xs: sum(xs), [(3,)] * 60, 60, chained=WAYS),
    "running sum": Sum(lambda x: wb.cumsum(x, axis=0), lambda x: x.cumsum(0), [(N, 3)], N, chained=WAYS),
    "average of pixels": Sum(
        lambda x: F.avg_pool2d(x, 128), lambda x: x.mean((2, 3), keepdims=True), [(1, 2, 128, 128)], N
    ),
    "average of all pixels": Sum(
        lambda x: F.adaptive_avg_pool2d(x, 1), lambda x: x.mean((2, 3), keepdims=True), [(1, 2, 128, 128)], N
    ),
    "gradient of a bias": Sum(lambda x, b: x + b, lambda x, b, g: g.sum(0), [(N, 8), (8,), (N, 8)], N, slope=1),
    "gradient of a bias before relu": Sum(
        lambda x, b: F.relu(x + b), lambda x, b, g: g.sum(0), [(N, 8), (8,), (N, 8)], N, slope=1
    ),
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
    "gradient of an embedding": Sum(
        lambda w, like: F.embedding(zeros_for(like), w), lambda w, like, g: np.stack([g.sum(0), 0 * g[0]]),
        [(2, 3), (N, 1), (N, 3)], N, slope=0, chained=WAYS,
    ),
    "gradient of gathered rows": Sum(
        lambda w, like: wb.gather(w, zeros_for(like)), lambda w, like, g: np.stack([g.sum(0), 0 * g[0]]),
        [(2, 3), (N, 1), (N, 3)], N, slope=0, chained=WAYS,
    ),
    "rows added at an index": Sum(
        lambda w, g: wb.index_add(w, zeros_for(g), 0, g), lambda w, g: np.stack([w[0] + g.sum(0), w[1]]),
        [(2, 3), (N, 3)], N, chained=WAYS,
    ),
}  # fmt: skip


def near_one(x: Any) -> Any:
    """float32 numbers whose product neither overflows nor vanishes."""
    return (x.astype("float32") * np.float32(2.0**-12) + np.float32(1)).astype(EXACT)


def softmax(x: Any, axis: int) -> Any:
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


def normal(x: Any, axes: tuple[int, ...]) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EXACT(1e-5))


def spread(axes: tuple[int, ...]) -> Callable[..., Any]:
    """What an error of 1 in every number makes of normalised numbers."""
    return lambda e, x: abs(e) + (abs(x) + abs(x).mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True))


def batch_normed(x: Any) -> Any:
    ones = wb.ones([x.shape[1]], x.dtype)
    return F.batch_norm(x, ones * 0.0, ones, ones, ones * 0.0, training=True)


def labelled(loss: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: loss(x, zeros_for(x))


def attended(q: Any, k: Any, v: Any) -> Any:
    return np.einsum(
        "bhqk,bkhd->bqhd", softmax(np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(EXACT(q.shape[-1])), -1), v
    )


FUNCTIONS = {
    "softmax": Sum(F.softmax, lambda x: softmax(x, -1), [(3, N)], N, size=relative),
    "softmax of columns": Sum(
        lambda x: F.softmax(x, axis=0), lambda x: softmax(x, 0), [(N, 3)], N, size=relative
    ),
    "gradient of softmax of columns": Sum(
        lambda x: F.softmax(x, axis=0), lambda x, g: softmax(x, 0) * (g - (softmax(x, 0) * g).sum(0)),
        [(N, 3), (N, 3)], N, slope=0, size=lambda e, x, g: softmax(x, 0) * (abs(g) + (softmax(x, 0) * abs(g)).sum(0)),
    ),
    "log_softmax of columns": Sum(
        lambda x: F.log_softmax(x, axis=0), lambda x: np.log(softmax(x, 0)), [(N, 3)], N,
        size=lambda e, x: abs(e) + abs(x),
    ),
    "logsumexp": Sum(
        lambda x: wb.logsumexp(x, axis=0), lambda x: np.log(np.exp(x).sum(0)), [(N, 3)], N, size=lambda e, x: abs(e) + 1
    ),
    "cross_entropy": Sum(
        labelled(F.cross_entropy), lambda x: -np.log(softmax(x, -1))[:, 0].mean(), [(N, 7)], N,
        size=lambda e, x: abs(e) + abs(x).max(-1).mean(),
    ),
    "cross_entropy of soft labels in columns": Sum(
        lambda x, y: F.softmax_with_cross_entropy(x, y, soft_label=True, axis=0),
        lambda x, y: -(y * np.log(softmax(x, 0))).sum(0, keepdims=True), [(N, 3), (N, 3)], N,
        size=lambda e, x, y: abs(e) + (abs(y) * (abs(x) + abs(np.log(softmax(x, 0))))).sum(0, keepdims=True),
    ),
    "mse_loss": Sum(F.mse_loss, lambda x, y: ((x - y) ** 2).mean(), [(N, 2), (N, 2)], N, size=relative),
    "l1_loss": Sum(F.l1_loss, lambda x, y: abs(x - y).mean(), [(N, 2), (N, 2)], N, size=relative),
    "binary_cross_entropy_with_logits": Sum(
        F.binary_cross_entropy_with_logits,
        lambda x, y: (np.maximum(x, 0) - x * y + np.log1p(np.exp(-abs(x)))).mean(), [(N,), (N,)], N,
        size=lambda e, x, y: abs(e) + (abs(x) * (1 + abs(y))).mean(),
    ),
    "kl_div": Sum(
        lambda x, y: F.kl_div(x, wb.exp(y)), lambda x, y: (np.exp(y) * (y - x)).mean(), [(N,), (N,)], N,
        size=lambda e, x, y: (np.exp(y) * (1 + abs(y)) * (1 + abs(y) + abs(x))).mean(),
    ),
    "1-norm of columns": Sum(lambda x: wb.norm(x, 1, axis=0), lambda x: abs(x).sum(0), [(N, 3)], N, size=relative),
    "2-norm of columns": Sum(
        lambda x: wb.norm(x, 2, axis=0), lambda x: np.sqrt((x * x).sum(0)), [(N, 3)], N, size=relative
    ),
    "squares for a clip": Sum(squared_l2_norm, lambda x: (x * x).sum(), [(4 * N,)], 4 * N, size=relative),
    "clip by norm": Sum(
        lambda x: wb.fluid.layers.clip_by_norm(x, 1.0), lambda x: x / np.sqrt((x * x).sum()), [(4 * N,)], 4 * N,
        size=relative,
    ),
    "variance of columns": Sum(lambda x: wb.var(x, axis=0), lambda x: x.var(0, ddof=1), [(N, 3)], N, size=relative),
    "product": Sum(
        lambda x: wb.prod(x * 2.0**-12 + 1.0), lambda x: near_one(x).prod(), [(K,)], chained=WAYS, size=relative,
    ),
    "running product": Sum(
        lambda x: wb.cumprod(x * 2.0**-12 + 1.0, 0), lambda x: near_one(x).cumprod(), [(K,)], chained=WAYS,
        size=relative,
    ),
    "running logsumexp": Sum(
        lambda x: wb.logcumsumexp(x, 0), lambda x: np.log(np.exp(x).cumsum()), [(K,)], chained=WAYS,
        size=lambda e, x: abs(e) + abs(x) + 1,
    ),
    "layer_norm": Sum(
        lambda x: F.layer_norm(x, [N]), lambda x: normal(x, (1,)), [(3, N)], N, size=spread((1,))
    ),
    "batch_norm": Sum(batch_normed, lambda x: normal(x, (0, 2, 3)), [(4, 3, 64, 64)], N, size=spread((0, 2, 3))),
    "batch_norm of columns": Sum(
        batch_normed, lambda x: normal(x, (0,)), [(N, 3)], N, size=spread((0,)), chained=WAYS
    ),
    "attention": Sum(
        F.scaled_dot_product_attention, attended, [(1, 4, 1, 8), (1, K, 1, 8), (1, K, 1, 8)], chained=BLAS,
        size=lambda e, q, k, v: attended(q, k, abs(v)) * (1 + np.einsum("bqhd,bkhd->bhqk", abs(q), abs(k)).max()),
    ),
}  # fmt: skip
SUMS = PRODUCTS | CONVOLUTIONS | REDUCTIONS | FUNCTIONS

WITHOUT_A_ROW = {
    "cummax cummin max_pool2d_with_index pool2d_pick reduce_amax reduce_amin reduce_max reduce_min arg_max arg_min "
    "reduce_all reduce_any": "they choose and add nothing",
    "broadcast_to_like": "they repeat",
    "fused_dot_product_attention": "what a pass makes of the ops of attention, which has a row",
    "accuracy": "it counts",
    "pool2d_spread": "it divides; windows that overlap are few",
    "conv2d_backprop_input conv2d_backprop_filter": "second derivatives: the same calls as gradients of conv2d",
    "reduce_to_like": "second derivatives: the call that undoes broadcasting, as gradients of biases do",
    "fused_batch_norm_act fused_bn_add_activation": "the calls of batch_norm, and an activation",
    "batch_norm_sums batch_norm_grad_sums batch_norm_grad_with_sums batch_norm_with_sums": "sums in float64",
    "data_norm": "one pass over rows that were added up before",
    "nce": "sums over the sampled classes, which are few",
    "clip_rows multiply_rows": "squared_l2_norm and clip_by_norm over the rows of a sparse gradient",
}
FOLDERS = ("math.products", "math.reductions", "conv.convolutions", "conv.pools", "loss", "nn.norm", "nn.sync_norm",
           "nn.data_norm", "nn.fused", "nn.group_norm", "update.gradient_clip")  # fmt: skip

KINDS: dict[str, Callable[..., np.ndarray]] = {
    "positive": lambda rng, shape: rng.random(shape),
    "of both signs": lambda rng, shape: rng.standard_normal(shape),
    "nearly equal": lambda rng, shape: 100.0 + rng.standard_normal(shape),
}
EVERY_DTYPE = (
    "dot", "matmul", "gradient of a weight", "sum of columns", "mean of all", "gradient of a bias",
    "softmax of columns",
)  # fmt: skip
EVERY_KIND = ("dot", "matmul", "bmm", "sum of columns", "sum of two axes", "mean of all")
TRIALS = [
    *((name, "float32", "positive") for name in SUMS),
    *((name, dtype, "positive") for name in EVERY_DTYPE for dtype in ("float64", "bfloat16")),
    *((name, "float32", kind) for name in EVERY_KIND for kind in ("of both signs", "nearly equal")),
]


USES = 4  # by then dynamic mode has prepared a faster call


def at_once(row: Sum, arrays: list[np.ndarray], dtype: str) -> np.ndarray:
    tensors = [wb.to_tensor(a).astype(dtype) for a in arrays]
    if row.slope is None:
        return row.function(*tensors).astype(arrays[0].dtype.name).numpy()
    *xs, g = tensors
    xs[row.slope].stop_gradient = False
    return wb.grad(row.function(*xs), xs[row.slope], g)[0].astype(arrays[0].dtype.name).numpy()


@cache
def program_of(name: str, dtype: str) -> tuple[Built, Any]:
    """The program of a row, for all ways to run it."""
    row, fed_dtype = SUMS[name], "float32" if dtype == "bfloat16" else dtype
    with Built() as built:
        fed = [static.data(f"x{i}", list(shape), fed_dtype) for i, shape in enumerate(row.shapes)]
        for x in fed:
            x.stop_gradient = False
        xs = [x.astype(dtype) for x in fed]
        if row.slope is None:
            out = row.function(*xs)
        else:
            (out,) = static.gradients(row.function(*xs[:-1]), xs[row.slope], xs[-1])
        out = out.astype(fed_dtype)
    return built, out


def in_a_program(name: str, arrays: list[np.ndarray], dtype: str, way: str) -> np.ndarray:
    built, out = program_of(name, dtype)
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


@pytest.mark.parametrize(("name", "dtype", "kind"), TRIALS)
def test_errors_of_long_sums_are_bounded(name: str, dtype: str, kind: str) -> None:
    row = SUMS[name]
    arrays = data(row, kind, dtype)
    wide = [a.astype(EXACT) for a in arrays]
    result = row.exact(*wide)
    size = row.exact(*map(abs, wide)) if row.size is None else row.size(result, *wide)
    for way in WAYS:
        adding = ROUNDOFF["float64" if dtype == "float64" else "float32"] * row.factor(way, dtype) * size
        allowed = adding + ROUNDOFF[dtype] * (abs(result) + adding)
        if way == "dynamic":
            runs = [at_once(row, arrays, dtype) for _ in range(USES)]
        else:
            runs = [in_a_program(name, arrays, dtype, way)]
        errors = np.max([abs(got.reshape(result.shape) - result) for got in runs], axis=0)
        worst = (
            errors / np.where(allowed > 0, allowed, np.finfo(dtype if dtype == "float64" else "float32").tiny)
        ).max()
        assert worst <= 1, f"{way}: {worst:.1f} times what is allowed"


def test_every_product_and_reduction_has_a_bound() -> None:
    """Element-wise ops add nothing up; everything else of these files has a row, or a reason why not."""
    bounded = set()
    for name in SUMS:
        for op in program_of(name, "float32")[0].main.global_block().ops:
            bounded.add((op.record.forward_of or op.record).type)
    excused = {type for types in WITHOUT_A_ROW for type in types.split()}
    forward = {type: op for type, op in OPS.items() if op.forward_of is None and not op.is_elementwise}
    adding = {
        type
        for type, op in forward.items()
        if op.is_product or op.forward.__module__.removeprefix("workbench.ops.").startswith(FOLDERS)
    }
    assert not adding - bounded - excused, "neither a row nor a reason"
    assert not excused - adding, "no such op"
    assert not excused & bounded, "both a row and a reason"
