"""Layers with parameters."""

import itertools

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(6)
X = rng.standard_normal((5, 4))
SEQUENCE, IMAGE, VOLUME = (rng.standard_normal((3, 4, *dims)) for dims in ((7,), (6, 5), (3, 4, 2)))
IDS = np.array([[0, 2, 6], [1, 1, 5]])

nn = wb.nn


def convolved(x, w, b=0.0, stride=1, pads=None, dilation=1, groups=1):
    """Cross-correlation of `[n, c, ...]`, one output entry after the other; `pads` are pairs."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *(pads or [(0, 0)] * rank)])
    spans = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    counts = [(d - s) // stride + 1 for d, s in zip(x.shape[2:], spans)]
    out = np.zeros((len(x), len(w), *counts))
    each = len(w) // groups
    for place in itertools.product(*map(range, counts)):
        window = x[(..., *(slice(i * stride, i * stride + s, dilation) for i, s in zip(place, spans)))]
        for k in range(len(w)):
            first = k // each * w.shape[1]
            part = window[:, first : first + w.shape[1]]
            out[(slice(None), k, *place)] = (part * w[k]).reshape(len(x), -1).sum(1)
    return out + np.reshape(b, (-1, *[1] * rank))


def transposed(x, w, b=0.0, stride=1, padding=0, extra=0, dilation=1, groups=1):
    """Every input entry spreads its filter over the output."""
    rank = x.ndim - 2
    sizes = [(d - 1) * stride + dilation * (k - 1) + 1 + extra for d, k in zip(x.shape[2:], w.shape[2:])]
    out = np.zeros((len(x), w.shape[1] * groups, *sizes))
    each = x.shape[1] // groups
    for place in itertools.product(*map(range, x.shape[2:])):
        spans = tuple(
            slice(i * stride, i * stride + dilation * (k - 1) + 1, dilation) for i, k in zip(place, w.shape[2:])
        )
        for c in range(x.shape[1]):
            first = c // each * w.shape[1]
            value = x[(slice(None), c, *place)].reshape(-1, 1, *[1] * rank)
            out[(slice(None), slice(first, first + w.shape[1]), *spans)] += value * w[c]
    inner = tuple(slice(padding, size - padding) for size in sizes)
    return out[(..., *inner)] + np.reshape(b, (-1, *[1] * rank))


def first(x):
    return np.moveaxis(x, -1, 1)


def last(x):
    return np.moveaxis(x, 1, -1)


def columns(vector, x):
    return vector.reshape(-1, *[1] * (x.ndim - 2))


def normal(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def batch_normal(v, x):
    return normal(x, (0, *range(2, x.ndim))) * columns(v["weight"], x) + columns(v["bias"], x)


def after_batch(v, x, momentum=0.9):
    axes = (0, *range(2, x.ndim))
    return {
        "_mean": momentum * v["_mean"] + (1 - momentum) * x.mean(axes),
        "_variance": momentum * v["_variance"] + (1 - momentum) * x.var(axes),
    }


def with_running(v, x):
    scale = v["weight"] / np.sqrt(v["_variance"] + 1e-5)
    return (x - columns(v["_mean"], x)) * columns(scale, x) + columns(v["bias"], x)


def unchanged(v, x):
    return {name: v[name] for name in ("_mean", "_variance")}


def instance_normal(v, x):
    return normal(x, tuple(range(2, x.ndim))) * columns(v["scale"], x) + columns(v["bias"], x)


def group_normal(v, x, groups):
    parts = x.reshape(len(x), groups, -1)
    return normal(parts, (2,)).reshape(x.shape) * columns(v["weight"], x) + columns(v["bias"], x)


def response_normal(x, size, alpha, beta=0.75, k=1.0):
    out = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha * (near**2).sum(1) / size) ** beta
    return out


def spectral(v, w):
    u, matrix = v["weight_u"], w.T
    for _ in range(60):
        right = matrix.T @ u
        right /= np.linalg.norm(right)
        u = matrix @ right
        u /= np.linalg.norm(u)
    return w / (u @ matrix @ right)


ROWS = {
    "Linear": Row(lambda: nn.Linear(4, 3), [IMAGE.swapaxes(1, 3)], lambda v, x: x @ v["weight"] + v["bias"]),
    "Linear/no bias": Row(lambda: nn.Linear(4, 3, bias_attr=False), [X], lambda v, x: x @ v["weight"]),
    "Bilinear": Row(
        lambda: nn.Bilinear(4, 3, 2),
        [X, X[:, :3] + 1],
        lambda v, x, y: np.stack([((x @ w) * y).sum(1) for w in v["weight"]], 1) + v["bias"],
    ),
    "Embedding": Row(lambda: nn.Embedding(7, 3), [IDS], lambda v, ids: v["weight"][ids]),
    "Embedding/padding": Row(
        lambda: nn.Embedding(7, 3, padding_idx=-2, sparse=False),
        [IDS],
        lambda v, ids: np.where((ids == 5)[..., None], 0, v["weight"][ids]),
    ),
    "Conv1D": Row(
        lambda: nn.Conv1D(4, 6, 3, 2, [1, 2], 2, 2),
        [SEQUENCE],
        lambda v, x: convolved(x, v["weight"], v["bias"], 2, [(1, 2)], 2, 2),
    ),
    "Conv1D/channels last, circular": Row(
        lambda: nn.Conv1D(4, 5, 3, padding=1, padding_mode="circular", data_format="NLC"),
        [last(SEQUENCE)],
        lambda v, x: last(convolved(np.pad(first(x), [(0, 0), (0, 0), (1, 1)], "wrap"), v["weight"], v["bias"])),
    ),
    "Conv2D": Row(
        lambda: nn.Conv2D(4, 6, [3, 2], 2, 1, groups=2),
        [IMAGE],
        lambda v, x: convolved(x, v["weight"], v["bias"], 2, [(1, 1), (1, 1)], 1, 2),
    ),
    "Conv2D/reflect": Row(
        lambda: nn.Conv2D(4, 2, 3, padding=[2, 1], padding_mode="reflect", bias_attr=False),
        [IMAGE],
        lambda v, x: convolved(np.pad(x, [(0, 0), (0, 0), (2, 2), (1, 1)], "reflect"), v["weight"]),
    ),
    "Conv2D/same": Row(
        lambda: nn.Conv2D(4, 2, 3, padding="SAME"),
        [IMAGE],
        lambda v, x: convolved(x, v["weight"], v["bias"], pads=[(1, 1), (1, 1)]),
    ),
    "Conv1DTranspose": Row(
        lambda: nn.Conv1DTranspose(4, 6, 3, 2, 1, 1, 2),
        [SEQUENCE],
        lambda v, x: transposed(x, v["weight"], v["bias"], 2, 1, 1, 1, 2),
    ),
    "Conv2DTranspose": Row(
        lambda: nn.Conv2DTranspose(4, 6, 3, 2, 1, dilation=2, groups=2),
        [IMAGE],
        lambda v, x: transposed(x, v["weight"], v["bias"], 2, 1, 0, 2, 2),
    ),
    "Conv2DTranspose/size": Row(
        lambda: nn.Conv2DTranspose(4, 2, 3, 2, 1),
        [IMAGE],
        lambda v, x: transposed(x, v["weight"], v["bias"], 2, 1, 1),
        call=lambda layer, x: layer(x, output_size=[12, 10]),
    ),
    "Conv3D": Row(
        lambda: nn.Conv3D(4, 6, [2, 3, 2], [1, 2, 1], [1, 0, 1], groups=2),
        [VOLUME],
        lambda v, x: convolved(x, v["weight"], v["bias"], 1, [(1, 1), (0, 0), (1, 1)], 1, 2)[:, :, :, ::2],
    ),
    "Conv3D/channels last, spread, same": Row(
        lambda: nn.Conv3D(4, 2, 2, padding="SAME", data_format="NDHWC", bias_attr=False),
        [last(VOLUME)],
        lambda v, x: last(convolved(first(x), v["weight"], pads=[(0, 1)] * 3)),
    ),
    "Conv3D/dilation": Row(
        lambda: nn.Conv3D(4, 2, 2, 2, [1, 1, 2, 0, 1, 1], 2),
        [VOLUME],
        lambda v, x: convolved(x, v["weight"], v["bias"], 2, [(1, 1), (2, 0), (1, 1)], 2),
    ),
    "Conv3DTranspose": Row(
        lambda: nn.Conv3DTranspose(4, 6, 3, 2, 1, 1, groups=2),
        [VOLUME],
        lambda v, x: transposed(x, v["weight"], v["bias"], 2, 1, 1, 1, 2),
    ),
    "Conv3DTranspose/size": Row(
        lambda: nn.Conv3DTranspose(4, 2, 2, 2, dilation=2, data_format="NDHWC"),
        [last(VOLUME)],
        lambda v, x: last(transposed(first(x), v["weight"], v["bias"], 2, 0, 1, 2)),
        call=lambda layer, x: layer(x, output_size=[8, 10, 6]),
    ),
    "BatchNorm1D": Row(lambda: nn.BatchNorm1D(4), [X], batch_normal, after=after_batch),
    "BatchNorm1D/in use": Row(lambda: nn.BatchNorm1D(4), [SEQUENCE], with_running, training=False, after=unchanged),
    "BatchNorm2D": Row(
        lambda: nn.BatchNorm2D(4, momentum=0.6), [IMAGE], batch_normal, after=lambda v, x: after_batch(v, x, 0.6)
    ),
    "BatchNorm2D/channels last": Row(
        lambda: nn.BatchNorm2D(4, data_format="NHWC"),
        [last(IMAGE)],
        lambda v, x: last(batch_normal(v, first(x))),
        after=lambda v, x: after_batch(v, first(x)),
    ),
    "BatchNorm2D/running": Row(
        lambda: nn.BatchNorm2D(4, use_global_stats=True), [IMAGE], with_running, after=unchanged
    ),
    "BatchNorm2D/batch in use": Row(
        lambda: nn.BatchNorm2D(4, use_global_stats=False), [IMAGE], batch_normal, training=False, after=after_batch
    ),
    "BatchNorm3D": Row(lambda: nn.BatchNorm3D(4), [VOLUME], batch_normal, after=after_batch),
    "BatchNorm": Row(
        lambda: nn.BatchNorm(4, act="relu"), [IMAGE], lambda v, x: np.maximum(batch_normal(v, x), 0), after=after_batch
    ),
    "BatchNorm/test": Row(lambda: nn.BatchNorm(4, is_test=True), [IMAGE], with_running, after=unchanged),
    "SyncBatchNorm": Row(lambda: nn.SyncBatchNorm(4), [IMAGE], batch_normal, after=after_batch),
    "LayerNorm": Row(
        lambda: nn.LayerNorm([6, 5]),
        [IMAGE],
        lambda v, x: normal(x, (2, 3)) * v["weight"].reshape(6, 5) + v["bias"].reshape(6, 5),
    ),
    "LayerNorm/bare": Row(
        lambda: nn.LayerNorm(4, epsilon=0.1, weight_attr=False, bias_attr=False), [X], lambda v, x: normal(x, (1,), 0.1)
    ),
    "GroupNorm": Row(lambda: nn.GroupNorm(2, 4), [IMAGE], lambda v, x: group_normal(v, x, 2)),
    "GroupNorm/channels last": Row(
        lambda: nn.GroupNorm(2, 4, data_format="NHWC"), [last(IMAGE)], lambda v, x: last(group_normal(v, first(x), 2))
    ),
    "InstanceNorm1D": Row(lambda: nn.InstanceNorm1D(4), [SEQUENCE], instance_normal),
    "InstanceNorm2D": Row(lambda: nn.InstanceNorm2D(4), [IMAGE], instance_normal),
    "InstanceNorm2D/bare": Row(
        lambda: nn.InstanceNorm2D(4, weight_attr=False, bias_attr=False), [IMAGE], lambda v, x: normal(x, (2, 3))
    ),
    "InstanceNorm3D": Row(lambda: nn.InstanceNorm3D(4), [VOLUME], instance_normal),
    "LocalResponseNorm": Row(
        lambda: nn.LocalResponseNorm(3, alpha=0.5, k=2.0), [IMAGE], lambda v, x: response_normal(x, 3, 0.5, k=2.0)
    ),
    "LocalResponseNorm/even": Row(
        lambda: nn.LocalResponseNorm(2, alpha=0.5, data_format="NLC"),
        [last(SEQUENCE)],
        lambda v, x: last(response_normal(first(x), 2, 0.5)),
    ),
    "SpectralNorm": Row(lambda: nn.SpectralNorm([3, 4], 1, 60), [X[:3]], spectral, known=True),
}
