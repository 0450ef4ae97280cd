"""Running sums, products and extremes against loops."""

import math

import numpy as np
import scipy.special

from tests.ops.case import Case

R = np.random.default_rng(43)
X = R.normal(size=(3, 4, 2))
ZEROS = np.array([[2.0, 0.0, 3.0, 0.0], [0.0, 1.5, -2.0, 4.0], [1.0, -2.0, 0.5, 3.0]])
TIES = np.array([[1.0, 3.0, 2.0, 3.0], [2.0, 2.0, -1.0, 5.0]])
FAR = np.array([[-200.0, 0.0, 3.0], [50.0, -300.0, 49.0]])


def by_loop(function, exclusive=False, reverse=False):
    """A reference that calls `function` on the list of all elements up to each one."""

    def ref(x, axis=-1, **attrs):
        moved = np.moveaxis(x, axis, -1)
        out = np.empty(moved.shape)
        for index in np.ndindex(*moved.shape):
            row, at = moved[index[:-1]], index[-1]
            part = row[at + exclusive :] if reverse else row[: at + 1 - exclusive]
            out[index] = function(part.tolist())
        return np.moveaxis(out, -1, axis)

    return ref


def extremes(best):
    def ref(x, axis=-1, dtype="int64"):
        moved = np.moveaxis(x, axis, -1)
        out, places = np.empty(moved.shape), np.empty(moved.shape, dtype)
        for index in np.ndindex(*moved.shape):
            part = moved[index[:-1]][: index[-1] + 1].tolist()
            out[index] = best(part)
            places[index] = max(i for i, v in enumerate(part) if v == best(part))
        return np.moveaxis(out, -1, axis), np.moveaxis(places, -1, axis)

    return ref


HALF = {"float16": (1e-2, 1e-2)}
BACK = {"reverse": True}
CASES = [
    Case("cumsum", [X], ref=by_loop(math.fsum), tol=HALF),
    Case(
        "cumsum",
        [X],
        {"axis": 1, **BACK},
        ref=by_loop(math.fsum, reverse=True),
        id="back",
        tol=HALF,
    ),
    Case(
        "cumsum",
        [X],
        {"axis": 0, "exclusive": True},
        ref=by_loop(math.fsum, 1),
        id="without",
        tol=HALF,
    ),
    Case("cumsum", [R.integers(-5, 5, size=(3, 4))], {"axis": 0}, ref=by_loop(sum), id="whole"),
    Case("cumprod", [X], {"axis": 1}, ref=by_loop(math.prod), tol=HALF),
    Case("cumprod", [X], {"axis": -1}, ref=by_loop(math.prod), id="last", tol=HALF),
    Case("cumprod", [ZEROS], ref=by_loop(math.prod), id="zeros", dtypes=("float32", "float64")),
    Case("logcumsumexp", [X], {"axis": 1}, ref=by_loop(scipy.special.logsumexp)),
    Case("logcumsumexp", [FAR / 10], ref=by_loop(scipy.special.logsumexp), id="far", dtypes=("float32", "float64")),
    Case("cummax", [X], {"axis": 1}, ref=extremes(max)),
    Case("cummax", [TIES], {"dtype": "int32"}, ref=extremes(max), grad=False, id="ties"),
    Case("cummin", [X], {"axis": -3}, ref=extremes(min)),
    Case("cummin", [TIES], ref=extremes(min), grad=False, id="ties"),
]
