"""Losses, each with one of the three reductions."""

import itertools
import math

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(2)
X, Y, Z = (rng.standard_normal((5, 4)) for _ in range(3))
P = rng.uniform(0.05, 0.95, (5, 4))
YES = (rng.uniform(size=(5, 4)) > 0.5).astype(np.float64)
SIGNS = np.where(rng.uniform(size=(5, 4)) > 0.5, 1.0, -1.0)
ROW_SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
CLASSES = np.array([0, 3, 1, 2, 0])
CLASS_WEIGHT = np.array([0.5, 2.0, 1.0, 1.5], np.float32)

nn = wb.nn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def cross_entropy(x, y):
    return -(y * np.log(x) + (1 - y) * np.log(1 - x))


def lengths(x, p=2.0):
    return (np.abs(x + 1e-6) ** p).sum(-1) ** (1 / p)


def triplet(x, y, z, p=2.0, swap=False):
    far = np.minimum(lengths(x - z, p), lengths(y - z, p)) if swap else lengths(x - z, p)
    return np.maximum(lengths(x - y, p) - far + 1.0, 0)


def cosine(x, y):
    return (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))


def weighted_mean(losses, labels):
    share = CLASS_WEIGHT.astype(np.float64)[labels]
    return (losses * share).sum() / share.sum()


def smoothed(labels, share):
    return np.eye(4)[labels] * (1 - share) + share / 4


def multi_margin(x, labels):
    rows = np.arange(len(x))
    apart = np.maximum(0.8 - x[rows, labels][:, None] + x, 0) ** 2
    apart[rows, labels] = 0
    return apart.sum(1) / x.shape[1]


def stirling(n):
    return np.where(n > 1, n * np.log(n) - n + 0.5 * np.log(2 * math.pi * n), 0)


def collapsed(path):
    """A path without repetitions and blanks (class 0)."""
    return tuple(c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c))


def ctc(scores, labels, times, lengths):
    """Every path that reads as the labels, one by one."""
    losses = []
    for b in range(len(labels)):
        wanted = tuple(labels[b, : lengths[b]])
        logs = log_softmax(scores[: times[b], b])
        paths = itertools.product(range(scores.shape[2]), repeat=int(times[b]))
        chances = [np.exp(sum(logs[t, c] for t, c in enumerate(path))) for path in paths if collapsed(path) == wanted]
        losses.append(-np.log(sum(chances)))
    return np.array(losses)


CTC = [
    rng.standard_normal((5, 4, 3)),
    np.array([[1, 2], [2, 2], [1, 0], [0, 0]]),
    np.array([5, 4, 3, 2]),
    np.array([2, 2, 1, 0]),
]


def of(make, inputs, formula, **more):
    return Row(make, inputs, lambda values, *inputs: formula(*inputs), **more)


