"""Nothing stays behind: with the collector of cycles switched off, a thousand steps take no more memory than ten."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from workbench.autograd import PyLayer
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.framework.op.recorder import recording


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        with recording(dynamic_recorder):
            yield
    finally:
        gc.enable()


class Doubled(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensor()
        return g * 2 + (x - y) * 0


RNG = np.random.default_rng(0)
X = paddle.to_tensor(RNG.standard_normal((4, 3)).astype(np.float32))
W = paddle.to_tensor(RNG.standard_normal((3, 2)).astype(np.float32), stop_gradient=False)
IDS = paddle.to_tensor([1, 0, 1])


def training() -> None:
    loss = (paddle.matmul(X, W).tanh() ** 2.0).mean()
    loss.backward()
    with paddle.no_grad():
        W.subtract_(W.grad * 0.01)
    W.clear_grad()


def written_in_place() -> None:
    y = W * 1
    y.tanh_()
    y[0] = y[1] * 2
    (y * y).sum().backward()
    W.clear_gradient(False)


def hooked() -> None:
    y = W * 2
    y.register_hook(lambda g: g * 1)
    y.retain_grads()
    handle = W.register_hook(lambda g: None)
    y.sum().backward()
    handle.remove()
    W.clear_gradient(False)


def second_order() -> None:
    (slope,) = paddle.grad((W * W * W).sum(), W, create_graph=True)
    (slope * slope).sum().backward()
    W.clear_gradient(False)


def by_hand() -> None:
    Doubled.apply(W).sum().backward()
    W.clear_gradient(False)


def lists() -> None:
    parts = paddle.split(paddle.concat([W, W * 2], axis=0), 2)
    (parts[0] * parts[1]).sum().backward()
    paddle.nn.functional.embedding(IDS, W, sparse=True).sum().backward()
    W.clear_gradient(False)


def left_alone() -> None:
    """A graph nobody walks back."""
    y = W
    for _ in range(10):
        y = (y * W).tanh()


@pytest.mark.parametrize("step", [training, written_in_place, hooked, second_order, by_hand, lists, left_alone])
def test_memory_is_flat(step: Callable[[], None]) -> None:
    for _ in range(50):
        step()
    gc.collect()
    before = sys.getallocatedblocks()  # every object is at least one block, an array among them
    for _ in range(1000):
        step()
    assert gc.collect() == 0  # no cycles; it empties Python's lists of objects kept for reuse, as above
    assert sys.getallocatedblocks() - before < 500


def test_values_are_freed_while_backward_passes() -> None:
    """The most memory backward takes is that of some gradients, not of all values of the graph."""
    x = paddle.to_tensor(np.ones((256, 256), np.float32), stop_gradient=False)
    y = x
    for _ in range(40):
        y = y.tanh() * x
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    y.sum().backward()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most - held < 20 * x.numpy().nbytes
    assert y.source.arrays is None or not y.source.call.saves


def test_a_long_chain_goes_without_recursion() -> None:
    x = paddle.to_tensor([1.0], stop_gradient=False)
    y = x
    for _ in range(20_000):
        y = y + x
    y.backward()
    assert x.grad.item() == 20_001
    del y
