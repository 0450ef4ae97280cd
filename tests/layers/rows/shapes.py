"""Layers that move, repeat, drop or add entries, and distances."""

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(4)
X, Y = rng.standard_normal((2, 3, 4))
SEQUENCE, IMAGE, VOLUME = (rng.standard_normal((2, 4, *dims)) for dims in ((7,), (6, 5), (4, 5, 3)))

nn = wb.nn


def of(make, x, formula, **more):
    return Row(make, [x], lambda values, x: formula(x), **more)


def around(x, widths, mode, **options):
    return np.pad(x, [(0, 0), (0, 0), *widths], mode, **options)


def resized(x, axis, sources):
    """Along one dimension, means of the two entries around each source."""
    sources = np.clip(sources, 0, x.shape[axis] - 1)
    below = np.floor(sources).astype(int)
    above = np.minimum(below + 1, x.shape[axis] - 1)
    share = (sources - below).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return x.take(below, axis) * (1 - share) + x.take(above, axis) * share


def middles(size, wanted):
    return (np.arange(wanted) + 0.5) * size / wanted - 0.5


def corners(size, wanted):
    return np.arange(wanted) * (size - 1) / (wanted - 1)


def nearest(x, axis, step, wanted):
    return x.take(np.floor(np.arange(wanted) * step).astype(int), axis)


def cubic(x, axis, sources):
    """Cubic convolution with Catmull and Rom's kernel, sharpness -0.75, the edge repeated."""

    def kernel(d, a=-0.75):
        d = abs(d)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    size = x.shape[axis]
    parts = []
    for s in sources:
        near = [int(np.floor(s)) + k for k in (-1, 0, 1, 2)]
        parts.append(sum(kernel(s - n) * x.take(min(max(n, 0), size - 1), axis) for n in near))
    return np.stack(parts, axis)


