"""Matrices against SciPy, and against what defines the factors."""

import itertools
import math

import numpy as np
import scipy.linalg

from tests.ops.case import Case

R = np.random.default_rng(53)
X = R.normal(size=(2, 3, 3)) + 2 * np.eye(3)
ONE = X[0]
Y = R.normal(size=(2, 3, 2))
TALL, WIDE = R.normal(size=(2, 4, 3)), R.normal(size=(3, 4))
POSITIVE = X @ np.swapaxes(X, -1, -2) + 2 * np.eye(3)
SYMMETRIC = X + np.swapaxes(X, -1, -2)
FLOATS = {"dtypes": ("float32", "float64"), "tol": {"float32": (2e-4, 2e-5)}, "grad_tol": 1e-5}
BATCH = [[X[:0]]]


def each(function):
    """A reference for one matrix applied to all."""

    def ref(*arrays, **attrs):
        batch = arrays[0].shape[:-2]
        results = [function(*(a[i] for a in arrays), **attrs) for i in np.ndindex(*batch)]
        return np.array(results).reshape(*batch, *np.shape(results[0]))

    return ref


def determinant(x):
    """By permutations."""
    total = 0.0
    for order in itertools.permutations(range(len(x))):
        swaps = sum(a > b for a, b in itertools.combinations(order, 2))
        total += (-1) ** swaps * math.prod(x[i, j] for i, j in enumerate(order))
    return total


def signed_log(x):
    determinants = each(determinant)(x)
    return np.stack([np.sign(determinants), np.log(np.abs(determinants))])


def triangular(x, y, upper=True, transpose=False, unitriangular=False):
    return scipy.linalg.solve_triangular(x, y, trans=int(transpose), lower=not upper, unit_diagonal=unitriangular)


def lstsq(x, y, rcond=-1.0):
    z, residuals, rank, values = scipy.linalg.lstsq(x, y)
    return z, residuals, np.array(rank, np.int32), values


def checks_svd(x):
    def check(u, s, vh):
        np.testing.assert_allclose((u[..., : s.shape[-1]] * s[..., None, :]) @ vh[..., : s.shape[-1], :], x, atol=2e-5)
        for columns in (u, np.swapaxes(vh, -1, -2)):
            gram = np.swapaxes(columns, -1, -2) @ columns
            np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=2e-5)
        assert (np.diff(s, axis=-1) <= 0).all()

    return check


def checks_qr(x):
    def check(q, r):
        np.testing.assert_allclose(q @ r, x, atol=2e-5)
        np.testing.assert_allclose(r, np.triu(r))
        gram = np.swapaxes(q, -1, -2) @ q
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=2e-5)

    return check


def check_eigh(values, vectors):
    np.testing.assert_allclose((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2), SYMMETRIC, atol=2e-5)
    assert (np.diff(values, axis=-1) >= 0).all()


def permutation(pivots, like):
    out = np.eye(like.shape[-2])
    for i, other in reversed(list(enumerate(pivots - 1))):
        out[[i, other]] = out[[other, i]]
    return out


def lu(x):
    both, pivots = scipy.linalg.lu_factor(x)
    return both, (pivots + 1).astype(np.int32), np.zeros(1, np.int32)


PIVOTS = np.array([3, 3, 3], np.int32)
SHARES = {"size0": False, **FLOATS}
CASES = [
    Case("inverse", [X], ref=each(scipy.linalg.inv), **FLOATS),
    Case("determinant", [X], ref=each(determinant), **FLOATS),
    Case("determinant", [ONE], ref=determinant, id="one", **SHARES),
    Case("slogdeterminant", [X], ref=signed_log, outputs_grad=("Out",), **FLOATS),
    Case("solve", [X, Y], ref=each(scipy.linalg.solve), **FLOATS),
    Case("solve", [ONE, Y], ref=lambda x, y: each(lambda b: scipy.linalg.solve(x, b))(y), id="for all", **SHARES),
    *(
        Case(
            "triangular_solve", [ONE, Y[0]], {"upper": upper, "transpose": turned, "unitriangular": unit},
            ref=triangular, id=f"{upper}, {turned}, {unit}", **SHARES,
        )
        for upper, turned, unit in itertools.product((True, False), repeat=3)
    ),
    Case("triangular_solve", [X, Y], ref=each(triangular), **FLOATS),
    Case("lstsq", [WIDE.T, R.normal(size=(4, 2))], ref=lstsq, **SHARES),
    Case(
        "lstsq", [WIDE.T, R.normal(size=(4, 2))], {"shows_values": False}, id="without values",
        ref=lambda x, y, shows_values: (*lstsq(x, y)[:3], np.zeros(0)), **SHARES,
    ),
    Case("cholesky", [POSITIVE], ref=each(lambda x: scipy.linalg.cholesky((x + x.T) / 2, lower=True)), **FLOATS),
    Case(
        "cholesky", [POSITIVE], {"upper": True}, id="upper",
        ref=each(lambda x, upper: scipy.linalg.cholesky((x + x.T) / 2)), **FLOATS,
    ),
    Case("eigh", [SYMMETRIC], check=check_eigh, **SHARES),
    Case("svd", [TALL], check=checks_svd(TALL), **SHARES),
    Case("svd", [WIDE], check=checks_svd(WIDE), id="wide", **SHARES),
    Case(
        "svd", [WIDE], {"full_matrices": True}, check=checks_svd(WIDE), id="full", outputs_grad=("S",),
        known={"X": True}, **SHARES,
    ),
    Case("qr", [TALL], check=checks_qr(TALL), **SHARES),
    Case("qr", [WIDE], check=checks_qr(WIDE), id="wide", grad=False, **SHARES),
    Case("qr", [TALL], {"mode": "complete"}, check=checks_qr(TALL), id="complete", grad=False, **SHARES),
    Case("lu", [ONE], ref=lu, outputs_grad=("Out",), known={"X": True}, **SHARES),
    Case("lu", [WIDE.T], ref=lu, outputs_grad=("Out",), known={"X": True}, id="tall", **SHARES),
    Case("lu", [WIDE], ref=lu, outputs_grad=("Out",), known={"X": True}, id="wide", **SHARES),
    Case("lu_pivots", [PIVOTS, ONE], ref=permutation, grad=False, **SHARES),
]  # fmt: skip
