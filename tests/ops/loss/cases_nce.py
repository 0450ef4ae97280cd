"""Cases of noise-contrastive estimation; classes are drawn by the op, so the reference reads which they were."""

from typing import Any

import numpy as np

from tests.ops.case import STREAM, Case

RNG = np.random.default_rng(32)
CLASSES, DRAWN = 7, 6
SHARES = np.array([0.1, 0.2, 0.05, 0.3, 0.15, 0.0, 0.2])


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def share(sampler: int, label: int) -> float:
    """How probable it is that a class is drawn."""
    if sampler == 1:
        return float(np.log((label + 2) / (label + 1)) / np.log(CLASSES))
    return 1 / CLASSES if sampler == 0 else float(SHARES[label])


def drawn(sampler: int, rows: int) -> np.ndarray:
    """The classes, one number of the stream at a time."""
    numbers = STREAM.uniform(np, (rows, DRAWN), "float64")
    classes = np.empty((rows, DRAWN), np.int64)
    for where in np.ndindex(classes.shape):
        if sampler == 0:
            classes[where] = int(numbers[where] * CLASSES)
        elif sampler == 1:
            classes[where] = int(CLASSES ** numbers[where]) - 1
        else:
            classes[where] = next(k for k in range(CLASSES) if numbers[where] < SHARES[: k + 1].sum())
    return classes


def reference(
    x: np.ndarray, label: np.ndarray, weight: np.ndarray, bias: Any = None, sample_weight: Any = None,
    shares: Any = None, sampler: int = 0, **attrs: Any,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    labels = np.concatenate([label, drawn(sampler, len(x))], axis=1)
    cost, chances = np.zeros((len(x), 1)), np.zeros(labels.shape)
    for row, column in np.ndindex(labels.shape):
        k = labels[row, column]
        logit = float(x[row] @ weight[k]) + (0.0 if bias is None else float(bias[k, 0]))
        chances[row, column] = o = 1 / (1 + np.exp(-logit))
        b = share(sampler, k) * DRAWN
        part = o / (o + b) if column < label.shape[1] else b / (o + b)
        cost[row, 0] -= np.log(part) * (1.0 if sample_weight is None else float(sample_weight[row, 0]))
    return cost, chances, labels


def case(name: str, sampler: int, true: int = 1, **given: Any) -> Case:
    inputs = [draw(4, 3), RNG.integers(0, CLASSES - 2, (4, true)), draw(CLASSES, 3)]
    inputs += [given.get("bias"), given.get("sample_weight"), SHARES.astype(np.float32) if sampler == 2 else None]
    attrs = {"num_total_classes": CLASSES, "num_neg_samples": DRAWN, "sampler": sampler, **given.get("attrs", {})}
    return Case(
        "nce", inputs, attrs, ref=reference, grad=("Input", "Weight", "Bias"), outputs_grad=("Cost",),
        dtypes=("float32", "float64"), known={"Input": (1,), "Label": (1,), "Weight": True},
        tol={"float64": (1e-6, 1e-8)} if sampler == 2 else {}, id=name,
    )  # fmt: skip


CASES = [
    case("uniform", 0),
    case("uniform, bias and weights", 0, bias=draw(CLASSES, 1), sample_weight=np.abs(draw(4, 1))),
    case("log uniform, two true ones", 1, true=2, bias=draw(CLASSES, 1)),
    case("given shares", 2, bias=draw(CLASSES, 1)),
    case("sparse", 0, bias=draw(CLASSES, 1), attrs={"is_sparse": True}),
]
