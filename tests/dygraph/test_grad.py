"""`grad`, `autograd.backward`, `jacobian`, `hessian` and the hooks on what is saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.framework.op.recorder import recording


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


def leaf(values: object) -> Any:
    return paddle.to_tensor(values, stop_gradient=False)


def test_grad_changes_no_leaf() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (gradient,) = paddle.grad(x * w * x, x)
    assert gradient.tolist() == [6.0, 16.0] and gradient.stop_gradient
    assert x.grad is None and w.grad is None


def test_grad_by_what_an_op_made() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y * y + y
    by_y, by_x, by_z = paddle.grad(z, [y, x, z], grad_outputs=paddle.to_tensor([1.0, 10.0]))
    assert by_y.tolist() == [5.0, 90.0] and by_x.tolist() == [10.0, 180.0] and by_z.tolist() == [1.0, 10.0]


def test_grad_of_several_outputs() -> None:
    x = leaf([1.0, 2.0])
    (gradient,) = paddle.grad([x * 2, x * x], [x], grad_outputs=[None, paddle.to_tensor([1.0, 3.0])])
    assert gradient.tolist() == [4.0, 14.0]
    (both,) = paddle.grad([x, x * 3], x)
    assert both.tolist() == [4.0, 4.0]


def test_unused_inputs() -> None:
    x, other = leaf([1.0]), leaf([1.0])
    other.name = "other"
    with pytest.raises(ValueError, match=r"input 1 \('other'\)(.|\n)*allow_unused=True"):
        paddle.grad(x * 2, [x, other])
    assert paddle.grad(x * 2, [x, other], allow_unused=True)[1] is None
    assert paddle.grad(x.detach() * 2, x, allow_unused=True) == [None]


def test_no_grad_vars_stop_the_flow() -> None:
    x = leaf([3.0])
    y = x * x
    assert paddle.grad(y * x, x, no_grad_vars=[y])[0].tolist() == [9.0]
    w = leaf([2.0])
    assert paddle.grad(x * w, [x, w], no_grad_vars=w, allow_unused=True)[1] is None


def test_higher_derivatives() -> None:
    x = leaf([0.5, -1.5])
    value, expected = (x**4.0).sum(), x.numpy().astype(np.float64)
    for factor, power in ((4, 3), (12, 2), (24, 1), (24, 0)):
        (slope,) = paddle.grad(value, x, create_graph=True)
        np.testing.assert_allclose(slope.numpy(), factor * expected**power, rtol=1e-5)
        value = slope.sum()


def test_gradients_of_gradients_reach_leaves_and_first_gradients() -> None:
    x, first = leaf([2.0]), leaf([3.0])
    (slope,) = paddle.grad(x * x * x, x, grad_outputs=first, create_graph=True)
    slope.backward()
    assert x.grad.tolist() == [36.0] and first.grad.tolist() == [12.0]


def test_create_graph_keeps_what_backward_needs() -> None:
    x = leaf([2.0])
    y = x * x
    paddle.grad(y, x, create_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        paddle.grad(y, x)


def test_hooks_change_what_grad_gives() -> None:
    x = leaf([1.0])
    y = x * 2
    handles = [x.register_hook(lambda g: g * 10), y.register_hook(lambda g: g + 1)]
    assert paddle.grad(y * 3, x)[0].tolist() == [80.0]
    assert [h.remove() for h in handles] == [True, True] and handles[0].remove() is False
    assert paddle.grad((x * 2) * 3, x)[0].tolist() == [6.0]


def test_a_hook_sees_the_whole_gradient_once() -> None:
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 3 + y * 4 + x).backward()
    assert seen == [[7.0], [15.0]] and x.grad.tolist() == [15.0]


def test_wrong_hooks() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match="function"):
        x.register_hook(3)
    with pytest.raises(RuntimeError, match="stop_gradient=True"):
        x.detach().register_hook(print)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ValueError, match=r"expected: shape \[2\](.|\n)*got: +shape \[\]"):
        (x * 2).backward()
    assert x.grad is None


def test_what_an_op_made_retains_its_gradient_if_asked() -> None:
    x = leaf([1.0])
    y = x * 2
    z = y * 3
    y.retain_grads()
    z.backward()
    assert y.grad.tolist() == [3.0] and z.grad is None and x.grad.tolist() == [6.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: paddle.grad(3, x), "outputs must be a Tensor"),
        (lambda x: paddle.grad([], x), "outputs must name"),
        (lambda x: paddle.grad(x * 2, [x, 1.0]), "inputs must be"),
        (lambda x: paddle.grad(x * 2, x, grad_outputs=[None, None]), "2 entries for 1"),
        (lambda x: paddle.autograd.backward([x, x]), "every tensor once"),
        (lambda x: paddle.autograd.backward([x * 2], [1.0]), "Tensors or None"),
    ],
)
def test_what_grad_refuses(call: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        call(leaf([1.0]))


def test_backward_of_several_tensors() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    paddle.autograd.backward([y, y * 3], [paddle.to_tensor([1.0, 0.0]), None])
    assert x.grad.tolist() == [8.0, 12.0]


def test_jacobian() -> None:
    x, y = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0])
    matrix = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]], np.float32)
    out = paddle.matmul(paddle.to_tensor(matrix), x) * y
    by_x, by_y = paddle.autograd.jacobian(out, (x, y))
    np.testing.assert_allclose(by_x[:].numpy(), matrix * np.array([[4.0], [5.0]]))
    np.testing.assert_allclose(by_y[:].numpy(), np.diag(matrix @ x.numpy()))
    assert by_x.shape == [2, 3] and by_x[1].tolist() == [0.0, 5.0, -5.0] and by_x[-1, 2].item() == -5.0
    np.testing.assert_allclose(by_x[:, 1:].numpy(), (matrix * np.array([[4.0], [5.0]]))[:, 1:])
    assert by_x.numpy().shape == (2, 3) and (by_x * 2.0).shape == [2, 3]


def test_jacobian_of_numbers_and_batches() -> None:
    x = leaf([1.0, 2.0])
    assert paddle.autograd.jacobian((x * x).sum(), x).shape == [2]
    assert paddle.autograd.jacobian((x * x).sum(), x)[:].tolist() == [2.0, 4.0]
    rows = leaf(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    jacobian = paddle.autograd.jacobian(rows * rows, rows, batch_axis=0)
    want = np.stack([np.diag(2 * row) for row in rows.numpy()])
    assert jacobian.shape == [2, 3, 3]
    np.testing.assert_allclose(jacobian[:].numpy(), want)
    np.testing.assert_allclose(jacobian[:, 1].numpy(), want[:, 1])
    np.testing.assert_allclose(jacobian[0].numpy(), want[0])
    for call in (lambda: paddle.autograd.jacobian(rows, rows), lambda: paddle.autograd.jacobian(x, x, batch_axis=1)):
        with pytest.raises(ValueError):
            call()


def test_hessian() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0])
    value = (x * x * x).sum() * y.sum()
    (xx, xy), (yx, yy) = paddle.autograd.hessian(value, (x, y))
    np.testing.assert_allclose(xx[:].numpy(), np.diag([18.0, 36.0]))
    np.testing.assert_allclose(xy[:].numpy(), [[3.0], [12.0]])
    np.testing.assert_allclose(yx[:].numpy(), [[3.0, 12.0]])
    assert yy[:].tolist() == [[0.0]]
    with pytest.raises(ValueError, match="one number"):
        paddle.autograd.hessian(x * x, x)


def test_what_is_saved_goes_through_hooks() -> None:
    x, y = leaf([2.0]), leaf([5.0])
    packed: list[Any] = []

    def pack(t: Any) -> int:
        packed.append(t.numpy())
        return len(packed) - 1

    with paddle.autograd.saved_tensors_hooks(pack, lambda number: paddle.to_tensor(packed[number] * 10)):
        z = x * y
    assert [p.tolist() for p in packed] == [[2.0], [5.0]]
    z.backward(retain_graph=True)
    assert (x.grad.tolist(), y.grad.tolist()) == ([50.0], [20.0])
    z.backward()
    (x * y).backward()
    assert x.grad.tolist() == [105.0] and len(packed) == 2


@pytest.mark.parametrize("width", [2, 200], ids=["in Python", "large enough for a kernel"])
def test_a_sparse_gradient_holds_the_rows_that_were_read(width: int) -> None:
    table = leaf(np.ones((5, width), np.float32))
    ids = paddle.to_tensor([[1, 3], [1, 0]])
    paddle.nn.functional.embedding(ids, table, sparse=True).sum().backward()
    values, rows = table.gradient()
    assert rows.tolist() == [1, 3, 1, 0] and values.shape == (4, width)
    assert table.grad.is_selected_rows() and table.grad.shape == [5, width]
    assert table.grad.numpy().tolist() == [[each] * width for each in (1, 2, 0, 1, 0)]
    (table * 2).sum().backward()
    assert table.grad.is_dense() and table.grad.numpy()[1].tolist() == [4.0] * width
    table.clear_grad()
    paddle.nn.functional.embedding(ids, table * 3, sparse=True).sum().backward()
    assert table.grad.numpy()[1].tolist() == [6.0] * width


def test_parts_of_a_list_that_nobody_used_have_no_gradient() -> None:
    x = paddle.to_tensor(np.arange(6.0, dtype=np.float32), stop_gradient=False)
    first, _, third = paddle.split(x, 3)
    (slope,) = paddle.grad((first * first).sum() + third.sum(), x, create_graph=True)
    assert slope.numpy().tolist() == [0.0, 2.0, 0.0, 0.0, 1.0, 1.0]
    (curve,) = paddle.grad(slope.sum(), x)
    assert curve.numpy().tolist() == [2.0, 2.0, 0.0, 0.0, 0.0, 0.0]
