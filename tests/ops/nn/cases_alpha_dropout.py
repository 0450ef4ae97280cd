"""Alpha dropout: what is dropped is where `selu` saturates, and all is scaled to keep mean and variance."""

import numpy as np

from tests.ops.case import Case

X = np.random.default_rng(23).standard_normal((8, 5))
SATURATED = -1.7580993408473766  # selu(-infinity) = -scale * alpha (Klambauer et al.)


def scaled(p):
    """A check: with q = 1 - p, values get a (x or s) + b, a = (q + p q s^2)^-1/2, b = -a p s."""

    def check(out, mask):
        a = (1 - p + p * (1 - p) * SATURATED**2) ** -0.5
        want = a * np.where(mask == 1, X, SATURATED) - a * p * SATURATED
        assert mask.dtype == np.uint8 and 0 < mask.sum() < mask.size
        np.testing.assert_allclose(out, want, rtol=5e-3 if out.dtype == np.float16 else 1e-5, atol=5e-3)

    return check


def kept(x, **attrs):
    return x, np.ones(x.shape)


CASES = [
    Case("selu_dropout", [X], {"p": 0.3}, check=scaled(0.3)),
    Case("selu_dropout", [X], {"p": 0.7}, check=scaled(0.7), id="more"),
    Case("selu_dropout", [X], {"p": 0.0}, kept, id="none"),
    Case("selu_dropout", [X], {"p": 1.0}, lambda x, **attrs: (x * 0, np.zeros(x.shape)), id="all"),
    Case("selu_dropout", [X], {"p": 0.3, "is_test": True}, kept, id="test"),
]
