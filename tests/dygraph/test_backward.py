"""Tensors with a history: what `backward` leaves in the leaves, and what it refuses."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from tests.stress.tripwire import Tripwire
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.dygraph.tape.arrivals import await_gradients
from workbench.framework.notice import Notice
from workbench.framework.op.recorder import recording


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


def leaf(values: object) -> paddle.Tensor:
    return paddle.to_tensor(values, stop_gradient=False)


def test_gradients_of_shared_values_are_added() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    (y * y + y * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.numpy() ** 3 + 3 * x.numpy() ** 2)
    assert x.grad.shape == [2] and not x.grad.stop_gradient


def test_a_second_backward_adds_to_the_gradient() -> None:
    x = leaf([3.0])
    (x * 2).backward()
    (x * 5).backward()
    assert x.grad.tolist() == [7.0] and x.gradient().tolist() == [7.0]
    x.clear_grad()
    assert x.grad.tolist() == [0.0]
    x.clear_gradient(set_to_zero=False)
    assert x.grad is None and x.gradient() is None


def test_gradients_of_two_leaves_share_no_memory() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    seed = paddle.to_tensor([5.0])
    (x + y).backward(seed)
    x.clear_grad()
    assert y.grad.tolist() == [5.0] and seed.tolist() == [5.0]


def test_the_gradient_to_begin_with_fits() -> None:
    x = leaf([1.0, 2.0])
    (x * 2).backward(paddle.to_tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]
    with pytest.raises(ValueError, match=r"expected: float32\[2\](.|\n)*got: +float32\[1\]"):
        (x * 2).backward(paddle.to_tensor([1.0]))
    with pytest.raises(TypeError, match="a Tensor or None"):
        (x * 2).backward(np.ones(2))


def test_a_graph_goes_only_once_unless_it_is_retained() -> None:
    x = leaf([2.0])
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0]
    with pytest.raises(RuntimeError, match=r"second time(.|\n)*'elementwise_mul'(.|\n)*retain_graph=True(.|\n)*line"):
        y.backward()
    assert x.grad.tolist() == [8.0]


def test_what_needs_no_gradient_records_nothing() -> None:
    x, y = paddle.to_tensor([1.0]), leaf([1.0])
    assert (x * 2).stop_gradient and (x * 2).is_leaf
    assert not (x * y).stop_gradient and not (x * y).is_leaf and y.is_leaf
    assert (y > 0).stop_gradient and y.astype("int64").stop_gradient
    assert y.detach().stop_gradient and not y.clone().stop_gradient
    with pytest.warns(Notice, match="stop_gradient=True does nothing"):
        (x * 2).backward()
    assert x.grad is None


def test_grad_of_integers_is_none_after_a_notice() -> None:
    """As int64 a gradient of 0.5 would be 0."""
    w, n, quiet = leaf([1.0, 2.0]), leaf([1, 2]), paddle.to_tensor([1, 2])
    n.name = "counts"
    (w * n * quiet * 0.5).sum().backward()
    assert w.grad.tolist() == [0.5, 2.0]
    with pytest.warns(Notice, match="grad of 'counts' is None, for it holds int64"):
        assert n.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quiet.grad is None and leaf([1.0]).grad is None
    with pytest.raises(paddle.errors.InvalidArgument, match=r"no output depends on input 0 \('counts'\)"):
        paddle.grad((w * n).sum(), n)


def test_stop_gradient_cuts_the_graph() -> None:
    x = leaf([3.0])
    y = x * 2
    y.stop_gradient = True
    (x * y).backward()
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("switch", [paddle.no_grad, lambda: paddle.set_grad_enabled(False)])
def test_without_recording(switch: object) -> None:
    x = leaf([1.0])
    with switch():  # type: ignore[operator]
        assert (x * 2).stop_gradient and not paddle.is_grad_enabled()
        with paddle.enable_grad():
            assert not (x * 2).stop_gradient
        with pytest.raises(ZeroDivisionError), paddle.enable_grad():
            raise ZeroDivisionError
        assert not paddle.is_grad_enabled()
    assert paddle.is_grad_enabled() and not (x * 2).stop_gradient


def test_recording_is_switched_for_functions_and_generators() -> None:
    x = leaf([1.0])

    @paddle.no_grad()
    def double() -> paddle.Tensor:
        return x * 2

    @paddle.no_grad()
    def doubles() -> Iterator[paddle.Tensor]:
        yield x * 2

    assert double().stop_gradient and next(doubles()).stop_gradient and not (x * 2).stop_gradient


def test_recording_stays_switched_off_until_it_is_switched_on() -> None:
    x = leaf([1.0])
    paddle.set_grad_enabled(False)
    try:
        assert (x * 2).stop_gradient
    finally:
        paddle.set_grad_enabled(True)
    assert not (x * 2).stop_gradient


def test_a_failing_gradient_leaves_all_gradients_as_they_were() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    (x * y).backward()

    def fail(gradient: object) -> None:
        raise ZeroDivisionError

    z = x * 3
    z.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        (y * 2 + z).backward()
    assert x.grad.tolist() == [2.0] and y.grad.tolist() == [1.0]


def test_a_leaf_is_copied_deeply() -> None:
    x = leaf([1.0])
    y = copy.deepcopy(x)
    assert y is not x and y.tolist() == [1.0] and not y.stop_gradient and y.name != x.name
    x.detach().set_value(np.float32([5.0]))
    assert (x.tolist(), y.tolist()) == ([5.0], [1.0])
    with pytest.raises(RuntimeError, match="clone"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 2.5], "[1.        , 2.50000000]"),
        ([1, -22], "[ 1 , -22]"),
        ([True, False], "[True , False]"),
        (3.0, "3."),
        ([[1.0, float("nan")]], "[[1. , nan]]"),
    ],
)
def test_text(values: object, text: str) -> None:
    x = paddle.to_tensor(values)
    head = f"Tensor(shape={x.shape}, dtype={x.dtype}, place=Place(cpu), stop_gradient=True,\n       "
    assert str(x) == f"{head}{text})"


def test_text_of_many_numbers() -> None:
    text = str(paddle.arange(1200).reshape([3, 400]))
    assert text.endswith("[[0   , 1   , 2   , ..., 397 , 398 , 399 ],\n"
                         "        [400 , 401 , 402 , ..., 797 , 798 , 799 ],\n"
                         "        [800 , 801 , 802 , ..., 1197, 1198, 1199]])")  # fmt: skip


def test_numbers_in_python() -> None:
    x = paddle.to_tensor([[1.5]])
    assert (float(x), int(x), bool(x), f"{x:.2f}", x.item(), x.size, x.ndim) == (1.5, 1, True, "1.50", 1.5, 1, 2)
    assert [10, 20][paddle.to_tensor(1)] == 20
    with pytest.raises(TypeError, match="truth value"):
        bool(paddle.to_tensor([1, 2]))
    with pytest.raises(ValueError, match="index of an element"):
        paddle.to_tensor([1, 2]).item()
    with pytest.raises(TypeError, match="integer"):
        [1][paddle.to_tensor(0.0)]


def test_parameters() -> None:
    w = paddle.create_parameter([2, 3], "float32", name="w")
    assert (w.name, w.shape, w.trainable, w.is_leaf, w.persistable) == ("w", [2, 3], True, True, True)
    assert repr(w).startswith("Parameter containing:\nTensor(shape=[2, 3]")
    w.trainable = False
    assert w.stop_gradient
    b = paddle.create_parameter([3], "float32", is_bias=True)
    assert b.name.endswith(".b_0") and b.tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="must be known"):
        paddle.create_parameter([-1, 2], "float32")


def test_sizes_and_axes_may_be_tensors() -> None:
    """Their values are known; those of a program's variables are not."""
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    two = paddle.to_tensor([2, 1])
    assert x.reshape(paddle.to_tensor([4])).shape == [4] and x.tile(two).shape == [4, 2]
    assert paddle.zeros(two).shape == [2, 1] and paddle.concat([x, x], axis=paddle.to_tensor(1)).shape == [2, 4]
    assert paddle.scale(x, paddle.to_tensor([2.0])).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    placed = paddle.put_along_axis(x, paddle.to_tensor([[0, 1], [1, 0]]), 9.0, 1)
    placed.sum().backward()
    assert placed.tolist() == [[9.0, 9.0], [9.0, 9.0]] and x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_gradient_is_set_like_one() -> None:
    x = leaf([1.0, 2.0])
    x.grad = paddle.to_tensor([3.0, 4.0])
    assert not x.grad.stop_gradient
    (x * 2).backward()
    assert x.grad.tolist() == [5.0, 6.0]
    with pytest.raises(TypeError, match=r"shape \[2\]"):
        x.grad = paddle.to_tensor([1.0])
    x.grad = None
    assert x.grad is None


