"""Norms and what is composed of decompositions: against NumPy and SciPy, in both modes, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.spatial

import workbench as wb
from tests.ops.math.test_composed import check_gradient
from tests.ops.programs import dynamic, static
from workbench.errors import InvalidArgument, InvalidType

L = wb.linalg
R = np.random.default_rng(17)
A, B = R.normal(size=(3, 4)), R.normal(size=(3, 4))
CUBE = R.normal(size=(2, 3, 4))
SQUARE = R.normal(size=(3, 3)) + 2 * np.eye(3)
CHAIN = tuple(R.normal(size=s) for s in ((2, 5), (5, 3), (3, 6), (6, 2)))
WEIGHTS = np.array([1.0, 2.0, 3.0, 0.5])
REFLECTED, TAU = np.linalg.qr(A.T, mode="raw")

Row = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]
ROWS: dict[str, Row] = {
    "norm": (L.norm, lambda x: np.sqrt((x * x).sum()), (CUBE,)),
    "norm along": (lambda x: L.norm(x, 3, 1), lambda x: (abs(x) ** 3).sum(1) ** (1 / 3), (CUBE,)),
    "norm of matrices": (lambda x: L.norm(x, axis=[0, 2]), lambda x: np.linalg.norm(x, axis=(0, 2)), (CUBE,)),
    "largest": (lambda x: L.norm(x, np.inf, 0, True), lambda x: abs(x).max(0, keepdims=True), (CUBE,)),
    "nuclear": (
        lambda x: L.norm(x, "nuc", [0, 2]), lambda x: np.linalg.norm(x, "nuc", (0, 2)), (CUBE,)
    ),
    "cond": (L.cond, np.linalg.cond, (SQUARE,)),
    **{
        f"cond {p}": (lambda x, p=p: L.cond(x, p), lambda x, p=p: np.linalg.cond(x, p), (SQUARE,))
        for p in (-2, 1, -1, np.inf, -np.inf, "fro", "nuc")
    },
    "pinv": (L.pinv, np.linalg.pinv, (A,)),
    "pinv of symmetric ones": (
        lambda x: L.pinv(x + x.t(), hermitian=True), lambda x: np.linalg.pinv(x + x.T), (SQUARE,)
    ),
    "multi_dot": (lambda *m: L.multi_dot(list(m)), lambda *m: reduce(np.matmul, m), CHAIN),
    "multi_dot with vectors": (
        lambda *m: L.multi_dot(list(m)), lambda *m: reduce(np.matmul, m), (CHAIN[0][0], CHAIN[1], CHAIN[2][:, 0])
    ),
    "cov": (L.cov, np.cov, (A,)),
    "cov of columns": (lambda x: L.cov(x, rowvar=False, ddof=False), lambda x: np.cov(x, rowvar=False, ddof=0), (A,)),
    "cov with weights": (
        lambda x: L.cov(x, aweights=wb.assign(WEIGHTS)), lambda x: np.cov(x, aweights=WEIGHTS), (A,)
    ),
    "cov counted": (
        lambda x: L.cov(x, fweights=wb.assign(np.array([1, 2, 3, 1]))),
        lambda x: np.cov(x, fweights=[1, 2, 3, 1]),
        (A,),
    ),
    "corrcoef": (L.corrcoef, np.corrcoef, (A,)),
    "matrix_power": (lambda x: L.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5), (SQUARE,)),
    "matrix_power, inverse": (lambda x: L.matrix_power(x, -3), lambda x: np.linalg.matrix_power(x, -3), (SQUARE,)),
    "eigvalsh": (lambda x: L.eigvalsh(x + x.t()), lambda x: np.linalg.eigvalsh(x + x.T), (SQUARE,)),
    "cholesky_solve": (
        lambda b, x: L.cholesky_solve(b, L.cholesky(x @ x.t(), True), True),
        lambda b, x: np.linalg.solve(x @ x.T, b),
        (A, SQUARE),
    ),
    "solve of a vector": (L.solve, np.linalg.solve, (SQUARE, A[:, 0])),
    "householder_product": (
        L.householder_product,
        lambda x, tau: reduce(
            np.matmul,
            [np.eye(4) - tau[i] * np.outer(v, v) for i, v in enumerate(_reflections(x))],
        )[:, :3],
        (REFLECTED.T, TAU),
    ),
    "cross": (lambda x, y: wb.cross(x, y, 0), lambda x, y: np.cross(x, y, axis=0), (A, B)),
    "cdist": (wb.cdist, scipy.spatial.distance.cdist, (A, B[:2])),
    "cdist 1": (lambda x, y: wb.cdist(x, y, 1.0), lambda x, y: abs(x[:, None] - y).sum(-1), (A, B[:2])),
    "renorm": (
        lambda x: wb.renorm(x, 2.0, 1, 1.0),
        lambda x: x * np.minimum(1.0, 1.0 / (np.linalg.norm(x, axis=0) + 1e-7)),
        (A,),
    ),
    "vander": (lambda x: wb.vander(x, 3), lambda x: np.vander(x, 3), (A[0],)),
    "vander, rising": (lambda x: wb.vander(x, increasing=True), lambda x: np.vander(x, increasing=True), (A[0],)),
    **{
        f"einsum {equation}": (
            lambda *x, e=equation: wb.einsum(e, *x), lambda *x, e=equation: np.einsum(e, *x), points
        )
        for equation, points in {
            "ij->ji": (A,),
            "ij": (A,),
            "ij->": (A,),
            "ii->i": (SQUARE,),
            "ii": (SQUARE,),
            "ij,ij->": (A, B),
            "i,j->ij": (A[0], B[:, 0]),
            "ij,kj->ik": (A, B),
            "bij,jk->bik": (CUBE, B.T),
            "bij,bjk->bk": (CUBE, CUBE.transpose(0, 2, 1)),
            "...ij,...jk->...ik": (CUBE, A.T[None]),
            "i...,...j->ij...": (A[0], CUBE),
            "ij,jk,kl->il": (A, B.T, A),
            "ba,cb": (A, B[:2, :3]),
        }.items()
    },
}  # fmt: skip


def _reflections(x: np.ndarray) -> np.ndarray:
    return (np.tril(x, -1) + np.eye(*x.shape)).T


@pytest.mark.parametrize("name", ROWS)
def test_values_are_numpy_s_in_both_modes(name: str) -> None:
    function, reference, points = ROWS[name]
    values = dynamic(function, *points)
    np.testing.assert_allclose(values, reference(*points), rtol=1e-9, atol=1e-9)
    in_program, shape = static(function, *points, known=True)
    np.testing.assert_allclose(in_program, values.reshape(in_program.shape), rtol=1e-12, atol=1e-13)
    assert tuple(shape) == in_program.shape


@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_those_of_differences(name: str) -> None:
    function, reference, points = ROWS[name]
    check_gradient(function, reference, *points)


CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "matrix_power(x, 0)": lambda x: wb.linalg.matrix_power(x, 0),
    "norm(p=0)": lambda x: wb.norm(x, p=0),
    "norm(p=0) of rows": lambda x: wb.norm(x, p=0, axis=1),
    "dist(p=0)": lambda x: wb.dist(x, wb.ones_like(x), 0),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_what_changes_nowhere_has_a_gradient_of_zeros(name: str) -> None:
    """As in Paddle 2.6.2, where such a function is one of x all the same; whatever x holds."""
    x = wb.to_tensor([[2.0, 0.0], [np.inf, 1.0]], stop_gradient=False)
    CONSTANTS[name](x).sum().backward()
    assert np.array_equal(x.grad.numpy(), np.zeros((2, 2)))


def test_ranks_and_factors() -> None:
    low = wb.to_tensor(np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]))
    assert L.matrix_rank(low).item() == 1 and L.matrix_rank(wb.to_tensor(SQUARE)).item() == 3
    assert L.matrix_rank(wb.to_tensor(np.diag([3.0, 2.0, 0.5])), tol=1.0, hermitian=True).item() == 2
    assert L.matrix_rank(low).dtype == "int32"
    shapes = {driver: L.lstsq(low, low, driver=driver)[3].shape for driver in (None, "gels", "gelsd", "gelss")}
    assert shapes == {None: [0], "gels": [0], "gelsd": [3], "gelss": [3]}
    p, lower, upper = L.lu_unpack(*L.lu(wb.to_tensor(CUBE)))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), CUBE, atol=1e-12)
    assert L.lu(wb.zeros([2, 2]), get_infos=True)[2].item() == 1
    q, r = L.qr(wb.to_tensor(A), "complete")
    np.testing.assert_allclose((q @ r).numpy(), A, atol=1e-12)
    assert L.qr(wb.to_tensor(A), "r").shape == [3, 4]
    u, s, v = L.pca_lowrank(wb.to_tensor(A), 2)
    centred = A - A.mean(0)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(centred)[1][:2])
    np.testing.assert_allclose((u * s @ v.t()).numpy(), centred, atol=1e-12)  # three centred rows span a plane
    assert L.matrix_power(wb.to_tensor(SQUARE), 0).tolist() == np.eye(3).tolist()


def test_one_triangle_counts_and_the_gradient_goes_to_both() -> None:
    x = wb.to_tensor(SQUARE @ SQUARE.T, stop_gradient=False)
    other = wb.to_tensor(np.tril(SQUARE @ SQUARE.T))
    np.testing.assert_array_equal(L.eigvalsh(other).numpy(), L.eigvalsh(x).numpy())
    np.testing.assert_array_equal(L.eigvalsh(other.t(), "U").numpy(), L.eigvalsh(x).numpy())
    np.testing.assert_array_equal(L.cholesky(other).numpy(), L.cholesky(x).numpy())
    np.testing.assert_array_equal(L.cholesky(other.t(), True).numpy(), L.cholesky(x, True).numpy())
    assert not np.array_equal(L.eigvalsh(other, "U").numpy(), L.eigvalsh(x).numpy())
    L.cholesky(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), x.grad.numpy().T)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: L.inv(wb.zeros([2, 2])), InvalidArgument, "(?i)singular"),
        (lambda: L.inv(wb.ones([2, 3])), InvalidArgument, "square"),
        (lambda: L.det(wb.ones([2, 2], "int32")), InvalidType, "floating"),
        (lambda: L.cholesky(wb.to_tensor([[1.0, 2.0], [2.0, 1.0]])), InvalidArgument, "(?i)positive"),
        (lambda: L.solve(wb.ones([2, 2]), wb.ones([3, 1])), InvalidArgument, "rows"),
        (lambda: L.norm(wb.ones([2]), "max"), InvalidArgument, "norm's p"),
        (lambda: L.cond(wb.ones([2, 2]), 3), InvalidArgument, "cond's p"),
        (lambda: L.qr(wb.ones([2, 2]), "full"), InvalidArgument, "mode"),
        (lambda: L.eigh(wb.ones([2, 2]), "M"), InvalidArgument, "UPLO"),
        (lambda: L.multi_dot([wb.ones([2, 2])]), InvalidArgument, "at least two"),
        (lambda: L.multi_dot([wb.ones([2, 2]), wb.ones([2]), wb.ones([2, 2])]), InvalidArgument, "ends"),
        (lambda: L.lstsq(wb.ones([2, 2]), wb.ones([2, 1]), driver="best"), InvalidArgument, "driver"),
        (lambda: L.householder_product(wb.ones([2, 3]), wb.ones([2])), InvalidArgument, "reflections"),
        (lambda: wb.cross(wb.ones([2]), wb.ones([2])), InvalidArgument, "three"),
        (lambda: wb.cdist(wb.ones([2, 2]), wb.ones([2, 2]), p=-1.0), InvalidArgument, "p >= 0"),
        (lambda: wb.einsum("ij,jk->ik", wb.ones([2, 2])), InvalidArgument, "2 operands"),
        (lambda: wb.einsum("ijk->", wb.ones([2, 2])), InvalidArgument, "does not fit"),
        (lambda: wb.einsum("ij->ijk", wb.ones([2, 2])), InvalidArgument, "at most once"),
        (lambda: wb.einsum("ij,jk->ik", wb.ones([2, 2]), wb.ones([3, 2])), InvalidArgument, "sizes of 'j'"),
        (lambda: wb.einsum("i1->i", wb.ones([2, 2])), InvalidArgument, "letters"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
