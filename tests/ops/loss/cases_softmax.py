"""Softmax, cross entropy and the label ops; references through SciPy's logsumexp and Python loops."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from tests.ops.case import Case

rng = np.random.default_rng(20)
X = rng.standard_normal((3, 4, 5)) * 3
LOGITS = rng.standard_normal((6, 4)) * 2
HARD = np.array([[0], [3], [1], [2], [0], [1]], np.int64)
IMAGE = rng.standard_normal((2, 3, 2, 2))
IMAGE_LABEL = rng.integers(0, 3, (2, 2, 2))
SOFT = rng.random((6, 4))  # rows need not sum to 1
FAR = np.array([[1e4, 0.0, -1e4], [-5e4, -5e4, -5.0001e4], [3.0, 3.0, 3.0]])


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.exp(x - logsumexp(x, axis=axis, keepdims=True))


def log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return x - logsumexp(x, axis=axis, keepdims=True)


def cross_entropy(
    x: np.ndarray,
    label: np.ndarray,
    soft_label: bool = False,
    ignore_index: int = -100,
    axis: int = -1,
    **attrs: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """One vector after the other."""
    logp = np.moveaxis(log_softmax(x, axis), axis, -1)
    loss = np.zeros(logp.shape[:-1])
    target = np.moveaxis(label, axis, -1) if label.ndim == x.ndim else label[..., None]
    for place in np.ndindex(loss.shape):
        if soft_label:
            loss[place] = -sum(float(t) * float(p) for t, p in zip(target[place], logp[place], strict=True))
        elif target[place][0] != ignore_index:
            loss[place] = -logp[place][target[place][0]]
    return softmax(x, axis), np.expand_dims(loss, axis)


def pick(x: np.ndarray, label: np.ndarray, axis: int = -1, ignore_index: int = -100) -> np.ndarray:
    lines = np.moveaxis(x, axis, -1)
    target = np.moveaxis(label, axis, -1)[..., 0] if label.ndim == x.ndim else label
    out = np.zeros(lines.shape[:-1])
    for place in np.ndindex(out.shape):
        if target[place] != ignore_index:
            out[place] = lines[place][target[place]]
    return np.expand_dims(out, axis)


def place(label: np.ndarray, x: np.ndarray, like: np.ndarray, axis: int = -1, ignore_index: int = -100) -> np.ndarray:
    out = np.zeros(like.shape)
    lines, values = np.moveaxis(out, axis, -1), np.moveaxis(x, axis, -1)[..., 0]
    target = np.moveaxis(label, axis, -1)[..., 0] if label.ndim == like.ndim else label
    for where in np.ndindex(values.shape):
        if target[where] != ignore_index:
            lines[where][target[where]] = values[where]
    return out


def with_ignored(label: np.ndarray, value: int) -> np.ndarray:
    changed = label.copy()
    changed.reshape(-1)[::2] = value
    return changed


CE = "softmax_with_cross_entropy"
ALL = ("float32", "float64", "float16", "bfloat16")
HALF = {"float16": (1e-2, 5e-3)}

CASES = [
    Case("softmax", [X], ref=softmax, dtypes=ALL),
    Case("softmax", [X], {"axis": 1}, softmax, id="middle axis"),
    Case("softmax", [X[0]], {"axis": 0}, softmax, id="first axis"),
    Case("softmax", [X[0, 0]], {}, softmax, id="vector"),
    Case("softmax", [FAR], {}, softmax, id="far apart", grad=False),
    Case("log_softmax", [X], ref=log_softmax, tol=HALF, dtypes=ALL),
    Case("log_softmax", [X], {"axis": -2}, log_softmax, id="middle axis", tol=HALF),
    Case("log_softmax", [FAR], {}, log_softmax, id="far apart", grad=False),
    Case(CE, [LOGITS, HARD], ref=cross_entropy, tol=HALF, dtypes=ALL),
    Case(CE, [LOGITS, HARD[:, 0]], {}, cross_entropy, id="labels without axis", tol=HALF),
    Case(CE, [LOGITS, HARD.astype(np.int32)], {"axis": 1}, cross_entropy, id="int32 labels", tol=HALF),
    Case(CE, [LOGITS, HARD[:, 0].astype(np.uint8)], {}, cross_entropy, id="uint8 labels", tol=HALF),
    Case(CE, [LOGITS, with_ignored(HARD, -100)], {}, cross_entropy, id="ignored", tol=HALF),
    Case(CE, [LOGITS, HARD], {"ignore_index": 1}, cross_entropy, id="ignored class", tol=HALF),
    Case(CE, [LOGITS, np.full((6,), -100)], {}, cross_entropy, id="all ignored", tol=HALF),
    Case(CE, [IMAGE, IMAGE_LABEL[:, None]], {"axis": 1}, cross_entropy, id="image", tol=HALF),
    Case(
        CE,
        [IMAGE, with_ignored(IMAGE_LABEL, 7)],
        {"axis": -3, "ignore_index": 7},
        cross_entropy,
        id="image, labels without axis",
        tol=HALF,
    ),
    Case(CE, [LOGITS, SOFT], {"soft_label": True}, cross_entropy, id="soft", tol=HALF),
    Case(
        CE,
        [IMAGE, rng.random(IMAGE.shape)],
        {"soft_label": True, "axis": 1},
        cross_entropy,
        id="soft image",
        tol=HALF,
    ),
    Case(
        CE,
        [FAR, np.array([0, 2, 1])],
        {},
        cross_entropy,
        id="far apart",
        grad=False,
        dtypes=("float32", "float64"),
    ),
    Case(
        CE,
        [LOGITS, HARD],
        {"numeric_stable_mode": False},
        cross_entropy,
        id="stable all the same",
        outputs_grad=("Loss",),
        tol=HALF,
    ),
    Case(
        CE,
        [LOGITS, HARD],
        {},
        cross_entropy,
        id="gradient of softmax alone",
        outputs_grad=("Softmax",),
        tol=HALF,
    ),
    Case("pick_label", [LOGITS, HARD], ref=pick),
    Case("pick_label", [IMAGE, with_ignored(IMAGE_LABEL, -100)], {"axis": 1}, pick, id="image, ignored"),
    Case("place_label", [HARD, rng.random((6, 1)), LOGITS], ref=place),
    Case(
        "place_label",
        [with_ignored(IMAGE_LABEL, 9), rng.random((2, 1, 2, 2)), IMAGE],
        {"axis": 1, "ignore_index": 9},
        place,
        id="image, ignored",
    ),
    Case("count_labels", [with_ignored(HARD, -100)], ref=lambda label: np.array([3.0])),
    Case(
        "count_labels",
        [np.full((4,), 2)],
        {"ignore_index": 2, "dtype": "float64"},
        lambda label, **_: np.array([1.0]),
        id="none left",
    ),
]
