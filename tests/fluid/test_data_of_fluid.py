"""Readers, feeders, loaders and metrics of 1.x, and a training script as its book has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench.fluid as fluid
from workbench.errors import EnforceNotMet

L = fluid.layers


def counted(n: int) -> Callable[[], Iterator[int]]:
    return lambda: iter(range(n))


def samples(n: int) -> Callable[[], Iterator[tuple[list[float], int]]]:
    return lambda: (([float(i), 2.0 * i], i) for i in range(n))


def test_readers_made_of_readers() -> None:
    np.random.seed(3)
    orders = [list(fluid.io.shuffle(counted(20), 8)()) for _ in range(2)]
    for order in orders:
        assert sorted(order) == list(range(20)) and max(order[:8]) < 8 and order != list(range(20))
    assert orders[0] != orders[1]
    assert list(fluid.io.buffered(counted(5), 2)()) == list(range(5))
    assert list(fluid.io.chain(counted(2), counted(3))()) == [0, 1, 0, 1, 2]
    assert list(fluid.io.firstn(counted(9), 2)()) == [0, 1]
    assert list(fluid.io.map_readers(lambda a, b: a * b, counted(3), counted(3))()) == [0, 1, 4]
    assert list(fluid.io.xmap_readers(lambda x: x * x, counted(9), 2, 3)()) == [i * i for i in range(9)]
    kept = fluid.io.cache(iter([[1, 2]]).__next__)
    assert [list(kept()), list(kept())] == [[1, 2]] * 2
    assert list(fluid.io.compose(counted(2), counted(3), check_alignment=False)()) == [(0, 0), (1, 1)]
    with pytest.raises(fluid.io.ComposeNotAligned):
        list(fluid.io.compose(counted(2), counted(3))())


def test_an_error_of_a_reader_comes_where_its_sample_would() -> None:
    def bad() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    for made_of_it in (fluid.io.buffered(bad, 2), fluid.io.xmap_readers(lambda x: x, bad, 2, 1)):
        read = iter(made_of_it())
        assert next(read) == 1
        with pytest.raises(OSError, match="gone"):
            next(read)


def test_a_feeder_gives_rows_the_shapes_of_variables() -> None:
    fluid.data("image", [None, 1, 2])
    label = fluid.data("label", [None, 1], "int64")
    feeder = fluid.DataFeeder(feed_list=["image", label], place=fluid.CPUPlace())
    feed = feeder.feed(samples(3)())
    assert feed["image"].tolist() == [[[0, 0]], [[1, 2]], [[2, 4]]] and feed["image"].dtype == np.float32
    assert feed["label"].tolist() == [[0], [1], [2]]
    batches = fluid.io.batch(samples(5), 2)
    parallel = feeder.decorate_reader(batches, multi_devices=True, num_places=2)
    assert [[f["label"].ravel().tolist() for f in feeds] for feeds in parallel()] == [[[0, 1], [2, 3]]]
    with pytest.raises(EnforceNotMet, match="1 feeds are left"):
        list(feeder.decorate_reader(batches, True, 2, drop_last=False)())
    with pytest.raises(EnforceNotMet, match="image, label"):
        feeder.feed([([1.0, 2.0],)])
    with pytest.raises(EnforceNotMet, match="'image'"):
        feeder.feed([([1.0, 2.0, 3.0], 0)])
    with pytest.raises(EnforceNotMet):
        fluid.DataFeeder([3])


@pytest.mark.parametrize("capacity", [None, 2])
@pytest.mark.parametrize("kind", ["sample", "sample_list", "batch"])
def test_a_loader_of_a_generator(kind: str, capacity: int | None) -> None:
    x, label = fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")
    loader = fluid.io.DataLoader.from_generator([x, label], capacity=capacity)
    with pytest.raises(EnforceNotMet, match="given a generator"):
        iter(loader)
    places = fluid.cpu_places(1)
    if kind == "sample":
        loader.set_sample_generator(samples(5), batch_size=2, places=places)
    elif kind == "sample_list":
        loader.set_sample_list_generator(fluid.io.batch(samples(5), 2, drop_last=True), places)
    else:
        arrays = [(np.float32([[i, 2 * i], [i + 1, 2 * i + 2]]), np.array([[i], [i + 1]])) for i in (0, 2)]
        loader.set_batch_generator(lambda: arrays, places)
    total = L.reduce_sum(x) + L.cast(L.reduce_sum(label), "float32")
    for _ in range(2):
        sums = [fluid.Executor().run(feed=feed, fetch_list=[total])[0].item() for feed in loader()]
        assert sums == [4.0, 20.0]
    with pytest.raises(NotImplementedError, match="iterable"):
        fluid.io.PyReader([x], iterable=False)


def test_metrics_count_over_batches() -> None:
    scores, labels = np.array([[0.9], [0.2], [0.7], [0.6]]), np.array([[1], [1], [0], [1]])
    both = fluid.metrics.CompositeMetric("both")
    for metric in (fluid.metrics.Precision(), fluid.metrics.Recall()):
        both.add_metric(metric)
    area = fluid.metrics.Auc("auc")
    for rows in (slice(0, 1), slice(1, 4)):
        both.update(scores[rows], labels[rows])
        area.update(np.hstack([1 - scores, scores])[rows], labels[rows])
    assert both.eval() == [2 / 3, 2 / 3] and area.eval() == pytest.approx(1 / 3)
    accuracy = fluid.metrics.Accuracy()
    with pytest.raises(EnforceNotMet, match="counted nothing"):
        accuracy.eval()
    accuracy.update(np.float32([0.5]), 2)
    accuracy.update(1.0, 6)
    assert accuracy.eval() == 0.875 and str(accuracy) == "Accuracy"
    accuracy.reset()
    assert accuracy.get_config()["states"] == {"value": 0.0, "weight": 0.0}


def test_a_metric_of_its_own_is_reset_by_its_states() -> None:
    class Own(fluid.metrics.MetricBase):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__(None)
            self.count, self.rows, self.sums, self._kept = 3, [1], np.ones(2), 5

    metric: Any = Own()
    metric.reset()
    assert (metric.count, metric.rows, metric.sums.tolist(), metric._kept) == (0, [], [0.0, 0.0], 5)
