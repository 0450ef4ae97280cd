"""Ops written by users in Python."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import workbench as paddle
from workbench.autograd import PyLayer
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.framework.op.recorder import recording


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


def leaf(values: object) -> Any:
    return paddle.to_tensor(values, stop_gradient=False)


class Tanh(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any, function: Any = paddle.tanh) -> Any:
        y = function(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensor()
        return g * (1 - y * y)


class Both(PyLayer):
    """Product and sum; a number in between is no tensor."""

    seen: list[Any] = []

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, y: Any, *, shift: float = 0.0) -> Any:
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor, x + y + shift

    @staticmethod
    def backward(ctx: Any, product: Any, total: Any) -> Any:
        Both.seen = [product, total]
        x, y = ctx.saved_tensor()
        return product * y * ctx.factor + total, product * x * ctx.factor + total


def test_a_gradient_by_hand() -> None:
    x = leaf([0.5, -1.0])
    Tanh.apply(x).sum().backward()
    (want,) = paddle.grad(x.tanh(), x)
    assert x.grad.tolist() == pytest.approx(want.tolist())


def test_several_inputs_and_outputs() -> None:
    x, y = leaf([2.0]), leaf([5.0])
    product, total = Both.apply(x, 3.0, y, shift=1.0)
    assert (product.tolist(), total.tolist()) == ([30.0], [8.0])
    product.backward(retain_graph=True)
    assert (x.grad.tolist(), y.grad.tolist()) == ([15.0], [6.0])
    assert [g.tolist() for g in Both.seen] == [[1.0], [0.0]]
    (product + total * 10).backward()
    assert x.grad.tolist() == [15.0 + 15.0 + 10.0]


def test_without_materialized_gradients_there_is_none() -> None:
    class Pair(Both):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 1, y * 1

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            assert b is None
            return a, None

    x, y = leaf([1.0]), leaf([1.0])
    Pair.apply(x, y)[0].backward()
    assert x.grad.tolist() == [1.0] and y.grad is None


def test_a_pylayer_within_a_pylayer() -> None:
    class Outer(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return Tanh.apply(x) * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensor()
            inner = x.detach()
            inner.stop_gradient = False
            with paddle.enable_grad():
                y = Tanh.apply(inner) * 2
            return paddle.grad(y, inner, g)[0]

    x = leaf([0.3])
    Outer.apply(x).backward()
    assert x.grad.item() == pytest.approx(2 * (1 - paddle.tanh(x).item() ** 2))


def test_gradients_of_gradients_by_hand() -> None:
    x = leaf([0.5])
    (slope,) = paddle.grad(Tanh.apply(x), x, create_graph=True)
    (curvature,) = paddle.grad(slope, x)
    y = paddle.tanh(x).item()
    assert curvature.item() == pytest.approx(-2 * y * (1 - y * y), rel=1e-5)


def test_nothing_is_recorded_where_nothing_is_wanted() -> None:
    assert Tanh.apply(paddle.to_tensor([1.0])).stop_gradient
    with paddle.no_grad():
        assert Tanh.apply(leaf([1.0])).stop_gradient


def test_outputs_marked_not_differentiable() -> None:
    class Marked(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            index = x * 0
            ctx.mark_non_differentiable(index)
            return x * 2, index, x > 0, None

        @staticmethod
        def backward(ctx: Any, g: Any, *rest: Any) -> Any:
            return g * 2

    x = leaf([1.0])
    y, index, positive, nothing = Marked.apply(x)
    assert not y.stop_gradient and index.stop_gradient and positive.stop_gradient and nothing is None
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_an_input_given_back_is_a_tensor_of_its_own() -> None:
    class Triple(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_not_inplace(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = leaf([1.0])
    y = Triple.apply(x)
    assert y is not x and x.is_leaf
    y.backward()
    assert x.grad.tolist() == [3.0]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (lambda g: (g,), ValueError, r"Wrong\.backward(.|\n)*expected: 2(.|\n)*got: +1"),
        (lambda g: (g, 1.0), TypeError, r"Wrong\.backward gives Tensors or None, got float at position 1"),
        (lambda g: (g, g.sum()), ValueError, r"Wrong\.backward: gradient 1(.|\n)*expected: \[2\](.|\n)*got: +\[\]"),
    ],
)
def test_wrong_gradients_name_the_class(given: Any, error: Any, words: str) -> None:
    class Wrong(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return given(g)

    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with pytest.raises(error, match=words):
        Wrong.apply(x, y).sum().backward()
    assert x.grad is None and y.grad is None


def test_forward_gives_tensors() -> None:
    class Number(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 3

    with pytest.raises(TypeError, match=r"Number\.forward returns"):
        Number.apply(leaf([1.0]))


def test_errors_of_users_are_theirs() -> None:
    class Failing(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("mine")

    x = leaf([1.0])
    with pytest.raises(KeyError, match="mine"):
        Failing.apply(x).backward()
    assert x.grad is None


def test_saved_values_are_guarded_and_freed() -> None:
    x = leaf([1.0])
    y = Tanh.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match=r"'Tanh'(.|\n)*retain_graph=True"):
        y.backward()
    y = Tanh.apply(x)
    with paddle.no_grad():
        y.add_(y)
    with pytest.raises(RuntimeError, match=r"'Tanh'(.|\n)*overwritten"):
        y.backward()


def test_no_cycle_keeps_a_layers_output_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        y = Tanh.apply(x)
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()
