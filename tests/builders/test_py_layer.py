"""`static.nn.static_pylayer`: the user's gradients instead of those of the operators, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.framework.text.deserialize import program_from_json
from workbench.framework.text.serialize import program_to_json

static = wb.static
X = np.array([[1.0, 2.0], [-0.5, 0.25]])


def run(main: Any, fetch: list[Any], **feed: np.ndarray) -> list[np.ndarray]:
    return static.Executor().run(main, feed=feed, fetch_list=fetch, scope=static.Scope())


def data(name: str = "x") -> Any:
    x = static.data(name, [None, 2], "float64")
    x.stop_gradient = False
    return x


def test_the_gradient_is_what_backward_fn_builds() -> None:
    """A straight-through estimator: the derivative of `sign` is 0 nearly everywhere."""
    with program() as (main, _):
        x = data()
        y = static.nn.static_pylayer(lambda x: wb.sign(x * x - 1.0), [x * 2.0], lambda g: g * 3.0)
        (slope,) = static.gradients(wb.sum(y * y * y), x)
    value, gradient = run(main, [y, slope], x=X)
    expected = np.sign(4 * X * X - 1)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(gradient, 3 * expected**2 * 3 * 2)


def test_several_values_and_what_forward_fn_has_made() -> None:
    kept: list[Any] = []

    def forward(a: Any, b: Any, factor: float) -> Any:
        kept.append(wb.exp(a))
        return {"p": kept[0] * b, "s": [a + b * factor]}

    def backward(g_p: Any, g_s: Any) -> Any:
        return g_p * kept[0], g_s - 5.0

    with program() as (main, _):
        a, b = data("a"), data("b")
        out = static.nn.static_pylayer(forward, [a, b, 2.0], backward)
        slopes = static.gradients(wb.sum(out["p"] * 2.0) + wb.sum(out["s"][0]), [a, b])
        only = static.gradients(wb.sum(out["p"]), [b])
    p, s, g_a, g_b, alone = run(main, [out["p"], out["s"][0], *slopes, *only], a=X, b=X + 1)
    np.testing.assert_allclose(p, np.exp(X) * (X + 1))
    np.testing.assert_allclose(s, X + 2 * (X + 1))
    np.testing.assert_allclose(g_a, 2 * np.exp(X))
    np.testing.assert_array_equal(g_b, np.full_like(X, -4))
    np.testing.assert_array_equal(alone, np.full_like(X, -5))  # a value without a gradient counts as one of zeros


def test_gradients_of_gradients_follow_what_backward_fn_does() -> None:
    with program() as (main, _):
        x = data()
        y = static.nn.static_pylayer(lambda x: wb.exp(x), [x], lambda g: g * x * x)
        (first,) = static.gradients(wb.sum(y), x)
        (second,) = static.gradients(wb.sum(first), x)
    first_found, second_found = run(main, [first, second], x=X)
    np.testing.assert_allclose(first_found, X * X)
    np.testing.assert_allclose(second_found, 2 * X)


def test_none_is_no_gradient_and_nothing_reaches_others() -> None:
    with program() as (main, _):
        a, b, other = data("a"), data("b"), data("other")
        y = static.nn.static_pylayer(lambda a, b: a * b * other, [a, b], lambda g: (g, None))
        slopes = static.gradients(wb.sum(y), [a, b, other])
    assert slopes[1:] == [None, None]
    assert run(main, slopes[:1], a=X, b=X, other=X)[0].tolist() == np.ones_like(X).tolist()


def test_training_with_it_on_two_devices_and_from_json() -> None:
    losses = []
    for is_copied in (False, True):
        with program() as (main, startup):
            x = static.data("x", [None, 2], "float32")
            hidden = static.nn.fc(x, 3, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Constant(0.3)))
            bent = static.nn.static_pylayer(lambda h: wb.tanh(h), [hidden], lambda g: g * 0.5)
            loss = wb.mean(bent * bent)
            wb.optimizer.SGD(0.5).minimize(loss)
        if is_copied:
            main = program_from_json(program_to_json(main))
        scope, feed = static.Scope(), {"x": np.arange(8, dtype=np.float32).reshape(4, 2) / 8}
        with static.scope_guard(scope):
            static.Executor().run(startup)
            both = static.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=static.cpu_places(2))
            exe = static.Executor()
            losses.append([float(np.mean(exe.run(both, feed=feed, fetch_list=[loss.name])[0])) for _ in range(3)])
    weight, expected = np.full((2, 3), 0.3), []
    bias, x_values = np.zeros(3), np.arange(8).reshape(4, 2) / 8
    for _ in range(3):
        y = np.tanh(x_values @ weight + bias)
        expected.append((y * y).mean())
        g = 2 * y / y.size * 0.5
        weight, bias = weight - 0.5 * x_values.T @ g, bias - 0.5 * g.sum(0)
    np.testing.assert_allclose(losses, [expected, expected], rtol=1e-5)


def test_a_test_program_computes_the_same() -> None:
    with program() as (main, _):
        x = data()
        y = static.nn.static_pylayer(lambda x: x * x, [x], lambda g: g)
        static.gradients(wb.sum(y), x)
    assert run(main.clone(for_test=True), [y], x=X)[0].tolist() == (X * X).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, [], None), "forward_fn"),
        ((lambda: 1, [], 3), "backward_fn"),
        ((lambda x: x, "x", None), "a list as inputs"),
        ((lambda x: 3.0, ["x"], lambda g: g), "what forward_fn returns"),
        ((lambda x: x * 2.0, ["x"], lambda g: (g, g)), r"expected: 1\n  got:      2"),
        ((lambda x: x * 2.0, ["x"], lambda g: wb.sum(g)), "another shape or dtype"),
        ((lambda x: x * 2.0, ["x"], None), "stop_gradient=True"),
    ],
)
def test_what_it_refuses_leaves_the_program_as_it_was(arguments: Any, message: str) -> None:
    forward, inputs, backward = arguments
    with program() as (main, _):
        x = data()
        before = str(main)
        with pytest.raises((TypeError, ValueError), match=message):
            static.nn.static_pylayer(forward, [x] if inputs == ["x"] else inputs, backward)
        assert str(main) == before


def test_dynamic_mode_is_told_of_py_layer() -> None:
    with pytest.raises(RuntimeError, match="builds a static Program"):
        static.nn.static_pylayer(lambda x: x, [wb.ones([2])], lambda g: g)


def rows_of_one(g: Any) -> Any:
    return wb.mean(g, axis=0, keepdim=True)


@pytest.mark.parametrize("executor", ["compiled", "reference"])
@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_gradient_of_another_shape_is_refused_when_the_shapes_are_known(executor: str, is_parallel: bool) -> None:
    """It would be broadcast without a word."""
    with program() as (main, _):
        x = data()
        y = static.nn.static_pylayer(lambda x: x * 2.0, [x], rows_of_one)
        loss = wb.mean(y * y)
        (slope,) = static.gradients(loss, x)
        doubled = slope * 2.0
    assert [op.type for op in main.global_block().ops].count("pylayer_gradient") == 1
    with override(FLAGS_executor=executor):
        assert run(main, [doubled], x=X[:1])[0].shape == (1, 2)
        what: Any = main
        if is_parallel:
            what = static.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=static.cpu_places(2))
        message = r"rows_of_one of static_pylayer .* 'x'\n +expected: \[2, 2\]\n +got: +\[1, 2\](.|\n)*py_layer.py"
        with pytest.raises(InvalidArgument, match=message):
            run(what, [doubled], x=np.concatenate([X] * (1 + is_parallel)))
