"""Layers of 1.x, each against what NumPy computes, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.fluid as fluid
from workbench.errors import EnforceNotMet

L = fluid.layers
rng = np.random.default_rng(17)


def softmax(x: Any) -> Any:
    return (e := np.exp(x)) / e.sum(-1, keepdims=True)


def layer(name: str) -> Callable[..., Any]:
    """A layer looked up when it is used: who looks one up is in static mode."""
    return lambda *inputs: getattr(L, name)(*inputs)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def share(*shape: int) -> np.ndarray:
    return rng.uniform(0.1, 0.9, shape).astype(np.float32)


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def huber(r: Any, delta: float) -> Any:
    return np.where(np.abs(r) <= delta, r * r / 2, delta * (np.abs(r) - delta / 2))


def unit(x: Any, axis: int) -> Any:
    return x / np.sqrt((x * x).sum(axis, keepdims=True))


def bpr(x: Any, label: Any) -> Any:
    rows = [softplus(np.delete(row, y) - row[y]).mean() for row, (y,) in zip(x, label, strict=True)]
    return np.array(rows)[:, None]


def neighbours(x: Any, n: int, k: float, alpha: float, beta: float) -> Any:
    channels = x.shape[1]
    spans = [slice(max(0, c - n // 2), c + n // 2 + 1) for c in range(channels)]
    sums = np.stack([(x[:, span] ** 2).sum(1) for span in spans], 1)
    return x / (k + alpha * sums) ** beta


def resized(x: Any, height: int, width: int, corners: bool) -> Any:
    """Along each axis the mean of two neighbours, weighted by how near they are."""
    for axis, count in ((2, height), (3, width)):
        size = x.shape[axis]
        at = np.arange(count) * ((size - 1) / (count - 1) if corners else size / count)
        low = np.minimum(at.astype(int), size - 1)
        high = np.minimum(low + 1, size - 1)
        near = (at - low).reshape([-1 if a == axis else 1 for a in range(4)])
        x = x.take(low, axis) * (1 - near) + x.take(high, axis) * near
    return x


X, Y, BLOCK = normal(4, 6), normal(4, 6), normal(2, 3, 4)
IMAGE, VOLUME = normal(2, 4, 6, 8), normal(1, 2, 4, 4, 4)
LABEL = np.array([[1], [5], [0], [3]])
SIDE = np.array([[1.0], [-1.0], [1.0], [-1.0]], np.float32)
ROWS = np.array([3, 1, 3])
TALL = {"axes": [1, 2], "starts": [0, -3], "ends": [2, 1000]}

Row = tuple[Callable[..., Any], list[np.ndarray], Callable[..., Any]]
LAYERS: dict[str, Row] = {
    "leaky_relu": (layer("leaky_relu"), [X], lambda x: np.where(x > 0, x, 0.02 * x)),
    "relu6": (lambda x: L.relu6(x, threshold=1.0), [X], lambda x: x.clip(0, 1)),
    "brelu": (lambda x: L.brelu(x, t_min=-0.5, t_max=1.0), [X], lambda x: x.clip(-0.5, 1)),
    "soft_relu": (lambda x: L.soft_relu(x, threshold=1.0), [X], lambda x: softplus(x.clip(-1, 1))),
    "hard_sigmoid": (layer("hard_sigmoid"), [X], lambda x: (0.2 * x + 0.5).clip(0, 1)),
    "hard_swish": (lambda x: L.hard_swish(x, 2.0, 4.0, 1.0), [X], lambda x: x * (x + 1).clip(0, 2) / 4),
    "swish": (lambda x: L.swish(x, beta=2.0), [X], lambda x: x / (1 + np.exp(-2 * x))),
    "selu": (lambda x: L.selu(x, scale=2.0, alpha=3.0), [X], lambda x: np.where(x > 0, 2 * x, 6 * np.expm1(x))),
    "mish": (layer("mish"), [X], lambda x: x * np.tanh(softplus(x))),
    "softshrink": (layer("softshrink"), [X], lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "hard_shrink": (layer("hard_shrink"), [X], lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "thresholded_relu": (layer("thresholded_relu"), [X], lambda x: np.where(x > 1, x, 0)),
    "log_softmax": (layer("log_softmax"), [X], lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "maxout": (lambda x: L.maxout(x, 2), [IMAGE], lambda x: x.reshape(2, 2, 2, 6, 8).max(2)),
    "prelu": (lambda x: L.prelu(x, "channel"), [IMAGE], lambda x: np.where(x > 0, x, 0.25 * x)),
    "prelu of rows": (lambda x: L.prelu(x, "channel"), [X], lambda x: np.where(x > 0, x, 0.25 * x)),
    "mse_loss": (layer("mse_loss"), [X, Y], lambda x, y: [((x - y) ** 2).mean()]),
    "huber_loss": (lambda x, y: L.huber_loss(x, y, 0.7), [X, Y], lambda x, y: huber(x - y, 0.7)),
    "smooth_l1": (
        lambda x, y: L.smooth_l1(x, y, outside_weight=y, sigma=2.0),
        [X, Y],
        lambda x, y: (4 * huber(x - y, 0.25) * y).sum(1, keepdims=True),
    ),
    "smooth_l1 inside": (
        lambda x, y: L.smooth_l1(x, y, inside_weight=x),
        [X, Y],
        lambda x, y: huber(x * (x - y), 1.0).sum(1, keepdims=True),
    ),
    "kldiv_loss": (
        lambda x, p: L.kldiv_loss(x, p, "batchmean"),
        [X, share(4, 6)],
        lambda x, p: [(p * (np.log(p) - x)).sum() / 4],
    ),
    "margin_rank_loss": (
        layer("margin_rank_loss"),
        [SIDE, X[:, :1], Y[:, :1]],
        lambda t, x, y: np.maximum(0.1 - t * (x - y), 0),
    ),
    "rank_loss": (
        layer("rank_loss"),
        [(SIDE + 1) / 2, X[:, :1], Y[:, :1]],
        lambda t, x, y: softplus(x - y) - t * (x - y),
    ),
    "bpr_loss": (layer("bpr_loss"), [X, LABEL], bpr),
    "sigmoid_cross_entropy_with_logits": (
        lambda x, t: L.sigmoid_cross_entropy_with_logits(x, t, ignore_index=-1, normalize=True),
        [X, np.tile(SIDE, (1, 6))],
        lambda x, t: np.where(t == 1, softplus(-x), 0) / 12,
    ),
    "label_smooth": (lambda p: L.label_smooth(p, epsilon=0.3), [share(4, 6)], lambda p: 0.7 * p + 0.05),
    "cos_sim": (layer("cos_sim"), [X, Y[:1]], lambda x, y: (unit(x, 1) * unit(y, 1)).sum(1, keepdims=True)),
    "l2_normalize": (lambda x: L.l2_normalize(x, axis=-1), [BLOCK], lambda x: unit(x, -1)),
    "gather": (layer("gather"), [X, ROWS[:, None]], lambda x, i: x[i[:, 0]]),
    "scatter": (
        lambda x, i, u: L.scatter(x, i, u, overwrite=False),
        [X, ROWS, X[:3]],
        lambda x, i, u: np.stack([x[0], u[1], x[2], u[0] + u[2]]),
    ),
    "multiplex": (lambda x, y, i: L.multiplex([x, y], i), [X, Y, LABEL % 2], lambda x, y, i: np.where(i == 1, y, x)),
    "argmin": (layer("argmin"), [X], lambda x: x.argmin(0)),
    "argmax": (lambda x: L.argmax(x, axis=-1), [X], lambda x: x.argmax(-1)),
    "argsort": (
        lambda x: L.argsort(x, axis=0, descending=True)[1],
        [X],
        lambda x: np.argsort(-x, axis=0, kind="stable"),
    ),
    "cumsum": (lambda x: L.cumsum(x, axis=0, exclusive=True, reverse=True), [X], lambda x: x[::-1].cumsum(0)[::-1] - x),
    "pool3d": (
        lambda v: L.pool3d(v, 2, "max", 2),
        [VOLUME],
        lambda v: v.reshape(1, 2, 2, 2, 2, 2, 2, 2).max((3, 5, 7)),
    ),
    "pool3d of all": (
        lambda v: L.pool3d(v, pool_type="avg", global_pooling=True),
        [VOLUME],
        lambda v: v.mean((2, 3, 4), keepdims=True),
    ),
    "adaptive_pool2d": (
        lambda x: L.adaptive_pool2d(x, [3, 4], "avg"),
        [IMAGE],
        lambda x: x.reshape(2, 4, 3, 2, 4, 2).mean((3, 5)),
    ),
    "resize_bilinear": (lambda x: L.resize_bilinear(x, [9, 11]), [IMAGE], lambda x: resized(x, 9, 11, True)),
    "image_resize": (
        lambda x: L.image_resize(x, scale=1.5, align_corners=False),
        [IMAGE],
        lambda x: resized(x, 9, 12, False),
    ),
    "resize_nearest": (lambda x: L.resize_nearest(x, [4, 3]), [IMAGE], lambda x: x[:, :, [0, 2, 3, 5]][..., [0, 4, 7]]),
    "image_resize_short": (lambda x: L.image_resize_short(x, 9), [IMAGE], lambda x: resized(x, 9, 12, True)),
    "pixel_shuffle": (
        lambda x: L.pixel_shuffle(x, 2),
        [IMAGE],
        lambda x: x.reshape(2, 1, 2, 2, 6, 8).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 16),
    ),
    "shuffle_channel": (lambda x: L.shuffle_channel(x, 2), [IMAGE], lambda x: x[:, [0, 2, 1, 3]]),
    "affine_channel": (
        lambda x, s: L.affine_channel(x, s, s, act="relu"),
        [IMAGE, IMAGE[0, :, 0, 0]],
        lambda x, s: np.maximum((x + 1) * s[:, None, None], 0),
    ),
    "lrn": (lambda x: L.lrn(x, n=3, k=2.0, alpha=0.5), [IMAGE], lambda x: neighbours(x, 3, 2.0, 0.5, 0.75)),
    "group_norm": (
        lambda x: L.group_norm(x, 2, epsilon=0.0),
        [IMAGE],
        lambda x: (
            ((g := x.reshape(2, 2, -1)) - g.mean(-1, keepdims=True)).reshape(x.shape)
            / g.std(-1)[:, [0, 0, 1, 1], None, None]
        ),
    ),
    "flatten": (lambda x: L.flatten(x, axis=2), [BLOCK], lambda x: x.reshape(6, 4)),
    "flatten to a row": (lambda x: L.flatten(x, axis=0), [BLOCK], lambda x: x.reshape(1, 24)),
    "expand": (lambda x: L.expand(x, [1, 2, 3]), [BLOCK], lambda x: np.tile(x, (1, 2, 3))),
    "expand_as": (lambda x, y: L.expand_as(x, y), [X[:, :3], Y], lambda x, y: np.tile(x, (1, 2))),
    "stack": (lambda x, y: L.stack([x, y], 1), [X, Y], lambda x, y: np.stack([x, y], 1)),
    "reverse": (lambda x: L.reverse(x, [0, 2]), [BLOCK], lambda x: x[::-1, :, ::-1]),
    "roll": (lambda x: L.roll(x, 1, 1), [BLOCK], lambda x: np.roll(x, 1, 1)),
    "slice": (lambda x: L.slice(x, **TALL), [BLOCK], lambda x: x[:, :2, 1:]),
    "strided_slice": (lambda x: L.strided_slice(x, [2], [3], [0], [-2]), [BLOCK], lambda x: x[:, :, 3:0:-2]),
    "pad": (lambda x: L.pad(x, [0, 0, 1, 2], 9.0), [X], lambda x: np.pad(x, [(0, 0), (1, 2)], constant_values=9)),
    "pad2d": (
        lambda x: L.pad2d(x, [1, 2, 3, 0], "edge"),
        [IMAGE],
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (3, 0)], "edge"),
    ),
    "pad_constant_like": (
        lambda x, y: L.pad_constant_like(x, y, 2.0),
        [X, Y[:, :4]],
        lambda x, y: np.pad(y, [(0, 0), (0, 2)], constant_values=2),
    ),
    "crop": (lambda x: L.crop(x, [2, 1, 2], [0, 1, 1]), [BLOCK], lambda x: x[:, 1:2, 1:3]),
    "elementwise_pow": (layer("elementwise_pow"), [share(4, 6), Y], lambda x, y: x**y),
    "elementwise_mod": (layer("elementwise_mod"), [LABEL, LABEL + 3], lambda x, y: x % y),
    "pow": (lambda x: L.pow(x, 1.5), [share(4, 6)], lambda x: x**1.5),
    "clip_by_norm": (lambda x: L.clip_by_norm(x, 1.5), [X], lambda x: x * 1.5 / np.sqrt((x * x).sum())),
    "reduce_prod": (
        lambda x: L.reduce_prod(x, dim=[0, -1], keep_dim=True),
        [BLOCK],
        lambda x: x.prod((0, 2), keepdims=True),
    ),
    "reduce_any": (lambda x: L.reduce_any(x > 1.0, dim=1), [X], lambda x: (x > 1).any(1)),
    "fill_constant_batch_size_like": (
        lambda x: L.fill_constant_batch_size_like(x, [2, 0], "int64", 7, output_dim_idx=1),
        [X],
        lambda x: np.full((2, 4), 7),
    ),
    "zeros_like": (layer("zeros_like"), [X], np.zeros_like),
    "diag": (lambda x: L.diag(np.arange(3.0)) + x, [X[:3, :3]], lambda x: np.diag(np.arange(3.0)) + x),
    "eye": (lambda x: L.eye(2, 3, [4]) * x, [X[:, :2, None]], lambda x: np.broadcast_to(np.eye(2, 3), (4, 2, 3)) * x),
    "range": (lambda x: L.range(1, 7, 2, "float32") * x, [X[:, :1]], lambda x: np.array([1, 3, 5]) * x),
    "increment": (lambda x: L.increment(L.mean(x), 2.0, in_place=False), [X], lambda x: [x.mean() + 2]),
}
LAYERS |= {
    "glu": (lambda x: fluid.nets.glu(x), [X], lambda x: x[:, :3] / (1 + np.exp(-x[:, 3:]))),
    "scaled_dot_product_attention": (
        lambda x: fluid.nets.scaled_dot_product_attention(x, x, L.scale(x, 2.0)),
        [BLOCK],
        lambda x: softmax(x @ x.transpose(0, 2, 1) / 2) @ (2 * x),
    ),
    "img_conv_group": (
        lambda x: fluid.nets.img_conv_group(
            x, [2, 1], 2, conv_padding=[0, 1], conv_filter_size=1, pool_stride=2, pool_type="avg",
            param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5)),
        ),
        [IMAGE],
        lambda x: (
            np.pad(x.sum(1, keepdims=True) / 2, [(0, 0), (0, 0), (1, 1), (1, 1)]).reshape(2, 1, 4, 2, 5, 2).mean((3, 5))
        ),
    ),
    "simple_img_conv_pool": (
        lambda x: fluid.nets.simple_img_conv_pool(
            x, 1, 1, 2, 2, act="relu", param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
        ),
        [IMAGE],
        lambda x: np.maximum(x.sum(1, keepdims=True), 0).reshape(2, 1, 3, 2, 4, 2).max((3, 5)),
    ),
}  # fmt: skip
FIXED = {"diag"}  # have a batch of known size


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name: str) -> None:
    build, arrays, reference = LAYERS[name]
    shapes = [array.shape if name in FIXED else [None, *array.shape[1:]] for array in arrays]
    out = build(*(fluid.data(f"x{i}", shapes[i], str(array.dtype)) for i, array in enumerate(arrays)))
    executor = fluid.Executor()
    if fluid.default_startup_program().global_block().ops:
        executor.run(fluid.default_startup_program())
    (value,) = executor.run(feed={f"x{i}": array for i, array in enumerate(arrays)}, fetch_list=[out])
    doubles = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
    np.testing.assert_allclose(value, np.asarray(reference(*doubles)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: L.prelu(x, "row"), "'all', 'channel' or 'element'"),
        (lambda x: L.maxout(x, 2, axis=2), "axis"),
        (lambda x: L.mish(x, threshold=10), "threshold"),
        (lambda x: L.huber_loss(x, x, 0.0), "above 0"),
        (lambda x: L.bpr_loss(L.slice(x, [1], [0], [1]), x), "two classes"),
        (lambda x: L.flatten(x, axis=3), r"\[0, 2\]"),
        (lambda x: L.expand(x, [2]), "each dimension"),
        (lambda x: L.expand_as(x, L.concat([x, L.slice(x, [1], [0], [2])], 1)), "multiples"),
        (lambda x: L.expand_as(x, fluid.data("known", [8, 6])), "known"),
        (lambda x: L.pad(x, [1, 1]), "two numbers"),
        (lambda x: L.pad2d(x, [1, 1]), "four"),
        (lambda x: L.pad2d(x, [1, 1, 0, 0], mode="wrap"), "mode"),
        (lambda x: L.image_resize(x, [2, 2]), "4 dimensions"),
        (lambda x: L.image_resize(L.unsqueeze(x, [2, 3])), "out_shape"),
        (lambda x: L.image_resize(L.unsqueeze(x, [2, 3]), [2, 2], resample="AREA"), "BILINEAR"),
        (lambda x: L.adaptive_pool2d(x, 1, "avg", require_index=True), "largest"),
        (lambda x: L.fill_constant_batch_size_like(x, [1], "float32", 0.0, input_dim_idx=2), "input_dim_idx"),
        (lambda x: L.sequence_pool(x, "sum"), "LoD"),
    ],
)
def test_what_a_layer_refuses(build: Callable[..., Any], message: str) -> None:
    with pytest.raises(EnforceNotMet, match=message):
        build(fluid.data("x", [None, 6]))


def test_results_are_written_into_variables_that_are_there() -> None:
    x = fluid.data("x", [2])
    flag, value, counter = L.equal(x, x), L.zeros_like(x), L.fill_constant([1], "int64", 3)
    assert L.less_than(x, L.ones_like(x), cond=flag) is flag
    assert L.fill_constant([2], "float32", 5.0, out=value) is value and L.increment(counter) is counter
    L.logical_not(flag, out=flag)
    types = [op.type for op in fluid.default_main_program().global_block().ops]
    assert types[-5:] == ["fill_any_like", "less_than", "fill_constant", "increment", "logical_not"]
    feed = {"x": np.array([0.0, 2.0], np.float32)}
    fetched = fluid.Executor().run(feed=feed, fetch_list=[flag, value, counter])
    assert [a.tolist() for a in fetched] == [[False, True], [5.0, 5.0], [4]]


def test_random_layers_follow_the_batch_and_the_seed_of_the_program() -> None:
    x = fluid.data("x", [None, 3])
    fluid.default_main_program().random_seed = 5
    drawn = [L.uniform_random_batch_size_like(x, [-1, 400], min=2.0, max=3.0)]
    drawn.append(L.gaussian_random_batch_size_like(x, [-1, 400], mean=9.0, std=0.1))
    drawn += [L.uniform_random([7, 400], min=2.0, max=3.0), L.gaussian_random([7, 400], mean=9.0, std=0.1)]
    runs = []
    for _ in range(2):
        with fluid.scope_guard(fluid.Scope()):
            runs.append(fluid.Executor().run(feed={"x": np.ones((7, 3), np.float32)}, fetch_list=drawn))
    for one, again, mean, std in zip(*runs, [2.5, 9.0, 2.5, 9.0], [12**-0.5, 0.1, 12**-0.5, 0.1], strict=True):
        np.testing.assert_array_equal(one, again)
        assert one.shape == (7, 400) and abs(one.mean() - mean) < 0.05 and abs(one.std() / std - 1) < 0.1


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_auc_of_all_steps_and_of_the_last_ones(steps: int) -> None:
    p, label = fluid.data("p", [None, 2]), fluid.data("label", [None, 1], "int64")
    area, recent, states = L.auc(p, label, num_thresholds=10, slide_steps=steps)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    scores, truth = rng.integers(0, 11, (4, 6)) / 10 + 0.01, rng.integers(0, 2, (4, 6))
    truth[0] = 1  # one class alone: no area
    for step in range(4):
        shares = np.minimum(np.stack([1 - scores[step], scores[step]], 1), 1.0).astype(np.float32)
        feed = {"p": shares, "label": truth[step][:, None]}
        values = executor.run(feed=feed, fetch_list=[area, recent, *states])
        for value, first in ((values[0], 0), (values[1], max(0, step + 1 - steps) if steps else 0)):
            assert value.item() == pytest.approx(pairs_in_order(scores[first : step + 1], truth[first : step + 1]))
    assert sum(v.sum() for v in values[4:]) == 24


def pairs_in_order(scores: np.ndarray, truth: np.ndarray) -> float:
    positive, negative = scores[truth == 1][:, None], scores[truth == 0]
    pairs = np.sign(np.minimum(positive, 1.0) - np.minimum(negative, 1.0)) / 2 + 0.5
    return pairs.mean() if pairs.size else 0.0
