"""Functions composed of others that no layer class stands for, or options that none of them has."""

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(10)
X, Y = rng.standard_normal((2, 5, 4))
P = rng.uniform(0.05, 0.95, (5, 4))
YES = (rng.uniform(size=(5, 4)) > 0.5).astype(np.float64)
CLASSES = np.array([0, 3, 1, 2, 0])
LABELS = np.array([1.0, 2.0, 1.0, 3.0, 2.0])
HEADS = rng.standard_normal((2, 3, 2, 4))
MASK = rng.standard_normal((2, 1, 3, 3))

F = wb.nn.functional


def of(function, inputs, ref, **more):
    return Row(wb.nn.Identity, inputs, lambda values, *x: ref(*x), call=lambda layer, *x: function(*x), **more)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def focal(x, y):
    p = sigmoid(x)
    right = y * p + (1 - y) * (1 - p)
    return ((y * 0.25 + (1 - y) * 0.75) * (1 - right) ** 2 * -np.log(right)).sum() / 3


def dice(x, classes):
    wanted = np.eye(4)[classes[:, 0]]
    return np.mean([1 - 2 * (a * b).sum() / (a.sum() + b.sum() + 1e-5) for a, b in zip(x, wanted)])


def npair(x, y, labels):
    same = labels[:, None] == labels[None, :]
    scores = x @ y.T
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    entropy = np.mean([-logs[i, same[i]].mean() for i in range(len(x))])
    return entropy + 0.25 * 0.002 * ((x**2).sum(1).mean() + (y**2).sum(1).mean())


def attended(q, mask=0.0):
    """Each head of each sample by itself."""
    out = np.zeros_like(q)
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            x = q[b, :, h]
            scores = x @ x.T / np.sqrt(x.shape[1]) + (mask[b, 0] if np.ndim(mask) else mask)
            share = np.exp(scores - scores.max(1, keepdims=True))
            out[b, :, h] = share / share.sum(1, keepdims=True) @ x
    return out


def causal(q):
    """Every position from the positions up to it alone."""
    return np.stack([attended(q[:, : t + 1])[:, t] for t in range(q.shape[1])], 1)


def multi_margin(x, classes):
    weight = np.array([0.5, 2.0, 1.0, 1.5])
    losses = []
    for row, y in zip(x, classes):
        apart = np.maximum(weight[y] * (1 - row[y] + row), 0)
        losses.append(apart.mean() - weight[y] * 1 / 4)
    return np.array(losses)


ROWS = {
    "F.log_loss": of(
        F.log_loss, [P[:, :1], YES[:, :1]], lambda p, y: -y * np.log(p + 1e-4) - (1 - y) * np.log(1 - p + 1e-4)
    ),
    "F.sigmoid_focal_loss": of(
        lambda x, y: F.sigmoid_focal_loss(x, y.astype("float32"), wb.full([1], 3.0)), [X, YES.astype(np.int64)], focal
    ),
    "F.dice_loss": of(F.dice_loss, [P, CLASSES[:, None]], dice),
    "F.npair_loss": of(F.npair_loss, [X, Y, LABELS], npair, known=True),
    "F.label_smooth": of(lambda y: F.label_smooth(y, epsilon=0.2), [YES], lambda y: y * 0.8 + 0.05),
    "F.label_smooth/prior": of(
        lambda y, p: F.label_smooth(y, p, 0.2), [YES, P[:1]], lambda y, p: y * 0.8 + p * 0.2, known=True
    ),
    "F.normalize": of(F.normalize, [X], lambda x: x / np.sqrt((x**2).sum(1, keepdims=True))),
    "F.normalize/p": of(
        lambda x: F.normalize(x, 3, 0), [X], lambda x: x / (np.abs(x) ** 3).sum(0, keepdims=True) ** (1 / 3)
    ),
    "F.sequence_mask": of(
        lambda n: F.sequence_mask(n, 5, "float32"),
        [CLASSES],
        lambda n: np.array([[1] * k + [0] * (5 - k) for k in n]),
        differentiable=False,
    ),
    "F.pairwise_distance/1": of(
        lambda x, y: F.pairwise_distance(x, y, 1), [X, Y], lambda x, y: np.abs(x - y + 1e-6).sum(1)
    ),
    "F.pairwise_distance/3": of(
        lambda x, y: F.pairwise_distance(x, y, 3), [X, Y], lambda x, y: (np.abs(x - y + 1e-6) ** 3).sum(1) ** (1 / 3)
    ),
    "F.scaled_dot_product_attention": of(lambda q: F.scaled_dot_product_attention(q, q, q), [HEADS], attended),
    "F.scaled_dot_product_attention/causal": of(
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), [HEADS], causal
    ),
    "F.scaled_dot_product_attention/mask": of(
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m), [HEADS, MASK], attended, known=True
    ),
    "F.scaled_dot_product_attention/hidden": of(
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m),
        [HEADS, (MASK > 0) | np.eye(3, dtype=bool)],
        lambda q, m: attended(q, np.where(m, 0.0, -1e9)),
        known=True,
    ),
    "F.multi_margin_loss/weights": of(
        lambda x, c: F.multi_margin_loss(
            x, c, weight=wb.assign(np.array([0.5, 2, 1, 1.5], np.float32)), reduction="none"
        ),
        [X, CLASSES],
        multi_margin,
    ),
    "F.binary_cross_entropy_with_logits/unsure": of(
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, pos_weight=wb.assign(np.array([0.5, 2, 1, 1.5], np.float32))
        ),
        [X, P],
        lambda x, y: -(np.array([0.5, 2, 1, 1.5]) * y * np.log(sigmoid(x)) + (1 - y) * np.log(1 - sigmoid(x))).mean(),
    ),
    "F.linear": of(lambda x: F.linear(x, wb.ones([4, 2])), [X], lambda x: x.sum(1, keepdims=True).repeat(2, 1)),
}
