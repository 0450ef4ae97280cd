"""Reductions against loops over index tuples."""

import itertools
import math

import numpy as np
import scipy.special

from tests.ops.case import Case

R = np.random.default_rng(29)
X = R.normal(size=(3, 4, 2))
INTS = R.integers(-9, 9, size=(3, 4))
TRUTH = R.random((3, 4, 2)) < 0.7
TIES = np.array([[1.0, 3.0, 3.0], [2.0, -1.0, 2.0]])
HALF = {"float16": (1e-2, 1e-2)}


def by_loop(function):
    """A reference that gathers the elements of every result in a list and calls `function` on it."""

    def ref(x, dim=(), keep_dim=False, reduce_all=False, **attrs):
        axes = range(x.ndim) if reduce_all or not dim else [d % x.ndim for d in dim]
        groups = {}
        for index in itertools.product(*map(range, x.shape)):
            key = tuple(0 if i in axes else k for i, k in enumerate(index))
            groups.setdefault(key, []).append(x[index].item())
        kept = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
        out = np.array([function(groups[key]) for key in itertools.product(*map(range, kept))]).reshape(kept)
        return out if keep_dim else out.reshape([d for i, d in enumerate(x.shape) if i not in axes] or [1])

    return ref


def mean(values):
    return math.fsum(values) / len(values)


WAYS = {
    "all": {"reduce_all": True},
    "all kept": {"reduce_all": True, "keep_dim": True},
    "first": {"dim": [0]},
    "last kept": {"dim": [-1], "keep_dim": True},
    "two": {"dim": [0, -1]},
    "every": {"dim": [0, 1, 2]},
}
KINDS = {
    "reduce_sum": math.fsum,
    "reduce_mean": mean,
    "reduce_max": max,
    "reduce_min": min,
    "reduce_prod": math.prod,
    "logsumexp": scipy.special.logsumexp,
}


def ways(type, function, x, **fields):
    return [Case(type, [x], attrs, ref=by_loop(function), id=way, **fields) for way, attrs in WAYS.items()]


def position(choose):
    def ref(x, axis=-1, keepdims=False, flatten=False, dtype="int64"):
        if flatten:
            values = x.ravel().tolist()
            place = values.index(choose(values))
            return np.full([1] * x.ndim if keepdims else [1], place)
        moved = np.moveaxis(x, axis, -1)
        out = np.zeros(moved.shape[:-1], np.int64)
        for index in np.ndindex(*out.shape):
            values = moved[index].tolist()
            out[index] = values.index(choose(values))
        return np.expand_dims(out, axis) if keepdims else out.reshape(out.shape or (1,))

    return ref


CASES = [
    *[
        case
        for type, function in KINDS.items()
        if type not in ("reduce_max", "reduce_min", "logsumexp")
        for case in ways(type, function, X, tol=HALF)
    ],
    *ways("logsumexp", scipy.special.logsumexp, X * 3, tol=HALF),
    *ways("reduce_max", max, X, size0=False),
    *ways("reduce_min", min, X, size0=False),
    *ways("reduce_amax", max, X, size0=False),
    *ways("reduce_amin", min, X, size0=False),
    Case("reduce_amax", [INTS], {"dim": [0]}, ref=by_loop(max), id="integers", size0=False),
    *ways("reduce_all", all, TRUTH),
    *ways("reduce_any", any, ~TRUTH),
    *[
        Case(
            type,
            [np.array(1.5)],
            {"reduce_all": True},
            ref=lambda x, reduce_all: x.reshape(1),
            id="no dims",
            size0=False,
        )
        for type in KINDS
    ],
    Case("mean", [X], ref=lambda x: np.array([mean(x.ravel().tolist())])),
    Case("mean", [np.array(2.5)], ref=lambda x: x.reshape(1), id="no dims"),
    # 65504 is the largest float16: the sum passes it, the mean does not
    Case("mean", [np.full(100, 2000.0)], ref=lambda x: np.array([2000.0]), id="large half", dtypes=("float16",)),
    Case("mean", [X], ref=lambda x: np.array([mean(x.ravel().tolist())]), id="bfloat16", dtypes=("bfloat16",)),
    Case(
        "reduce_mean",
        [np.full((100, 2), 2000.0)],
        {"dim": [0]},
        ref=lambda x, dim: np.full(2, 2000.0),
        id="large half",
        dtypes=("float16",),
    ),
    Case("reduce_sum", [INTS], {"dim": [1], "out_dtype": "int64"}, ref=by_loop(sum), id="integers"),
    Case(
        "reduce_sum",
        [INTS.astype(np.int8)],
        {"reduce_all": True, "out_dtype": "int64"},
        ref=by_loop(sum),
        id="narrow integers",
    ),
    Case("reduce_sum", [TRUTH], {"dim": [0], "out_dtype": "int64"}, ref=by_loop(sum), id="count"),
    Case("reduce_sum", [X], {"dim": [0], "out_dtype": "float64"}, ref=by_loop(math.fsum), id="wider"),
    Case("reduce_max", [INTS], {"dim": [0]}, ref=by_loop(max), id="integers", size0=False),
    Case("reduce_prod", [INTS], {"dim": [0]}, ref=by_loop(math.prod), id="integers"),
    Case(
        "reduce_prod",
        [np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [1.5, 2.0, -1.0]])],
        {"dim": [1]},
        ref=by_loop(math.prod),
        id="zeros",
    ),
    Case("reduce_max", [TIES], {"dim": [1]}, ref=by_loop(max), id="ties", grad=False, size0=False),
    Case(
        "logsumexp",
        [np.array([[1e3, 1e3], [-1e3, -1e3]])],
        {"dim": [1]},
        id="large",
        ref=lambda x, dim: x[:, 0] + math.log(2),
        dtypes=("float32", "float64"),
    ),
    Case(
        "logsumexp",
        [np.array([-np.inf, -np.inf])],
        ref=lambda x: np.array([-np.inf]),
        id="nothing",
        grad=False,
    ),
    *[
        Case(type, [x], attrs, ref=position(choose), id=f"{name} {way}", size0=False)
        for type, choose in (("arg_max", max), ("arg_min", min))
        for name, x in (("floats", X), ("integers", INTS), ("ties", TIES))
        for way, attrs in (
            ("last", {}),
            ("first kept", {"axis": 0, "keepdims": True}),
            ("flat", {"flatten": True}),
            ("int32", {"flatten": True, "keepdims": True, "dtype": "int32"}),
        )
    ],
    Case("arg_max", [np.array([1.0, 3.0, 2.0])], {"axis": 0}, ref=position(max), id="vector", size0=False),
    Case("reduce_to_like", [X, np.zeros((4, 1))], ref=lambda x, like: np.einsum("ijk->j", x)[:, None], tol=HALF),
    Case("reduce_to_like", [X, np.zeros((3, 4, 2))], ref=lambda x, like: x, id="same"),
    Case(
        "reduce_to_like",
        [X, np.array(0.0)],
        ref=lambda x, like: np.array(math.fsum(x.ravel())),
        id="number",
        tol=HALF,
    ),
    Case("broadcast_to_like", [X[:, :1], X], ref=lambda x, like: np.concatenate([x] * 4, axis=1)),
    Case("broadcast_to_like", [np.array(1.5), X], ref=lambda x, like: np.full(X.shape, 1.5), id="number"),
]
