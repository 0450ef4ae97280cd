"""Special functions against SciPy; pairs of numbers against Python's own."""

import math

import numpy as np
import scipy.special

from tests.ops.case import Case

R = np.random.default_rng(41)
POSITIVE = R.uniform(0.2, 12.0, size=(3, 4))
NEGATIVE = np.array([[-0.5, -1.7, -6.3], [0.3, 0.01, 40.0]])
SPREAD = np.array([[0.0, 0.4, -3.0], [7.9, -8.1, 30.0]])
NEAR = np.array([[0.5, 0.4, -3.0], [7.9, -8.1, 9.0]])
SHARES = R.uniform(-0.95, 0.95, size=(3, 4))
X, Y = R.normal(size=(3, 4)), R.normal(size=(4,))
WHOLE, OTHER = R.integers(-30, 30, size=(3, 4)), R.integers(1, 30, size=(4,))
F32 = {"dtypes": ("float32", "float64")}


def by_python(function):
    return lambda x, y: np.array([function(int(a), int(b)) for a, b in np.broadcast(x, y)]).reshape(
        np.broadcast_shapes(x.shape, y.shape)
    )


CASES = [
    Case("lgamma", [POSITIVE], ref=scipy.special.gammaln),
    Case("lgamma", [NEGATIVE], ref=scipy.special.gammaln, id="negative", grad_tol=1e-5, **F32),
    Case("lgamma", [np.array([np.inf, 1e6, 0.0])], ref=scipy.special.gammaln, id="limits", grad=False, **F32),
    Case("digamma", [POSITIVE], ref=scipy.special.digamma),
    Case(
        "digamma",
        [np.array([[-0.5, -1.7, 0.3], [0.01, 40.0, -2.0]])],
        ref=scipy.special.digamma,
        id="limits",
        grad=False,
        **F32,
    ),
    Case("digamma", [np.array([[-0.5, -1.7, 0.3]])], ref=scipy.special.digamma, id="negative", **F32),
    Case("polygamma", [POSITIVE], {"n": 1}, ref=lambda x, n: scipy.special.polygamma(n, x)),
    Case("polygamma", [POSITIVE], {"n": 3}, ref=lambda x, n: scipy.special.polygamma(n, x), id="third", **F32),
    Case("erfinv", [SHARES], ref=scipy.special.erfinv),
    Case("erfinv", [np.array([-1.0, 1.0, 0.0, 1e-12])], ref=scipy.special.erfinv, id="limits", grad=False, **F32),
    Case("i0", [NEAR], ref=scipy.special.i0),
    Case("i1", [NEAR], ref=scipy.special.i1),
    Case("i0e", [SPREAD + 0.1], ref=scipy.special.i0e),
    Case("i1e", [SPREAD], ref=scipy.special.i1e),
    Case("i0e", [np.array([500.0, -1e5])], ref=scipy.special.i0e, id="far", grad=False, **F32),
    Case("atan2", [X, Y], ref=lambda x, y: np.vectorize(math.atan2)(x, y)),
    Case("nextafter", [X.astype(np.float32), Y.astype(np.float32)], ref=lambda x, y: np.nextafter(
        x.astype(np.float32), y.astype(np.float32)), tol={"float32": (0.0, 0.0)}),
    Case("gcd", [WHOLE, OTHER], ref=by_python(math.gcd)),
    Case("lcm", [WHOLE, OTHER], ref=by_python(math.lcm)),
    Case("bitwise_and", [WHOLE, OTHER], ref=by_python(lambda a, b: a & b)),
    Case("bitwise_or", [WHOLE, OTHER], ref=by_python(lambda a, b: a | b)),
    Case("bitwise_xor", [WHOLE, OTHER], ref=by_python(lambda a, b: a ^ b)),
    Case("bitwise_not", [WHOLE], ref=lambda x: -1 - x),
]  # fmt: skip
