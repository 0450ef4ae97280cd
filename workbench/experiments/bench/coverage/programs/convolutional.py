"""Networks of convolutions: depthwise, dilated, grouped, transposed, with channels last, and their norms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from workbench.experiments.bench.coverage.covered import Feed, trained

BATCH, SIZE, CLASSES = 16, 16, 10


def classified(paddle: Any, features: Any, y: Any) -> Any:
    """The loss of features [batch, channels, rows, columns]."""
    F, static = paddle.nn.functional, paddle.static
    pooled = paddle.flatten(F.adaptive_avg_pool2d(features, 1), 1)
    return paddle.mean(F.cross_entropy(static.nn.fc(pooled, CLASSES), y))


def net(paddle: Any, features: Any) -> Any:
    """A classifier of what `features(paddle, images)` gives, trained by Momentum."""
    static = paddle.static
    x, y = static.data("x", [None, 3, SIZE, SIZE]), static.data("y", [None, 1], "int64")
    loss = classified(paddle, features(paddle, x), y)
    paddle.optimizer.Momentum(0.01, 0.9).minimize(loss)
    return loss


def separable(paddle: Any, x: Any) -> Any:
    """Every channel by itself, then all channels of a place, as MobileNet has them."""
    F, nn = paddle.nn.functional, paddle.static.nn
    x = nn.batch_norm(nn.conv2d(x, 16, 3, padding=1, bias_attr=False), act="relu")
    for filters, stride in ((32, 2), (32, 1), (64, 2)):
        x = nn.conv2d(x, x.shape[1], 3, stride=stride, padding=1, groups=x.shape[1], bias_attr=False)
        x = F.relu6(nn.batch_norm(x))
        x = F.relu6(nn.batch_norm(nn.conv2d(x, filters, 1, bias_attr=False)))
    return x


def dilated(paddle: Any, x: Any) -> Any:
    """Windows with gaps, and channels in groups that are mixed afterwards."""
    nn = paddle.static.nn
    x = nn.conv2d(x, 16, 3, padding=2, dilation=2, act="relu")
    for dilation in (1, 2):
        x = nn.conv2d(x, 32, 3, padding=dilation, dilation=dilation, groups=4, act="relu")
        x = paddle.reshape(x, [0, 4, 8, SIZE, SIZE])
        x = paddle.reshape(paddle.transpose(x, [0, 2, 1, 3, 4]), [0, 32, SIZE, SIZE])
    return x


def normed(paddle: Any, x: Any) -> Any:
    """Norms that do not look at the other samples, borders that are mirrored."""
    F, nn = paddle.nn.functional, paddle.static.nn
    x = nn.conv2d(F.pad(x, [1, 1, 1, 1], mode="reflect"), 16, 3)
    x = F.leaky_relu(nn.instance_norm(x), 0.2)
    for _ in range(2):
        x = x + F.silu(nn.group_norm(nn.conv2d(x, 16, 3, padding=1), groups=4))
    return x


def unet(paddle: Any) -> Any:
    """Down by pools, up by transposed convolutions, and across at every height; a truth value for every place."""
    F, static, nn = paddle.nn.functional, paddle.static, paddle.static.nn
    x, y = static.data("x", [None, 3, SIZE, SIZE]), static.data("mask", [None, 1, SIZE, SIZE])
    high = nn.conv2d(x, 8, 3, padding=1, act="relu")
    middle = nn.conv2d(F.max_pool2d(high, 2), 16, 3, padding=1, act="relu")
    low = nn.conv2d(F.max_pool2d(middle, 2), 32, 3, padding=1, act="relu")
    middle = paddle.concat([middle, nn.conv2d_transpose(low, 16, filter_size=2, stride=2)], axis=1)
    middle = nn.conv2d(middle, 16, 3, padding=1, act="relu")
    high = paddle.concat([high, nn.conv2d_transpose(middle, 8, filter_size=4, stride=2, padding=1)], axis=1)
    scores = nn.conv2d(nn.conv2d(high, 8, 3, padding=1, act="relu"), 1, 1)
    loss = F.binary_cross_entropy_with_logits(scores, y)
    paddle.optimizer.Adam(1e-3).minimize(loss)
    return loss


def channels_last(paddle: Any) -> Any:
    F, static, nn = paddle.nn.functional, paddle.static, paddle.static.nn
    x, y = static.data("x", [None, SIZE, SIZE, 3]), static.data("y", [None, 1], "int64")
    for filters in (16, 32):
        x = nn.conv2d(x, filters, 3, padding=1, bias_attr=False, data_format="NHWC")
        x = nn.batch_norm(x, act="relu", data_layout="NHWC")
        x = F.max_pool2d(x, 2, 2, data_format="NHWC")
    pooled = paddle.mean(x, axis=[1, 2])
    loss = paddle.mean(F.cross_entropy(static.nn.fc(pooled, CLASSES), y))
    paddle.optimizer.Momentum(0.01, 0.9).minimize(loss)
    return loss


def images(rng: np.random.Generator) -> Feed:
    x = rng.standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)
    return {"x": x, "y": rng.integers(0, CLASSES, (BATCH, 1))}


def images_last(rng: np.random.Generator) -> Feed:
    feed = images(rng)
    return {"x": feed["x"].transpose(0, 2, 3, 1).copy(), "y": feed["y"]}


def masked_images(rng: np.random.Generator) -> Feed:
    x = images(rng)["x"]
    return {"x": x, "mask": (x.sum(axis=1, keepdims=True) > 0).astype(np.float32)}


ON = f"on {SIZE} x {SIZE}, batch {BATCH}"
PROGRAMS = (
    trained("separable", f"depthwise-separable convolutions {ON}, Momentum", partial(net, features=separable), images),
    trained("dilated", f"dilated and grouped convolutions {ON}, Momentum", partial(net, features=dilated), images),
    trained(
        "norms", f"group and instance norm, mirrored borders {ON}, Momentum", partial(net, features=normed), images
    ),
    trained("unet", f"U-Net with transposed convolutions {ON}, Adam", unet, masked_images),
    trained("nhwc", f"convolutions with channels last {ON}, Momentum", channels_last, images_last),
)