def test_hooks_record_nothing() -> None:
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: seen.append((g.stop_gradient, (g * 2).is_leaf)))
    (x * 2).backward()
    assert seen == [(False, True)]


def test_a_hook_that_writes_to_a_gradient_changes_no_other() -> None:
    """Rules hand one array to several inputs, and the one to begin with is the caller's."""
    a, b = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    kept: list[Any] = []
    a.register_hook(lambda g: g.multiply_(paddle.to_tensor([10.0, 10.0])))
    total = a + b
    total.register_hook(lambda g: kept.append(g))
    first = paddle.ones([2])
    total.backward(first)
    assert (a.grad.tolist(), b.grad.tolist(), first.tolist()) == ([10.0, 10.0], [1.0, 1.0], [1.0, 1.0])
    a.clear_gradient(), b.clear_gradient()
    assert kept[0].tolist() == [1.0, 1.0]
    silent = leaf([3.0])
    silent.register_hook(lambda g: g.zero_() and None)
    (silent * 2.0).backward()
    assert silent.grad.tolist() == [0.0]


def test_hooks_stay_though_nobody_keeps_their_handles() -> None:
    x = paddle.to_tensor([1.0], stop_gradient=False)
    for _ in range(4):
        x.register_hook(lambda g: g * 10)
    x.backward()
    assert x.grad.tolist() == [10000.0]


