"""cond and while_loop: values and gradients against plain Python, nested, zero trips, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.names import guard
from workbench.framework.program.guard import static_mode

static = wb.static


class built:
    """A fresh pair of programs in static mode."""

    def __enter__(self) -> Any:
        self.main, self.startup = static.Program(), static.Program()
        self.contexts = [static_mode(), guard(), static.program_guard(self.main, self.startup)]
        for context in self.contexts:
            context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)

    def run(self, feed: dict[str, Any], fetch: list[Any]) -> list[np.ndarray]:
        return static.Executor().run(self.main, feed=feed, fetch_list=fetch, scope=static.Scope())


def number(value: float) -> np.ndarray:
    return np.array([value], np.float64)


@pytest.mark.parametrize("x", [-2.0, 3.0])
def test_cond_value_and_gradient(x: float) -> None:
    with built() as p:
        v, w = static.data("v", [1], "float64"), static.data("w", [1], "float64")
        out = static.nn.cond(v > 0, lambda: v * v * w, lambda: -3.0 * v)
        grads = static.gradients(out, [v, w])
    value, gv, gw = p.run({"v": number(x), "w": number(5)}, [out, *grads])
    expected = (x * x * 5, 10 * x, x * x) if x > 0 else (-3 * x, -3, 0)
    assert (value.item(), gv.item(), gw.item()) == expected


def test_cond_returns_structures_and_outer_values() -> None:
    with built() as p:
        v = static.data("v", [1], "float64")
        w = v * 2
        out = static.nn.cond(v > 0, lambda: {"a": w, "b": [w, v + 1]}, lambda: {"a": v, "b": [v, v]})
        (g,) = static.gradients(out["a"] + out["b"][0], v)
    for x, expected in ((1.0, [2, 2, 2, 4]), (-1.0, [-1, -1, -1, 2])):
        assert [a.item() for a in p.run({"v": number(x)}, [out["a"], *out["b"], g])] == expected


def test_cond_shapes_that_differ_become_unknown() -> None:
    with built() as p:
        v = static.data("v", [1], "float32")
        out = static.nn.cond(v > 0, lambda: wb.zeros([2, 3]), lambda: wb.ones([4, 3]))
        assert out.shape == (-1, 3)
    assert p.run({"v": np.ones(1, np.float32)}, [out])[0].shape == (2, 3)
    assert p.run({"v": -np.ones(1, np.float32)}, [out])[0].shape == (4, 3)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_while_power_and_gradient(n: int) -> None:
    with built() as p:
        x, count = static.data("x", [1], "float64"), static.data("n", [1], "int64")
        i = wb.zeros([1], "int64")
        y = x * 2.0
        _, y = static.nn.while_loop(lambda i, y: i < count, lambda i, y: [i + 1, y * x], [i, y])
        (g,) = static.gradients(y, x)
    value, grad = p.run({"x": number(1.5), "n": np.array([n])}, [y, g])
    assert value.item() == pytest.approx(2 * 1.5 ** (n + 1))
    assert grad.item() == pytest.approx(2 * (n + 1) * 1.5**n)


def test_while_gradient_of_a_captured_parameter() -> None:
    """A small recurrent net: gradients of the shared weight against numerical ones."""
    r = np.random.default_rng(1)
    start, w0 = r.standard_normal((2, 3)), r.standard_normal((3, 3)) * 0.5

    def loss(w: np.ndarray) -> float:
        h = start
        for _ in range(4):
            h = np.tanh(h @ w) + 0.5 * h
        return float((h**2).sum())

    with built() as p:
        h, w = static.data("h", [None, 3], "float64"), static.data("w", [3, 3], "float64")
        i = wb.zeros([1], "int64")
        _, out = static.nn.while_loop(
            lambda i, h: i < 4, lambda i, h: [i + 1, wb.tanh(wb.matmul(h, w)) + h * 0.5], [i, h]
        )
        y = wb.sum(out * out)
        gw, gh = static.gradients(y, [w, h])
    value, gradient, _ = p.run({"h": start, "w": w0}, [y, gw, gh])
    assert value.item() == pytest.approx(loss(w0))
    d, eps = r.standard_normal((3, 3)), 1e-6
    numeric = (loss(w0 + eps * d) - loss(w0 - eps * d)) / (2 * eps)
    assert (gradient * d).sum() == pytest.approx(numeric, rel=1e-7)


def test_nested_loop_and_cond() -> None:
    """sum over i < n of (x^i if i is even else 2 x), the power by an inner loop."""

    def reference(x: float, n: int) -> tuple[float, float]:
        value = sum(x**i if i % 2 == 0 else 2 * x for i in range(n))
        slope = sum((i * x ** (i - 1) if i else 0.0) if i % 2 == 0 else 2 for i in range(n))
        return value, slope

    with built() as p:
        x, n = static.data("x", [1], "float64"), static.data("n", [1], "int64")

        def power(i: Any) -> Any:
            j = wb.zeros([1], "int64")
            one = x * 0.0 + 1.0
            return static.nn.while_loop(lambda j, y: j < i, lambda j, y: [j + 1, y * x], [j, one])[1]

        def body(i: Any, total: Any) -> list[Any]:
            term = static.nn.cond(i % 2 == 0, lambda: power(i), lambda: 2.0 * x)
            return [i + 1, total + term]

        _, total = static.nn.while_loop(lambda i, t: i < n, body, [wb.zeros([1], "int64"), x * 0.0])
        (g,) = static.gradients(total, x)
    for count in (0, 1, 2, 6):
        value, grad = p.run({"x": number(1.3), "n": np.array([count])}, [total, g])
        assert (value.item(), grad.item()) == pytest.approx(reference(1.3, count))


def test_training_through_a_loop() -> None:
    with built() as p:
        p.startup.random_seed = 1
        x = static.data("x", [None, 4], "float32")
        w = static.create_parameter([4, 4], "float32", name="w")
        _, h = static.nn.while_loop(
            lambda i, h: i < 3, lambda i, h: [i + 1, wb.tanh(wb.matmul(h, w))], [wb.zeros([1], "int64"), x]
        )
        loss = wb.mean((h - 0.3) ** 2)
        wb.optimizer.Adam(0.05).minimize(loss)
    exe, scope = static.Executor(), static.Scope()
    exe.run(p.startup, scope=scope)
    feed = {"x": np.random.default_rng(0).random((8, 4), np.float32)}
    losses = [exe.run(p.main, feed=feed, fetch_list=[loss], scope=scope)[0].item() for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]
    test = p.main.clone(for_test=True)
    assert exe.run(test, feed=feed, fetch_list=[loss.name], scope=scope)[0].item() < losses[-1]


def test_passes_of_a_loop_draw_different_numbers() -> None:
    with built() as p:
        p.main.random_seed = 3
        i, total = wb.zeros([1], "int64"), wb.zeros([3], "float32")
        _, first = static.nn.while_loop(lambda i, t: i < 1, lambda i, t: [i + 1, wb.uniform([3])], [i, total])
        _, second = static.nn.while_loop(lambda i, t: i < 2, lambda i, t: [i + 1, wb.uniform([3]) - t], [i, total])
    a, b = p.run({}, [first, second])
    assert (a != 0).all() and (b != 0).all()


def test_dynamic_mode_is_plain_python() -> None:
    x = wb.to_tensor([2.0])
    assert static.nn.cond(x > 0, lambda: x * 2, lambda: x).item() == 4.0
    _, y = static.nn.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [wb.to_tensor([0]), x])
    assert y.item() == 16.0


def test_errors() -> None:
    with built():
        v = static.data("v", [1], "float32")
        outside = v * 1.0
        with pytest.raises(ValueError, match="one structure"):
            static.nn.cond(v > 0, lambda: v, lambda: [v, v])
        with pytest.raises(TypeError, match="one dtype on both sides"):
            static.nn.cond(v > 0, lambda: v, lambda: v.astype("int64"))
        with pytest.raises(TypeError, match="bool tensor"):
            static.nn.cond(v, lambda: v, lambda: v)
        with pytest.raises(TypeError, match="function as body"):
            static.nn.while_loop(lambda i: i < 1, 3, [v])
        with pytest.raises(ValueError, match="at least one loop variable"):
            static.nn.while_loop(lambda: v, lambda: v, [])
        block = wb.static.default_main_program().global_block()

        def writes_outside() -> Any:
            wb.static.default_main_program().current_block().append_op(
                "assign", inputs={"X": v}, outputs={"Out": outside.name}
            )
            return v

        with pytest.raises(NotImplementedError, match="lives outside this branch"):
            static.nn.cond(v > 0, writes_outside, lambda: v)
        assert wb.static.default_main_program().current_block() is block


def test_python_cannot_ask_a_variable_and_the_message_leads_to_what_can() -> None:
    with built():
        loss = wb.mean(static.data("x", [None, 2], "float32"))
        for ask in (lambda: bool(loss > 3), lambda: 0 < loss < 3, lambda: loss > 3 and loss < 4):
            with pytest.raises(TypeError, match=rf"of '{loss.name}'\) has no truth value") as caught:
                ask()
            for part in ("static.nn.cond", "static.nn.while_loop", "logical_and", f"fetch_list=['{loss.name}']"):
                assert part in str(caught.value)
        with pytest.raises(TypeError, match=rf"'{loss.name}' has no truth value") as caught:
            bool(loss)
        assert f"fetch_list=['{loss.name}']" in str(caught.value)


def test_a_failing_op_inside_a_loop_names_its_own_line() -> None:
    with built() as p:
        x = static.data("x", [None, 2], "float32")
        y = static.data("y", [None, 2], "float32")
        _, out = static.nn.while_loop(
            lambda i, h: i < 2,
            lambda i, h: [i + 1, h + y],
            [wb.zeros([1], "int64"), x],
        )
    with pytest.raises(ValueError, match=r"op 'elementwise_add' failed(.|\n)*test_control_flow.py") as caught:
        p.run({"x": np.zeros((2, 2), np.float32), "y": np.zeros((3, 2), np.float32)}, [out])
    assert "'while'" not in str(caught.value)