def shuffled(x, r):
    n, c, h, w = x.shape
    out = np.zeros((n, c // r**2, h * r, w * r))
    for k in range(c // r**2):
        for i in range(r):
            for j in range(r):
                out[:, k, i::r, j::r] = x[:, k * r * r + i * r + j]
    return out


def columns(x, kernel, pads, stride, dilation):
    """Every window as a column; `pads` are top, left, bottom, right."""
    top, left, bottom, right = pads
    x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    windows = []
    for i in range(0, x.shape[2] - span[0] + 1, stride[0]):
        for j in range(0, x.shape[3] - span[1] + 1, stride[1]):
            window = x[:, :, i : i + span[0] : dilation[0], j : j + span[1] : dilation[1]]
            windows.append(window.reshape(len(x), -1))
    return np.stack(windows, 2)


def folded(x, size, kernel, stride):
    """Columns of windows added up."""
    out = np.zeros((len(x), x.shape[1] // (kernel * kernel), *size))
    places = [(i, j) for i in range(0, size[0] - kernel + 1, stride) for j in range(0, size[1] - kernel + 1, stride)]
    for number, (i, j) in enumerate(places):
        out[:, :, i : i + kernel, j : j + kernel] += x[:, :, number].reshape(len(x), -1, kernel, kernel)
    return out


ROWS = {
    "Identity": of(lambda: nn.Identity(1, b=2), X, lambda x: x),
    "Flatten": of(lambda: nn.Flatten(), IMAGE, lambda x: x.reshape(2, -1)),
    "Unflatten": of(lambda: nn.Unflatten(1, [2, -1]), IMAGE, lambda x: x.reshape(2, 2, 2, 6, 5)),
    "Pad1D": of(lambda: nn.Pad1D([1, 2], "reflect"), SEQUENCE, lambda x: around(x, [(1, 2)], "reflect")),
    "Pad1D/int": of(
        lambda: nn.Pad1D(2, value=3.0), SEQUENCE, lambda x: around(x, [(2, 2)], "constant", constant_values=3)
    ),
    "Pad2D": of(lambda: nn.Pad2D([1, 2, 3, 0], "circular"), IMAGE, lambda x: around(x, [(3, 0), (1, 2)], "wrap")),
    "Pad3D": of(
        lambda: nn.Pad3D([1, 2, 0, 1, 2, 0], "replicate"), VOLUME, lambda x: around(x, [(2, 0), (0, 1), (1, 2)], "edge")
    ),
    "ZeroPad2D": of(lambda: nn.ZeroPad2D([1, 2, 3, 0]), IMAGE, lambda x: around(x, [(3, 0), (1, 2)], "constant")),
    "Dropout": of(lambda: nn.Dropout(0.3), X, lambda x: x, training=False),
    "Dropout/downscaled": of(lambda: nn.Dropout(0.3, mode="downscale_in_infer"), X, lambda x: x * 0.7, training=False),
    "Dropout2D": of(lambda: nn.Dropout2D(0.3), IMAGE, lambda x: x, training=False),
    "Dropout3D": of(lambda: nn.Dropout3D(0.3), VOLUME, lambda x: x, training=False),
    "AlphaDropout": of(lambda: nn.AlphaDropout(0.3), X, lambda x: x, training=False),
    "Upsample": of(
        lambda: nn.Upsample([9, 4], mode="bilinear"),
        IMAGE,
        lambda x: resized(resized(x, 2, middles(6, 9)), 3, middles(5, 4)),
    ),
    "Upsample/corners": of(
        lambda: nn.Upsample([9, 4], mode="bilinear", align_corners=True),
        IMAGE,
        lambda x: resized(resized(x, 2, corners(6, 9)), 3, corners(5, 4)),
    ),
    "Upsample/beginnings": of(
        lambda: nn.Upsample([9, 4], mode="bilinear", align_mode=1),
        IMAGE,
        lambda x: resized(resized(x, 2, np.arange(9) * 6 / 9), 3, np.arange(4) * 5 / 4),
    ),
    "Upsample/by a factor": of(
        lambda: nn.Upsample(scale_factor=[1.5, 2.2]),
        IMAGE,
        lambda x: nearest(nearest(x, 2, 1 / 1.5, 9), 3, 1 / 2.2, 11),
    ),
    "Upsample/cubic": of(
        lambda: nn.Upsample([9, 4], mode="bicubic"),
        IMAGE,
        lambda x: cubic(cubic(x, 2, middles(6, 9)), 3, middles(5, 4)),
    ),
    "Upsample/sequence": of(
        lambda: nn.Upsample([9], mode="linear", data_format="NWC"), SEQUENCE, lambda x: resized(x, 1, middles(4, 9))
    ),
    "Upsample/volume": of(
        lambda: nn.Upsample([6, 5, 2], mode="trilinear", data_format="NCDHW"),
        VOLUME,
        lambda x: resized(resized(x, 2, middles(4, 6)), 4, middles(3, 2)),
    ),
    "Upsample/area": of(lambda: nn.Upsample([3, 5], mode="area"), IMAGE, lambda x: x.reshape(2, 4, 3, 2, 5).mean(3)),
    "UpsamplingBilinear2D": of(
        lambda: nn.UpsamplingBilinear2D([9, 4]),
        IMAGE,
        lambda x: resized(resized(x, 2, corners(6, 9)), 3, corners(5, 4)),
    ),
    "UpsamplingNearest2D": of(
        lambda: nn.UpsamplingNearest2D(scale_factor=2), IMAGE, lambda x: x.repeat(2, 2).repeat(2, 3)
    ),
    "PixelShuffle": of(lambda: nn.PixelShuffle(2), IMAGE, lambda x: shuffled(x, 2)),
    "PixelShuffle/channels last": of(
        lambda: nn.PixelShuffle(2, "NHWC"),
        np.moveaxis(IMAGE, 1, -1),
        lambda x: np.moveaxis(shuffled(np.moveaxis(x, -1, 1), 2), 1, -1),
    ),
    "PixelUnshuffle": of(
        lambda: nn.PixelUnshuffle(2),
        IMAGE[:, :, :, :4],
        lambda x: np.stack([x[:, k, i::2, j::2] for k in range(4) for i in range(2) for j in range(2)], 1),
    ),
    "ChannelShuffle": of(lambda: nn.ChannelShuffle(2), IMAGE, lambda x: x[:, [0, 2, 1, 3]]),
    "Unfold": of(
        lambda: nn.Unfold([2, 3], dilations=[1, 2], paddings=[1, 0, 2, 1], strides=[2, 1]),
        IMAGE,
        lambda x: columns(x, [2, 3], [1, 0, 2, 1], [2, 1], [1, 2]),
    ),
    "Fold": of(lambda: nn.Fold([4, 5], 2), rng.standard_normal((2, 8, 12)), lambda x: folded(x, (4, 5), 2, 1)),
    "CosineSimilarity": Row(
        lambda: nn.CosineSimilarity(),
        [X, Y],
        lambda v, x, y: (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1)),
    ),
    "PairwiseDistance": Row(
        lambda: nn.PairwiseDistance(keepdim=True),
        [X, Y],
        lambda v, x, y: np.sqrt(((x - y + 1e-6) ** 2).sum(1, keepdims=True)),
    ),
    "PairwiseDistance/infinity": Row(
        lambda: nn.PairwiseDistance(float("inf")), [X, Y], lambda v, x, y: np.abs(x - y + 1e-6).max(1)
    ),
}
