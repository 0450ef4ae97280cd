"""Functions that put, take, fill and rank, composed of other ops: against NumPy, in both modes, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.math.test_composed import check_gradient
from tests.ops.programs import dynamic, static
from workbench.errors import InvalidArgument, InvalidType

R = np.random.default_rng(11)
A, B = R.normal(size=(3, 4)), R.normal(size=(3, 4))
CUBE = R.normal(size=(2, 3, 4))
ODD = R.normal(size=(3, 5))
HOLES = np.where(ODD > 0.8, np.nan, ODD)
INDEX = np.array([2, 0])


def t(values: Any) -> Any:
    return wb.assign(np.asarray(values))


def replaced(x: np.ndarray, where: Any, values: Any) -> np.ndarray:
    out = x.copy()
    out[where] = values
    return out


def added(x: np.ndarray, where: Any, values: Any) -> np.ndarray:
    out = x.copy()
    np.add.at(out, where, values)
    return out


Row = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]
SMOOTH: dict[str, Row] = {
    "index_fill": (lambda x: wb.index_fill(x, t(INDEX), 1, 5.0), lambda x: replaced(x, np.s_[:, INDEX], 5.0), (A,)),
    "index_put": (
        lambda x, v: wb.index_put(x, (t([0, 2]), t([-1, 3])), v),
        lambda x, v: replaced(x, ([0, 2], [3, 3]), v),
        (A, B[0, :2]),
    ),
    "index_put of rows": (
        lambda x, v: wb.index_put(x, (t([[0], [2]]),), v), lambda x, v: replaced(x, [[0], [2]], v), (A, B[:1])
    ),
    "index_put, added": (
        lambda x, v: wb.index_put(x, (t([0, 0]), t([1, 1])), v, accumulate=True),
        lambda x, v: added(x, ([0, 0], [1, 1]), v),
        (A, B[0, :2]),
    ),
    "scatter_nd": (
        lambda v: wb.scatter_nd(t([[1], [1], [0]]), v, [4, 4]),
        lambda v: added(np.zeros((4, 4)), [1, 1, 0], v),
        (A,),
    ),
    "take": (lambda x: wb.take(x, t([[3, -1], [0, 3]])), lambda x: np.take(x, [[3, -1], [0, 3]]), (A,)),
    "take, wrapped": (
        lambda x: wb.take(x, t([30, -14]), "wrap"), lambda x: np.take(x, [30, -14], mode="wrap"), (A,)
    ),
    "take, clipped": (
        lambda x: wb.take(x, t([30, -14]), "clip"), lambda x: np.take(x, [30, -14], mode="clip"), (A,)
    ),
    "multiplex": (
        lambda x, y: wb.multiplex([x, y], t([[1], [0], [1]])), lambda x, y: np.stack([y[0], x[1], y[2]]), (A, B)
    ),
    "select_scatter": (
        lambda x, v: wb.select_scatter(x, v, 1, -2), lambda x, v: replaced(x, np.s_[:, -2], v), (A, B[:, 0])
    ),
    "diagonal_scatter": (
        lambda x, v: wb.diagonal_scatter(x, v, 1), lambda x, v: replaced(x, ([0, 1, 2], [1, 2, 3]), v), (A, B[:, 0])
    ),
    "diag_embed": (
        lambda x: wb.diag_embed(x, offset=-1, dim1=0),
        lambda x: np.stack([np.diag(row, -1) for row in x]).transpose(1, 0, 2),
        (A,),
    ),
    "crop": (lambda x: wb.crop(x, [2, -1], [1, 1]), lambda x: x[1:3, 1:], (A,)),
    "unfold": (
        lambda x: wb.unfold(x, 1, 2, 2), lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1)[:, ::2], (CUBE,)
    ),
    "as_strided": (
        lambda x: wb.as_strided(x, [2, 3], [1, 4], 1),
        lambda x: np.array([[x.ravel()[1 + i + 4 * j] for j in range(3)] for i in range(2)]),
        (A,),
    ),
    "combinations": (lambda x: wb.combinations(x), lambda x: x[[[0, 1], [0, 2], [1, 2]]], (A[:, 0],)),
    "repeat_interleave": (lambda x: wb.repeat_interleave(x, 2, 1), lambda x: x.repeat(2, 1), (A,)),
    "repeat_interleave by number": (
        lambda x: wb.repeat_interleave(x, [2, 0, 1], 0), lambda x: x.repeat([2, 0, 1], 0), (A,)
    ),
    "index_sample": (
        lambda x: wb.index_sample(x, t([[0, 0], [3, 1], [2, 2]])),
        lambda x: np.take_along_axis(x, np.array([[0, 0], [3, 1], [2, 2]]), 1),
        (A,),
    ),
    "kthvalue": (lambda x: wb.kthvalue(x, 2, 0)[0], lambda x: np.sort(x, 0)[1], (A,)),
    "median": (lambda x: wb.median(x, 1), lambda x: np.median(x, 1), (ODD,)),
    "median of an even count": (lambda x: wb.median(x), np.median, (A,)),
    "quantile": (lambda x: wb.quantile(x, 0.3, 1, True), lambda x: np.quantile(x, 0.3, 1, keepdims=True), (A,)),
    "quantile of many": (
        lambda x: wb.quantile(x, [0.1, 1.0], [0, 2]), lambda x: np.quantile(x, [0.1, 1.0], (0, 2)), (CUBE,)
    ),
}  # fmt: skip
EXACT: dict[str, Row] = {
    "kthvalue's place": (lambda x: wb.kthvalue(x, 2)[1], lambda x: np.argsort(x, 1)[:, 1], (A,)),
    "nanmedian": (lambda x: wb.nanmedian(x, 1), lambda x: np.nanmedian(x, 1), (HOLES,)),
    "nanquantile": (lambda x: wb.nanquantile(x, 0.7, 0), lambda x: np.nanquantile(x, 0.7, 0), (HOLES,)),
    "median with NaN": (lambda x: wb.median(x, 1), lambda x: np.median(x, 1), (HOLES,)),
    "quantile with NaN": (lambda x: wb.quantile(x, [0.5, 0.7], 1), lambda x: np.quantile(x, [0.5, 0.7], 1), (HOLES,)),
    "bucketize": (
        lambda x: wb.bucketize(x, t([-0.5, 0.0, 0.5]), right=True), lambda x: np.digitize(x, [-0.5, 0.0, 0.5]), (A,)
    ),
    "shard_index": (
        lambda x: wb.shard_index(x, 7, 2, 1), lambda x: np.where(x >= 4, x - 4, -1), (np.array([0, 3, 4, 6]),)
    ),
    "fill_diagonal": (
        lambda x: x.fill_diagonal(9.0, wrap=True),
        lambda x: replaced(x, ([0, 1, 2, 4, 5], [0, 1, 2, 0, 1]), 9.0),
        (R.normal(size=(6, 3)),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SMOOTH, *EXACT])
def test_values_are_numpy_s_in_both_modes(name: str) -> None:
    function, reference, points = {**SMOOTH, **EXACT}[name]
    values = dynamic(function, *points)
    np.testing.assert_allclose(values, reference(*points), rtol=1e-12, atol=1e-12)
    in_program, shape = static(function, *points, known=True)
    np.testing.assert_allclose(in_program, values.reshape(in_program.shape), rtol=1e-12, atol=1e-13)
    assert tuple(shape) == in_program.shape


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_differences(name: str) -> None:
    function, reference, points = SMOOTH[name]
    check_gradient(function, reference, *points)


def test_results_that_are_all_nan_or_of_one_element() -> None:
    nothing = wb.to_tensor([float("nan")])
    assert np.isnan(wb.nanmedian(nothing).item()) and np.isnan(wb.median(nothing).item())
    assert wb.quantile(wb.to_tensor([2.5]), 0.9).item() == 2.5
    assert wb.median(wb.to_tensor([1, 2])).dtype == "float32" and wb.quantile(wb.ones([2]), 0.5).dtype == "float64"


def test_a_mask_names_entries_in_dynamic_mode() -> None:
    x = wb.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    assert wb.index_put(x, (x > 1.5,), wb.to_tensor(0.0)).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    x.index_put_((x > 3.5,), wb.to_tensor(9.0))
    assert x.tolist() == [[1.0, 2.0], [3.0, 9.0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wb.take(wb.ones([2]), t([2])), InvalidArgument, "out of range"),
        (lambda: wb.take(wb.ones([2]), t([0]), "nearest"), InvalidArgument, "mode"),
        (lambda: wb.multiplex([wb.ones([2, 1])], t([[0], [0]])), InvalidArgument, "at least two"),
        (lambda: wb.index_fill(wb.ones([2]), t([5]), 0, 1.0), InvalidArgument, "out of range"),
        (lambda: wb.index_put(wb.ones([2]), (t([0]), t([0])), wb.ones([1])), InvalidArgument, "index per dimension"),
        (lambda: wb.select_scatter(wb.ones([2, 2]), wb.ones([3]), 0, 0), InvalidArgument, "shape of the slice"),
        (lambda: wb.diagonal_scatter(wb.ones([2, 2]), wb.ones([3])), InvalidArgument, "shape of the diagonals"),
        (lambda: wb.diag_embed(wb.ones([2]), dim1=1, dim2=-1), InvalidArgument, "twice"),
        (lambda: wb.crop(wb.ones([2]), [2], [1]), InvalidArgument, "not within"),
        (lambda: wb.as_strided(wb.ones([2]), [2], [2]), InvalidArgument, "element 2 of 2"),
        (lambda: wb.unfold(wb.ones([2]), 0, 3, 1), InvalidArgument, "window"),
        (lambda: wb.kthvalue(wb.ones([2]), 3), InvalidArgument, "k"),
        (lambda: wb.quantile(wb.ones([2]), 1.5), InvalidArgument, r"\[0, 1\]"),
        (lambda: wb.shard_index(t([0]), 4, 2, 2), InvalidArgument, "shard_id"),
        (lambda: wb.searchsorted(wb.ones([2, 3]), wb.ones([3, 3])), InvalidArgument, "rows"),
        (lambda: wb.histogram(wb.ones([2]), 0), InvalidArgument, "bins"),
        (lambda: wb.repeat_interleave(wb.ones([2]), [1, 2, 3], 0), InvalidArgument, "each slice"),
        (lambda: wb.combinations(wb.ones([2, 2])), InvalidArgument, "vector"),
        (lambda: wb.index_sample(wb.ones([2]), t([0])), InvalidArgument, "row of indices"),
        (lambda: wb.bucketize(wb.ones([2]), wb.ones([2, 2])), InvalidArgument, "vector"),
        (lambda: wb.index_fill(wb.ones([2]), wb.ones([1]), 0, 1.0), InvalidType, "integers"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
