"""Attention as one op; reference from the formula."""

from typing import Any

import numpy as np

from tests.ops.case import Case

rng = np.random.default_rng(61)
Q, K, V = (rng.standard_normal(shape) for shape in ((2, 3, 9, 10), (2, 3, 17, 10), (2, 3, 17, 8)))
CAUSAL = np.triu(np.full((9, 17), -1e9), 1)
PADDED = np.where(np.arange(17) < [[[[11]]], [[[17]]]], 0.0, -1e4)
SMALL = [rng.standard_normal((2, 3)) for _ in range(3)]


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, by: float = 1.0, divides: bool = False, trans_k: bool = True
) -> Any:  # fmt: skip
    scores = np.einsum("...id,...jd->...ij", q, k if trans_k else np.swapaxes(k, -1, -2))
    scores = (scores / by if divides else scores * by) + (0.0 if mask is None else mask)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("...ij,...je->...ie", weights / weights.sum(-1, keepdims=True), v)


def case(id: str, inputs: list[Any], size0: bool = False, **attrs: Any) -> Case:
    return Case(
        "fused_dot_product_attention", inputs, attrs, attention, dtypes=("float32", "float64"), size0=size0, id=id,
        grad=("Q", "K", "V"),
    )  # fmt: skip


CASES = [
    case("plain", [Q, K, V], size0=True),
    case("causal", [Q, K, V, CAUSAL], by=0.3),
    case("divided, padded", [Q, K, V, PADDED], by=3.2, divides=True),
    case("keys turned", [Q, np.swapaxes(K, -1, -2), V], by=0.5, trans_k=False),
    case("a mask of every matrix", [Q[:1], K[:1], V[:1], rng.standard_normal((1, 3, 9, 17))]),
    case("one matrix, small", SMALL),
    case("broadcast", [Q[:1], K[:, :1], V, CAUSAL]),
]