def test_a_deep_copy_has_neither_gradient_nor_hooks() -> None:
    w = paddle.create_parameter([2], "float32")
    seen: list[Any] = []
    w.register_hook(seen.append)
    w.sum().backward()
    copied = copy.deepcopy(w)
    assert copied.grad is None and w.grad is not None
    copied.optimize_attr["learning_rate"] = 0.5
    copied.sum().backward()
    assert len(seen) == 1 and w.optimize_attr == {"learning_rate": 1.0}


def test_ctrl_c_leaves_the_gradients_of_all_leaves_or_of_none() -> None:
    files = ["tape/leaves.py", "tensor/tensor.py"]
    leaves = [leaf([1.0, 2.0]) for _ in range(3)]
    for n in range(2000):
        for one in leaves:
            one.grad = None
        loss = (leaves[0] * leaves[1] * leaves[2]).sum()
        try:
            with Tripwire(n, files):
                loss.backward()
        except KeyboardInterrupt:
            assert len({one.grad is None for one in leaves}) == 1, n
        else:
            return
    raise AssertionError("a walk has more moments than that")


class Waiting:
    """Takes the gradient of one leaf, and keeps what it is told."""

    def __init__(self, leaf: Any) -> None:
        self.leaves, self.told = {id(leaf): leaf}, list[str]()

    def begin(self, reached: Any) -> None:
        self.told.append(f"begin {len(reached)}")

    def take(self, leaf: Any, total: Any) -> None:
        self.told.append("take")

    def go_on(self) -> None:
        pass

    def finish(self) -> Any:
        return {}

    def give_up(self, error: BaseException) -> None:
        self.told.append(f"give up: {error}")


def test_who_waits_for_gradients_is_told_that_the_walk_has_failed() -> None:
    class Broken(paddle.autograd.PyLayer):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise KeyError("lost")

    w = paddle.to_tensor([1.0], stop_gradient=False)
    waiting = Waiting(w)
    await_gradients(waiting)
    with pytest.raises(KeyError, match="lost"):
        Broken.apply(w * 3).backward()
    assert waiting.told == ["begin 1", "give up: 'lost'"]
    await_gradients(waiting)
    (w * 3).backward()  # the next walk reaches it as if nothing had been
    assert waiting.told[2:] == ["begin 1", "take"]
