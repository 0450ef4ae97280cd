"""Recorded writes through views: gradients are those of the values there are, or there is an error, never others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.errors import PreconditionNotMet
from workbench.framework.op.recorder import recording


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


VIEWS: dict[str, Callable[[Any], Any]] = {
    "int": lambda y: y[0],
    "slice": lambda y: y[:, 1:],
    "reshape": lambda y: y.reshape([4]),
    "flatten": lambda y: y.flatten(),
    "transpose": lambda y: y.transpose([1, 0]),
    "unsqueeze": lambda y: y.unsqueeze(0),
    "view": lambda y: y.view([4]),
    "of a view": lambda y: y.reshape([4])[1:].unsqueeze(0),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "multiply_": lambda v: v.multiply_(paddle.to_tensor(3.0)),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(2.0),
    "x[...] =": lambda v: v.__setitem__(0, 5.0),
    "assign": lambda v: paddle.assign(v * 2.0, output=v),
}


def leaf() -> Any:
    return paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_value_written_to_through_a_view_has_no_wrong_gradient(view: str, write: str) -> None:
    x = leaf()
    y = x * 2.0
    before = y.sum()
    v = VIEWS[view](y)
    WRITES[write](v)
    late = (y * y).sum()
    with pytest.raises(
        PreconditionNotMet, match=r"'elementwise_mul' was applied(.|\n)*line(.|\n)*written to at .*line"
    ):
        late.backward()
    assert x.grad is None
    before.backward()  # of the value it was computed from, which was another then
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("view", VIEWS)
def test_the_view_itself_has_the_gradient_of_what_was_written(view: str) -> None:
    x, z = leaf(), leaf()
    v = VIEWS[view](x * 2.0)
    v.multiply_(paddle.to_tensor(3.0))
    (v * v).sum().backward()
    w = VIEWS[view](z * 6.0)
    (w * w).sum().backward()
    assert x.grad.tolist() == z.grad.tolist()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_made_before_the_value_was_written_to(view: str) -> None:
    x = leaf()
    y = x * 2.0
    v = VIEWS[view](y)
    y.multiply_(paddle.to_tensor(3.0))
    late = v.sum()
    (y * y).sum().backward()
    assert x.grad.tolist() == (2 * 6.0 * y.numpy()).tolist()
    with pytest.raises(PreconditionNotMet, match="multiply_ had written to"):
        late.backward()


def test_parts_that_have_nothing_in_common_are_written_to_apart() -> None:
    """As gates of a recurrent cell are: columns lie between each other."""
    gates, same = leaf(), leaf()
    both = gates * 1.0
    first, second = both[:, 0:1], both[:, 1:2]
    first.sigmoid_()
    second.tanh_()
    (first * second).sum().backward()
    (paddle.nn.functional.sigmoid(same[:, 0:1]) * paddle.tanh(same[:, 1:2])).sum().backward()
    np.testing.assert_allclose(gates.grad.numpy(), same.grad.numpy(), rtol=1e-6)


def test_parts_that_overlap() -> None:
    y = leaf() * 1.0
    first, second = y[:, 0], y[0]
    first.exp_()
    with pytest.raises(PreconditionNotMet, match="exp_"):
        second.sum().backward()


def test_a_copy_is_no_view() -> None:
    x = leaf()
    y = x * 2.0
    v = y.transpose([1, 0]).reshape([4])  # no strides show that
    v.multiply_(paddle.to_tensor(3.0))
    (y.sum() + v.sum()).backward()
    assert x.grad.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_history_is_followed_by_higher_derivatives_and_grad() -> None:
    x = leaf()
    y = x * x
    y.reshape([4]).multiply_(paddle.to_tensor(3.0))
    with pytest.raises(PreconditionNotMet, match="multiply_"):
        paddle.grad(y.sum(), x, create_graph=True)


def test_part_of_a_leaf_that_wants_a_gradient() -> None:
    x = leaf()
    for view in VIEWS.values():
        with pytest.raises(ValueError, match=r"zero_ would overwrite part of a leaf(.|\n)*no_grad(.|\n)*line"):
            view(x).zero_()
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with paddle.no_grad():
        x[0].zero_()
    assert x.tolist() == [[0.0, 0.0], [3.0, 4.0]]


def test_a_history_is_not_given_to_part_of_a_value_that_has_none() -> None:
    buffer, x = paddle.zeros([2, 2]), leaf()
    with pytest.raises(ValueError, match=r"add_ would write what has a gradient to memory(.|\n)*clone(.|\n)*line"):
        buffer[0].add_(x[0])
    view = buffer.reshape([4])
    with pytest.raises(ValueError, match="another tensor"):
        buffer.add_(x)
    assert view.tolist() == [0.0] * 4
    del view
    buffer.add_(x)
    (buffer * buffer).sum().backward()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    alone = paddle.zeros([4]).reshape([2, 2])  # nobody sees what it is a view of
    assert alone.add_(x).tolist() == x.tolist()


def test_what_is_detached_is_written_to_without_a_trace() -> None:
    x = leaf()
    y = x * 2.0
    y.detach().zero_()
    with paddle.no_grad():
        y.reshape([4]).add_(paddle.ones([4]))
    (y * y).sum().backward()
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_storage_of_a_tensor_prints_and_sets_its_value() -> None:
    x = paddle.to_tensor([[1.0, 0.1], [1e-9, 123456789.0]])
    storage = x.get_tensor()
    assert str(storage).splitlines() == [
        "  - shape: [2, 2]", "  - layout: NCHW", "  - place: Place(cpu)", "  - dtype: float32",
        "  - data: [1 0.1 1e-09 1.23457e+08]",
    ]  # fmt: skip
    assert str(paddle.to_tensor([True, False]).get_tensor()).endswith("data: [1 0]")
    version = x.inplace_version
    storage.set(np.zeros([2, 2], np.float32), paddle.CPUPlace())
    assert x.tolist() == np.array(storage).tolist() == [[0.0, 0.0], [0.0, 0.0]] and x.inplace_version == version + 1