ROWS = {
    "BCELoss": of(lambda: nn.BCELoss(), [P, YES], lambda x, y: cross_entropy(x, y).mean()),
    "BCEWithLogitsLoss": of(
        lambda: nn.BCEWithLogitsLoss(reduction="sum"), [X, YES], lambda x, y: cross_entropy(sigmoid(x), y).sum()
    ),
    "CosineEmbeddingLoss": of(
        lambda: nn.CosineEmbeddingLoss(0.1, "none"),
        [X, Y, ROW_SIGNS],
        lambda x, y, s: np.where(s == 1, 1 - cosine(x, y), np.maximum(cosine(x, y) - 0.1, 0)),
    ),
    "CrossEntropyLoss": of(
        lambda: nn.CrossEntropyLoss(), [X, CLASSES], lambda x, c: -log_softmax(x)[np.arange(5), c].mean()
    ),
    "CrossEntropyLoss/weights": of(
        lambda: nn.CrossEntropyLoss(weight=wb.assign(CLASS_WEIGHT)),
        [X, CLASSES],
        lambda x, c: weighted_mean(-log_softmax(x)[np.arange(5), c], c),
    ),
    "CrossEntropyLoss/smoothed": of(
        lambda: nn.CrossEntropyLoss(label_smoothing=0.2, reduction="sum"),
        [X, CLASSES],
        lambda x, c: -(smoothed(c, 0.2) * log_softmax(x)).sum(),
    ),
    "CrossEntropyLoss/smoothed, classes in the middle": of(
        lambda: nn.CrossEntropyLoss(label_smoothing=0.2, axis=1, reduction="sum"),
        [np.stack([X, Y], 2), np.stack([CLASSES, CLASSES[::-1]], 1)],
        lambda x, c: -sum((smoothed(c[:, i], 0.2) * log_softmax(x[:, :, i])).sum() for i in range(2)),
    ),
    "CTCLoss": of(lambda: nn.CTCLoss(reduction="none"), CTC, ctc, known=True),
    "CTCLoss/mean": of(
        lambda: nn.CTCLoss(), CTC, lambda *given: (ctc(*given) / np.maximum(given[3], 1)).mean(), known=True
    ),
    "GaussianNLLLoss": of(
        lambda: nn.GaussianNLLLoss(full=True, reduction="none"),
        [X, Y, P],
        lambda x, y, v: 0.5 * (np.log(v) + (x - y) ** 2 / v + math.log(2 * math.pi)),
    ),
    "GaussianNLLLoss/one per row": of(
        lambda: nn.GaussianNLLLoss(),
        [X, Y, P[:, 0]],
        lambda x, y, v: (np.log(v)[:, None] + (x - y) ** 2 / v[:, None]).mean() / 2,
    ),
    "HingeEmbeddingLoss": of(
        lambda: nn.HingeEmbeddingLoss(0.7, "sum"),
        [X, SIGNS],
        lambda x, s: np.where(s == 1, x, np.maximum(0.7 - x, 0)).sum(),
    ),
    "KLDivLoss": of(lambda: nn.KLDivLoss("sum"), [X, P], lambda x, p: (p * (np.log(p) - x)).sum()),
    "L1Loss": of(lambda: nn.L1Loss("none"), [X, Y], lambda x, y: np.abs(x - y)),
    "MSELoss": of(lambda: nn.MSELoss(), [X, Y], lambda x, y: ((x - y) ** 2).mean()),
    "MarginRankingLoss": of(
        lambda: nn.MarginRankingLoss(0.3, "none"), [X, Y, SIGNS], lambda x, y, s: np.maximum(-s * (x - y) + 0.3, 0)
    ),
    "MultiLabelSoftMarginLoss": of(
        lambda: nn.MultiLabelSoftMarginLoss(reduction="none"),
        [X, YES],
        lambda x, y: cross_entropy(sigmoid(x), y).mean(1),
    ),
    "MultiMarginLoss": of(lambda: nn.MultiMarginLoss(2, 0.8), [X, CLASSES], lambda x, c: multi_margin(x, c).mean()),
    "NLLLoss": of(
        lambda: nn.NLLLoss(weight=wb.assign(CLASS_WEIGHT)),
        [X, CLASSES],
        lambda x, c: weighted_mean(-x[np.arange(5), c], c),
    ),
    "PoissonNLLLoss": of(
        lambda: nn.PoissonNLLLoss(full=True, reduction="none"),
        [X, P * 4],
        lambda x, n: np.exp(x) - n * x + stirling(n),
    ),
    "PoissonNLLLoss/counts": of(
        lambda: nn.PoissonNLLLoss(log_input=False), [P, P * 4], lambda x, n: (x - n * np.log(x + 1e-8)).mean()
    ),
    "SmoothL1Loss": of(
        lambda: nn.SmoothL1Loss(delta=0.5),
        [X, Y],
        lambda x, y: np.where(np.abs(x - y) <= 0.5, (x - y) ** 2 / 2, 0.5 * (np.abs(x - y) - 0.25)).mean(),
    ),
    "SoftMarginLoss": of(lambda: nn.SoftMarginLoss(), [X, SIGNS], lambda x, s: np.log1p(np.exp(-s * x)).mean()),
    "TripletMarginLoss": of(
        lambda: nn.TripletMarginLoss(swap=True, reduction="none"),
        [X, Y, Z],
        lambda x, y, z: triplet(x, y, z, swap=True),
    ),
    "TripletMarginLoss/p": of(lambda: nn.TripletMarginLoss(p=3), [X, Y, Z], lambda x, y, z: triplet(x, y, z, 3).mean()),
    "TripletMarginWithDistanceLoss": of(
        lambda: nn.TripletMarginWithDistanceLoss(lambda a, b: wb.abs(a - b).sum(axis=1), reduction="sum"),
        [X, Y, Z],
        lambda x, y, z: np.maximum(np.abs(x - y).sum(1) - np.abs(x - z).sum(1) + 1, 0).sum(),
    ),
}
