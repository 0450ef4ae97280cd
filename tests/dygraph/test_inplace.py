"""Writing in place: values, history, memory that is shared, and gradients that need what was overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from tests.autodiff.small import Built
from workbench import static
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.dygraph.tensor.inplace import IN_PLACE
from workbench.errors import InvalidType
from workbench.framework.op.recorder import recording
from workbench.nn import functional as F


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


def leaf(values: object) -> Any:
    return paddle.to_tensor(values, stop_gradient=False)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), ([[2.0, 3.0], [4.0, 5.0]],)),
    "clip": (0.8, 2.0),
    "pow": (3.0,),
    "scale": (2.0, 1.0),
    "reshape": ([4],),
    "transpose": ([1, 0],),
    "unsqueeze": (0,),
    "cast": ("float64",),
    "put_along_axis": ([[1], [0]], 5.0, 1),
}
PLAIN = """
    add subtract multiply divide clip pow scale exp sqrt rsqrt reciprocal abs sin cos tanh sigmoid log log2 log10 log1p
    neg square tril triu ceil floor round reshape flatten squeeze unsqueeze t transpose cast
"""


def arguments(name: str) -> list[Any]:
    return [paddle.to_tensor(a) if isinstance(a, list) and name not in ("reshape", "transpose") else a
            for a in ARGUMENTS.get(name, ())]  # fmt: skip


@pytest.mark.parametrize("name", PLAIN.split())
def test_the_form_in_place_does_what_the_method_does(name: str) -> None:
    """The same value and the same gradient; the tensor itself is returned."""
    x = leaf([[0.5, 1.5], [2.5, 3.5]])
    want = getattr(x * 1.0, name)(*arguments(name))
    (slope,) = paddle.grad(want.astype("float32") ** 2.0, x)
    y = x * 1.0
    returned = getattr(y, f"{name}_")(*arguments(name))
    assert returned is y and y.shape == want.shape and y.dtype == want.dtype
    np.testing.assert_array_equal(y.numpy(), want.numpy())
    np.testing.assert_array_equal(paddle.grad(y.astype("float32") ** 2.0, x)[0].numpy(), slope.numpy())


def test_every_form_in_place_is_a_method_and_leaves_wanting_leaves_alone() -> None:
    assert len(IN_PLACE) > 40
    for name in PLAIN.split():
        x = leaf([[0.5, 1.5], [2.5, 3.5]])
        with pytest.raises(ValueError, match=rf"{name}_ would overwrite a leaf(.|\n)*no_grad(.|\n)*line"):
            getattr(x, f"{name}_")(*arguments(name))
        assert x.tolist() == [[0.5, 1.5], [2.5, 3.5]]


@pytest.mark.parametrize(
    ("name", "given"),
    [("relu", ()), ("elu", (0.5,)), ("hardtanh", (-0.5, 0.4)), ("leaky_relu", (0.2,)), ("softmax", (0,)),
     ("tanh", ()), ("thresholded_relu", (0.3,))],
)  # fmt: skip
def test_activations_in_place_do_what_the_functions_do(name: str, given: tuple[Any, ...]) -> None:
    x = leaf([[-0.7, 0.2], [0.5, -1.5]])
    want = getattr(F, name)(x * 1.0, *given)
    (slope,) = paddle.grad(want**2.0, x)
    y = x * 1.0
    memory = y.array
    returned = getattr(F, f"{name}_")(y, *given)
    assert returned is y and y.array is memory
    np.testing.assert_array_equal(y.numpy(), want.numpy())
    np.testing.assert_array_equal(paddle.grad(y**2.0, x)[0].numpy(), slope.numpy())
    with pytest.raises(ValueError, match=f"{name}_ would overwrite a leaf"):
        getattr(F, f"{name}_")(x, *given)
    with paddle.no_grad():
        assert getattr(F, f"{name}_")(x, *given) is x
    np.testing.assert_array_equal(x.numpy(), want.numpy())


def test_leaves_are_written_to_while_nothing_is_recorded() -> None:
    x = leaf([1.0, 2.0])
    with paddle.no_grad():
        x.add_(paddle.to_tensor([1.0, 1.0]))
        x[0] = 7.0
    assert x.tolist() == [7.0, 3.0] and not x.stop_gradient and x.is_leaf
    x.set_value(np.float32([0.0, 1.0]))
    assert x.tolist() == [0.0, 1.0]


def test_numbers_written_over_all_elements() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    y.fill_(3.0)
    (y * y + x).sum().backward()
    assert y.tolist() == [3.0, 3.0] and x.grad.tolist() == [1.0, 1.0]
    assert paddle.to_tensor([1, 2]).zero_().tolist() == [0, 0]
    with pytest.raises(TypeError, match="a number"):
        y.fill_("a")
    for name, low, high in (("uniform_", -1, 1), ("exponential_", 0, np.inf), ("normal_", -np.inf, np.inf)):
        drawn = getattr(paddle.zeros([1000]), name)().numpy()
        assert len(np.unique(drawn)) > 900 and drawn.min() >= low and drawn.max() <= high


def test_a_result_of_another_shape_is_refused() -> None:
    x = paddle.to_tensor([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"expected: a result of shape \[3\](.|\n)*got: +\[2, 3\]"):
        x.add_(paddle.ones([2, 3]))
    assert x.tolist() == [1.0, 2.0, 3.0]


INDICES: list[Any] = [
    0, -1, slice(1, None), (slice(None), 1), (..., None), (1, 2), [0, 1], np.array([[0], [1]]), ([0, 1], [2, 0]),
    np.array([True, False]), np.arange(6).reshape(2, 3) > 2, (slice(None, None, 2), slice(None, None, -1)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_reading_and_writing_parts_is_numpys(index: Any) -> None:
    array = np.arange(6.0).reshape(2, 3)
    as_tensor = paddle.to_tensor(index) if isinstance(index, np.ndarray) else index
    for one in (index, as_tensor):
        x = paddle.to_tensor(array)
        np.testing.assert_array_equal(x[one].numpy(), array[index])
        value = np.random.default_rng(1).standard_normal(array[index].shape)
        want = array.copy()
        want[index] = value
        x[one] = paddle.to_tensor(value)
        np.testing.assert_array_equal(x.numpy(), want)
        start, part = leaf(array), leaf(value)
        y = start * 1.0
        y[one] = part
        np.testing.assert_array_equal(y.numpy(), want)
        weights = np.random.default_rng(2).standard_normal(array.shape)
        (y * paddle.to_tensor(weights)).sum().backward()
        np.testing.assert_array_equal(part.grad.numpy(), weights[index])
        weights[index] = 0
        np.testing.assert_array_equal(start.grad.numpy(), weights)


def test_numbers_and_broadcast_values_are_written() -> None:
    x = paddle.zeros([2, 3])
    x[0] = 1.5
    x[:, 1] = np.array([7.0, 8.0])
    x[1, 2] = True
    assert x.tolist() == [[1.5, 7.0, 1.5], [0.0, 8.0, 1.0]]
    start = leaf(np.zeros((2, 3), np.float32))
    number = leaf([2.0])
    y = start * 1
    y[0] = number
    y.sum().backward()
    assert number.grad.tolist() == [3.0] and start.grad.tolist() == [[0.0] * 3, [1.0] * 3]


@pytest.mark.parametrize(
    ("index", "value", "error", "words"),
    [
        (5, 1.0, IndexError, r"\[2, 3\]"),
        (0, np.ones(4), ValueError, "broadcast"),
        (0, "a", TypeError, "numbers"),
    ],
)
@pytest.mark.parametrize("wants", [True, False])
def test_what_cannot_be_written(index: Any, value: Any, error: Any, words: str, wants: bool) -> None:
    x = leaf(np.zeros((2, 3), np.float32)) * 1 if wants else paddle.zeros([2, 3])
    with pytest.raises(error, match=words):
        x[index] = value
    assert x.numpy().sum() == 0


def test_views_share_memory_and_others_do_not() -> None:
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    views = [x[0], x.reshape([4])[:2], x.transpose([1, 0])[:, 0], x.detach()[0], x.flatten()[:2], x[0:1].squeeze(0)]
    for view in views:
        before = view.tolist()
        view[0] = 9.0
        assert x[0, 0].item() == 9.0
        view[0] = before[0]
    for other in (x.clone(), x.astype("float32"), x + 0.0, x[[0, 1]], x * 1):
        other[0, 0] = 9.0
        assert x[0, 0].item() == 1.0


def test_a_value_that_was_overwritten_is_missed_where_a_gradient_needs_it() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    z = y * y
    y.add_(x)  # here
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    text = str(caught.value)
    assert "elementwise_mul" in text and "add_" in text
    lines = [line for line in text.splitlines() if "line" in line]
    here = test_a_value_that_was_overwritten_is_missed_where_a_gradient_needs_it.__code__.co_firstlineno
    assert [int(line.rsplit("line ", 1)[1]) - here for line in lines] == [3, 4]
    assert x.grad is None and y.inplace_version == 1 and x.inplace_version == 0


@pytest.mark.parametrize("write", ["view", "item", "set_value", "zero_"])
def test_writes_of_every_kind_are_noticed(write: str) -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    with paddle.no_grad():
        if write == "view":
            y[:1].fill_(3.0)
        elif write == "item":
            y[0] = 3.0
        elif write == "set_value":
            y.set_value(np.float32([3.0, 3.0]))
        else:
            y.zero_()
    with pytest.raises(RuntimeError, match="overwritten"):
        z.sum().backward()


def test_overwriting_what_no_gradient_needs_is_no_matter() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y + y  # needs shapes only
    y.add_(x)
    (z + y).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    e = (x * 1).exp()
    y.zero_()
    e.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 + np.exp([1.0, 2.0]), rtol=1e-6)


def test_functions_in_place_are_public() -> None:
    x = paddle.to_tensor([1.0])
    assert paddle.tanh_(x) is x and paddle.reshape_(x, [1, 1]) is x and x.shape == [1, 1]


def test_running_statistics_have_no_history() -> None:
    x = leaf(np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32))
    mean, variance = paddle.zeros([2]), paddle.ones([2])
    y = paddle.nn.functional.batch_norm(x, mean, variance, paddle.ones([2]), paddle.zeros([2]), training=True)
    assert not y.stop_gradient and mean.is_leaf and mean.stop_gradient and variance.stop_gradient
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-5)


def test_slices_end_where_a_tensor_of_one_integer_says() -> None:
    """Whatever its shape, in a write with and without history; NumPy does the same with ints."""
    first, last = paddle.to_tensor([1]), paddle.to_tensor([[3]])
    x = paddle.zeros([3, 4])
    x[first, 1:last] = 5.0
    wanted = np.zeros((3, 4))
    wanted[1, 1:3] = 5.0
    np.testing.assert_array_equal(x.numpy(), wanted)
    given = leaf(np.ones((3, 4), np.float32))
    y = given * 1.0
    y[first:last] = 0.0
    y.sum().backward()
    np.testing.assert_array_equal(given.grad.numpy(), [[1.0] * 4, [0.0] * 4, [0.0] * 4])
    with pytest.raises(InvalidType, match="tensors of one integer"):
        x[1 : paddle.to_tensor([1, 2])] = 2.0
    with pytest.raises(InvalidType, match="tensors of one integer"):
        x[1 : paddle.to_tensor([1.5])] = 2.0


@pytest.mark.parametrize("name", ["relu_", "tanh_", "reshape_", "softmax_", "normal_"])
def test_in_a_program_the_forms_in_place_make_new_variables(name: str) -> None:
    """As Paddle 2.6 does, with the words that say so; what only writes is refused."""
    written = {**IN_PLACE, **{n: getattr(F, n) for n in ("relu_", "softmax_")}}[name]
    with Built() as built:
        x = static.data("x", [2, 3])
        h = x * 2.0
        if name == "normal_":
            with pytest.raises(InvalidType, match="in a program, wb"):
                written(h)
            return
        given = {"reshape_": ([3, 2],)}.get(name, ())
        calls = [lambda: written(h, *given)]
        if name in IN_PLACE:  # it is a method as well
            calls.append(lambda: getattr(h, name)(*given))
        results = []
        for call in calls:
            with pytest.warns(UserWarning, match="the same as"):
                results.append(call())
        wanted = getattr(F, name[:-1], getattr(paddle, name[:-1], None))(h, *given)
    feed = np.array([[-1.0, 0.5, 2.0], [3.0, -0.25, 0.0]], np.float32)
    kept, *values, expected = static.Executor().run(
        built.main, feed={"x": feed}, fetch_list=[h, *results, wanted], scope=static.Scope()
    )
    np.testing.assert_array_equal(kept, feed * 2)
    for value in values:
        np.testing.assert_array_equal(value, expected)
