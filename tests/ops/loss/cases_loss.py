"""Element-wise losses and metrics; references through SciPy's special functions and Python loops."""

from typing import Any

import numpy as np
from scipy.special import expit, huber, log1p, rel_entr, xlogy

from tests.ops.case import Case

rng = np.random.default_rng(24)
X, Y = rng.standard_normal((4, 5)) * 2, rng.standard_normal((4, 5)) * 2
P = rng.uniform(0.05, 0.95, (4, 5))
LABEL = rng.integers(0, 2, (4, 5)).astype(np.float64)
SOFT = rng.random((4, 5))


def sigmoid_cross_entropy(x: np.ndarray, label: np.ndarray, ignore_index: int = -100) -> np.ndarray:
    with np.errstate(all="ignore"):
        loss = -xlogy(label, expit(x)) - xlogy(1 - label, expit(-x))
    return np.where(label == ignore_index, 0.0, loss)


def with_ignored(label: np.ndarray, value: float) -> np.ndarray:
    changed = label.copy()
    changed[::2, 1] = value
    return changed


def binary_cross_entropy(x: np.ndarray, label: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return -label * np.maximum(np.log(x), -100) - (1 - label) * np.maximum(log1p(-x), -100)


def kl(x: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.where(target > 0, rel_entr(np.maximum(target, 0), np.exp(x)), 0.0)


def accuracy(scores: np.ndarray, indices: np.ndarray, label: np.ndarray, **attrs: Any) -> tuple[np.ndarray, ...]:
    right = sum(int(want) in row for row, want in zip(indices.tolist(), label.reshape(-1), strict=True))
    return np.array([right / max(len(indices), 1)]), np.array([right]), np.array([len(indices)])


BEST = np.array([[2, 0], [1, 3], [0, 1], [3, 2]])
SCORES = rng.random((4, 2))
SIGMOID = "sigmoid_cross_entropy_with_logits"
EDGE = np.array([0.0, 1.0, 0.0, 1.0, 0.5])

CASES = [
    Case("huber_loss", [X, Y], ref=lambda x, y: huber(1.0, x - y), tol={"float16": (5e-3, 5e-3)}),
    Case(
        "huber_loss",
        [X, Y],
        {"delta": 0.25},
        lambda x, y, delta: huber(delta, x - y),
        id="narrow",
        tol={"float16": (5e-3, 5e-3)},
    ),
    Case(SIGMOID, [X, LABEL], ref=sigmoid_cross_entropy, tol={"float16": (2e-2, 2e-3)}),
    Case(SIGMOID, [X, SOFT], {}, sigmoid_cross_entropy, id="soft", tol={"float16": (2e-2, 4e-3)}),
    Case(
        SIGMOID,
        [X, with_ignored(LABEL, -100)],
        {},
        sigmoid_cross_entropy,
        id="ignored",
        tol={"float16": (2e-2, 2e-3)},
    ),
    Case(
        SIGMOID,
        [X, with_ignored(LABEL, 1)],
        {"ignore_index": 1},
        sigmoid_cross_entropy,
        id="ignored class",
        tol={"float16": (2e-2, 2e-3)},
    ),
    Case(
        SIGMOID,
        [np.array([-800.0, 800.0, -800.0, 800.0]), np.array([0.0, 1.0, 1.0, 0.0])],
        {},
        lambda x, label: np.array([0.0, 0.0, 800.0, 800.0]),
        id="far out",
    ),
    Case("bce_loss", [P, LABEL], ref=binary_cross_entropy, tol={"float16": (2e-2, 4e-3)}),
    Case("bce_loss", [P, SOFT], {}, binary_cross_entropy, id="soft", tol={"float16": (2e-2, 4e-3)}),
    Case("bce_loss", [EDGE, EDGE[::-1].copy()], {}, binary_cross_entropy, id="bounded", grad=False),
    Case("kldiv_loss", [np.log(P), SOFT], ref=kl, tol={"float16": (2e-2, 4e-3)}),
    Case(
        "kldiv_loss",
        [np.log(P), np.where(LABEL > 0, SOFT, 0.0)],
        {},
        kl,
        id="zeros",
        tol={"float16": (2e-2, 4e-3)},
    ),
    Case("accuracy", [SCORES, BEST, np.array([[0], [2], [0], [3]])], ref=accuracy),
    Case(
        "accuracy",
        [SCORES, BEST.astype(np.int32), np.array([0, 2, 0, 3], np.int32)],
        {},
        accuracy,
        id="flat labels",
    ),
    Case("accuracy", [SCORES, BEST, np.array([5, 6, 7, 8])], {}, accuracy, id="none right"),
    Case("squared_l2_norm", [X], ref=lambda x: np.array([sum(v * v for v in x.reshape(-1).tolist())])),
    Case("clip_by_norm", [X], {"max_norm": 0.5}, lambda x, max_norm: x * (max_norm / np.linalg.norm(x))),
    Case("clip_by_norm", [X], {"max_norm": 1e4}, lambda x, max_norm: x, id="short enough"),
    Case("clip_by_norm", [np.zeros((3, 2))], {"max_norm": 1.0}, lambda x, max_norm: x, id="zero"),
]
