"""Several devices against one: the same step to rounding, and the same bits as the split done by hand.

The reference is the plain executor: on the whole batch, or on each device's rows with the gradients then added up in
the order of the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, build, column, line
from workbench import static

F = wb.nn.functional
Scale = static.BuildStrategy.GradientScaleStrategy
Mode = static.BuildStrategy.ReduceStrategy
MODES = pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
Body = Callable[[], Any]
WIDTH = 4


def building(**fields: Any) -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


# Programs of one mean loss: x [?, 4] and y [?, 1] of float64, ids [?, 1]


def inputs() -> tuple[Any, Any, Any]:
    x, y = static.data("x", [None, WIDTH], "float64"), static.data("y", [None, 1], "float64")
    return x, y, static.data("ids", [None, 1], "int64")


def feed(seed: int, rows: int = 8) -> dict[str, np.ndarray]:
    r = np.random.default_rng(seed)
    ids = r.integers(0, 6, (rows, 1))
    return {"x": r.standard_normal((rows, WIDTH)), "y": r.standard_normal((rows, 1)), "ids": ids}


def distance(features: Any, y: Any) -> Any:
    return wb.mean(F.square_error_cost(static.nn.fc(features, 1), y))


def layers() -> Any:
    x, y, _ = inputs()
    return distance(static.nn.fc(x, 5, activation="tanh"), y)


def looked_up(ids: Any, sparse: bool) -> Any:
    return wb.reshape(static.nn.embedding(ids, [6, WIDTH], is_sparse=sparse, dtype="float64"), [-1, WIDTH])


def dense_embedding() -> Any:
    x, y, ids = inputs()
    return distance(wb.tanh(x + looked_up(ids, sparse=False)), y)


def sparse_embedding() -> Any:
    x, y, ids = inputs()
    return distance(wb.tanh(x + looked_up(ids, sparse=True)), y)


def normalised_layers() -> Any:
    x, y, _ = inputs()
    return distance(static.nn.layer_norm(static.nn.fc(x, 5, activation="tanh")), y)


def normalised_batch() -> Any:
    x, y, _ = inputs()
    return distance(static.nn.batch_norm(static.nn.fc(x, 5, activation="tanh")), y)


def branch() -> Any:
    x, y, _ = inputs()
    h = static.nn.fc(x, WIDTH)
    weight = static.create_parameter([1], "float64")
    positive = wb.greater_than(weight, wb.full([1], 0.0, "float64"))  # every device knows it
    return distance(static.nn.cond(positive, lambda: wb.tanh(h) * weight, lambda: h - weight), y)


def loop() -> Any:
    x, y, _ = inputs()
    h = static.nn.fc(x, WIDTH, activation="tanh")
    i, n = wb.zeros([1], "int64"), wb.full([1], 3, "int64")
    _, out = static.nn.while_loop(lambda i, v: i < n, lambda i, v: [i + 1, wb.tanh(v * h + x)], [i, h])
    return distance(out, y)


# The same step on one device and on several


def agree(
    body: Body,
    optimizer: Callable[[], Any],
    count: int,
    steps: int = 3,
    schedule: Callable[[int], Any] | None = None,
    **strategy: Any,
) -> None:
    """Train twice; losses, and all that is kept on every device, are the same but for rounding.

    Args:
        schedule: what makes the feed of a step.
    """
    one, several = build(body, first := optimizer()).start(), build(body, other := optimizer()).start()
    pe, exe = several.parallel(count, build_strategy=building(**strategy)), static.Executor()
    for step in range(steps):
        fed = feed(step) if schedule is None else schedule(step)
        (whole,) = exe.run(one.main, feed=fed, fetch_list=[one.loss], scope=one.scope)
        (parts,) = pe.run([several.loss.name], feed=fed)
        assert parts.shape == (count,)
        np.testing.assert_allclose(parts.mean(), whole[0], rtol=1e-10)
        for used in (first, other):
            if isinstance(used._learning_rate, wb.optimizer.lr.LRScheduler):
                used._learning_rate.step()
    for place in range(count):
        for name, value in one.values().items():
            held = np.array(pe.local_scope(place).find_var(name).get_tensor())
            np.testing.assert_allclose(held, value, rtol=1e-8, atol=1e-10, err_msg=f"{name} on device {place}")


rules, clips, lr = wb.optimizer, wb.nn, wb.optimizer.lr
L1, L2 = wb.regularizer.L1Decay, wb.regularizer.L2Decay
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: rules.SGD(0.1),
    "Momentum": lambda: rules.Momentum(0.1, 0.9),
    "Nesterov": lambda: rules.Momentum(0.1, 0.9, use_nesterov=True),
    "Momentum with L2": lambda: rules.Momentum(0.1, 0.9, weight_decay=L2(0.1)),
    "SGD with L1": lambda: rules.SGD(0.1, weight_decay=L1(0.1)),
    "Adam": lambda: rules.Adam(0.01),
    "AdamW": lambda: rules.AdamW(0.01, weight_decay=0.1),
    "Adagrad": lambda: rules.Adagrad(0.1),
    "RMSProp": lambda: rules.RMSProp(0.01, momentum=0.5, centered=True),
    "Adamax": lambda: rules.Adamax(0.01),
    "clip by value": lambda: rules.SGD(0.1, grad_clip=clips.ClipGradByValue(0.02)),
    "clip by norm": lambda: rules.Adam(0.01, grad_clip=clips.ClipGradByNorm(0.05)),
    "clip by global norm": lambda: rules.Momentum(0.1, grad_clip=clips.ClipGradByGlobalNorm(0.1), weight_decay=L2(0.1)),
}


@pytest.mark.parametrize(
    ("mode", "count"),
    [(Mode.AllReduce, 1), (Mode.AllReduce, 2), (Mode.AllReduce, 8), (Mode.Reduce, 4)],
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_makes_the_step_of_the_whole_batch(optimizer: str, count: int, mode: Any) -> None:
    agree(layers, OPTIMIZERS[optimizer], count, reduce_strategy=mode)


@pytest.mark.parametrize(("mode", "count"), [(Mode.AllReduce, 4), (Mode.Reduce, 2), (Mode.Reduce, 8)])
@pytest.mark.parametrize("body", [dense_embedding, normalised_layers, branch, loop], ids=lambda body: body.__name__)
def test_every_kind_of_program_makes_the_step_of_the_whole_batch(body: Body, count: int, mode: Any) -> None:
    agree(body, OPTIMIZERS["clip by global norm"], count, reduce_strategy=mode)


@MODES
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("optimizer", ["SGD", "Momentum with L2", "Adam", "Adagrad", "RMSProp", "clip by global norm"])
def test_sparse_gradients_make_the_step_of_the_whole_batch(optimizer: str, count: int, mode: Any) -> None:
    agree(sparse_embedding, OPTIMIZERS[optimizer], count, reduce_strategy=mode)


@MODES
@pytest.mark.parametrize("count", [2, 4])
def test_batch_norm_over_all_devices_is_batch_norm_of_the_whole_batch(count: int, mode: Any) -> None:
    agree(normalised_batch, OPTIMIZERS["Momentum"], count, reduce_strategy=mode, sync_batch_norm=True)


def test_batch_norm_of_each_device_is_not():
    with pytest.raises(AssertionError):
        agree(normalised_batch, OPTIMIZERS["Momentum"], 2)


SCHEDULES: list[Callable[[], Any]] = [
    lambda: lr.ExponentialDecay(0.1, 0.5),
    lambda: lr.PiecewiseDecay([1, 3], [0.1, 0.02, 0.3]),
    lambda: lr.LinearWarmup(lr.CosineAnnealingDecay(0.2, 4), 2, 0.0, 0.1),
    lambda: lr.NoamDecay(8, 2),
]


@MODES
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_drives_all_devices(schedule: Callable[[], Any], mode: Any) -> None:
    agree(layers, lambda: rules.Adam(schedule()), 4, steps=5, reduce_strategy=mode)


# Programs made at random; each has x, y and ids, and ends in the mean of something per row

Known = list[Any]
Kind = Callable[[Any, Known], None]


def pick(draw: Any, known: Known) -> Any:
    return known[draw(st.integers(0, len(known) - 1))]


def unary(draw: Any, known: Known) -> None:
    f = draw(st.sampled_from([wb.tanh, F.sigmoid, F.softmax, wb.assign, lambda v: wb.scale(v, -0.5, 0.25)]))
    known.append(f(wb.tanh(pick(draw, known))))


def binary(draw: Any, known: Known) -> None:
    f = draw(st.sampled_from([wb.add, wb.subtract, wb.multiply]))
    known.append(f(wb.tanh(pick(draw, known)), pick(draw, known)))


def layer(draw: Any, known: Known) -> None:
    attr = wb.ParamAttr(name=draw(st.sampled_from([None, "shared"])))
    known.append(static.nn.fc(pick(draw, known), WIDTH, weight_attr=attr, activation="tanh"))


def moved(draw: Any, known: Known) -> None:
    x = wb.transpose(wb.reshape(pick(draw, known), [-1, 2, 2]), [0, 2, 1])
    left, right = wb.split(wb.reshape(wb.tanh(x) if draw(st.booleans()) else x, [-1, WIDTH]), 2, axis=1)
    known.append(wb.concat([right, left], axis=1))


def summed(draw: Any, known: Known) -> None:
    x = pick(draw, known)
    known.append(x - wb.mean(x, axis=1, keepdim=True) if draw(st.booleans()) else wb.add_n([x, pick(draw, known), x]))


def embedded(draw: Any, known: Known) -> None:
    x = pick(draw, known)
    attr = wb.ParamAttr(name=draw(st.sampled_from(["sparse_table", "other_table"])))
    rows = static.nn.embedding(x.block.var("ids"), [6, WIDTH], is_sparse=True, param_attr=attr, dtype=x.dtype)
    known.append(x + wb.reshape(rows, [-1, WIDTH]))


def repeated(draw: Any, known: Known) -> None:
    x, i, n = wb.tanh(pick(draw, known)), wb.zeros([1], "int64"), wb.full([1], draw(st.integers(0, 3)), "int64")
    _, out = static.nn.while_loop(lambda i, v: i < n, lambda i, v: [i + 1, wb.tanh(v * x + x)], [i, x])
    known.append(out)


ROW_BY_ROW: list[Kind] = [unary, binary, layer, layer, moved, summed, embedded, repeated]


def random_body(draw: Any, kinds: Sequence[Kind], dtype: str) -> Body:
    """The body of a program; what is drawn is drawn while it is built."""

    def body() -> Any:
        known: Known = [static.data("x", [None, WIDTH], dtype)]
        y = static.data("y", [None, 1], dtype)
        static.data("ids", [None, 1], "int64")
        for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5)):
            kind(draw, known)
        return distance(wb.add_n([wb.tanh(v) for v in known[-2:]]), y)

    return body


def recorded(draw: Callable[[Any], Any]) -> Callable[[], Callable[[Any], Any]]:
    """For building the same program again: every reader gets what was drawn first."""
    kept: list[Any] = []

    def reader() -> Callable[[Any], Any]:
        index = 0

        def again(strategy: Any) -> Any:
            nonlocal index
            if index == len(kept):
                kept.append(draw(strategy))
            index += 1
            return kept[index - 1]

        return again

    return reader


@settings(max_examples=40)
@given(st.data())
def test_random_programs_make_the_step_of_the_whole_batch(data: Any) -> None:
    optimizer = OPTIMIZERS[data.draw(st.sampled_from(["SGD", "Momentum with L2", "Adam", "clip by global norm"]))]
    count, mode, reader = data.draw(st.sampled_from([2, 4])), data.draw(st.sampled_from(Mode)), recorded(data.draw)
    agree(lambda: random_body(reader(), ROW_BY_ROW, "float64")(), optimizer, count, 2, reduce_strategy=mode)


# Uneven batches


def gradient(model: Model) -> np.ndarray:
    """By w, of the whole batch 1, 2, 9."""
    (gradient,) = static.Executor().run(
        model.main, feed={"X": column(1, 2, 9)}, fetch_list=["fc_0.w_0@GRAD"], scope=model.scope
    )
    return gradient


@pytest.mark.parametrize(("rule", "expected"), [("ceil", 5.25), ("floor", 3.25)])
def test_a_mean_of_means_is_not_the_mean_of_an_uneven_batch(rule: str, expected: float) -> None:
    """Trap 1: the loss gradient 1 / devices weighs devices, not rows."""
    execution = static.ExecutionStrategy()
    execution.feed_split = rule
    (slope,) = line().start().parallel(2, exec_strategy=execution).run(["fc_0.w_0@GRAD"], feed={"X": column(1, 2, 9)})
    np.testing.assert_array_equal(slope, [[expected], [expected]])
    assert gradient(line().start()).tolist() == [[4.0]]


UNEVEN = [(2, None), (3, None), (4, None), (2, [1, 6]), (3, [5, 1, 1]), (4, [1, 1, 4, 1])]


def parts_of(fed: dict[str, np.ndarray], sizes: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """A list feed: so many rows for each device."""
    ends = np.cumsum(sizes)
    return [{name: v[end - size : end] for name, v in fed.items()} for size, end in zip(sizes, ends, strict=True)]


@pytest.mark.parametrize(
    ("body", "optimizer", "mode"),
    [
        (layers, "clip by global norm", Mode.AllReduce),
        (loop, "Momentum with L2", Mode.AllReduce),
        (dense_embedding, "Adam", Mode.Reduce),
        (sparse_embedding, "Momentum with L2", Mode.AllReduce),
        (sparse_embedding, "Adam", Mode.Reduce),
    ],
)
@pytest.mark.parametrize(("count", "sizes"), UNEVEN)
def test_weighted_by_samples_is_exact_for_uneven_batches(
    body: Body, optimizer: str, count: int, sizes: Sequence[int] | None, mode: Any
) -> None:
    one, several = (build(body, OPTIMIZERS[optimizer]()).start() for _ in range(2))
    weighted = building(gradient_scale_strategy=Scale.WeightedBySamples, reduce_strategy=mode)
    pe = several.parallel(count, build_strategy=weighted)
    for step in range(2):
        fed = feed(step, rows=7)
        static.Executor().run(one.main, feed=fed, scope=one.scope)
        pe.run([], feed=fed if sizes is None else parts_of(fed, sizes))
    for name, value in one.values().items():
        np.testing.assert_allclose(several.value(name), value, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize(("count", "sizes"), UNEVEN)
def test_weighted_by_samples_gives_the_gradient_of_the_whole_batch(count: int, sizes: Sequence[int] | None) -> None:
    one, fed = build(layers, rules.SGD(0.1)).start(), feed(0, rows=7)
    names = [p.name + "@GRAD" for p in one.main.all_parameters()]
    expected = static.Executor().run(one.main, feed=fed, fetch_list=names, scope=one.scope)
    handed = fed if sizes is None else parts_of(fed, sizes)

    def gradients(scale: Any) -> list[np.ndarray]:
        pe = (
            build(layers, rules.SGD(0.1))
            .start()
            .parallel(count, build_strategy=building(gradient_scale_strategy=scale))
        )
        return [np.split(value, count)[0] for value in pe.run(names, feed=handed)]

    for value, whole in zip(gradients(Scale.WeightedBySamples), expected, strict=True):
        np.testing.assert_allclose(value, whole, rtol=1e-10, atol=1e-14)
    for value, whole in zip(gradients(Scale.CoeffNumDevice), expected, strict=True):
        assert np.abs(value - whole).max() > 1e-3 * np.abs(whole).max()
