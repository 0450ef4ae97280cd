"""Blocks of loops and branches with an op that has no kernel: Python makes its calls, kernels run the rest."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.control_flow.test_native_loops import (
    by_reference,
    close,
    cond,
    counter,
    feed_of,
    inputs,
    loop,
    steps,
)
from tests.parallel.models import Model, build
from tests.parallel.programs import strategies
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet
from workbench.executors.lowering.tape.segment import Segment
from workbench.framework.op.declare import op
from workbench.ops.random.distributions import KEYS

pytestmark = pytest.mark.usefixtures("tape")
F = wb.nn.functional


class _Watched:
    """What happens when the op without a kernel is called."""

    def __init__(self) -> None:
        self.calls = 0
        self.then: Callable[[int], None] = lambda number: None

    def note(self) -> None:
        self.calls += 1
        self.then(self.calls)


watched = _Watched()


@op("toy_softened", "X -> Out", infer=lambda x: x, grad=lambda g, y, x: STEEPNESS(x) * g)
def SOFTENED(xp: Any, x: Any) -> Any:
    """x / (1 + |x|)."""
    watched.note()
    return x / (1 + xp.abs(x))


@op("toy_steepness", "X -> Out", infer=lambda x: x)
def STEEPNESS(xp: Any, x: Any) -> Any:
    """The slope of that."""
    return 1 / (1 + xp.abs(x)) ** 2


@op(
    "toy_jittered",
    "X -> Out",
    attrs=KEYS,
    infer=lambda x, **keys: x,
    grad=lambda g, y, x, **keys: g,
    needs="rng",
)
def JITTERED(xp: Any, x: Any, rng: Any, **keys: Any) -> Any:
    """Random numbers added."""
    return x + rng.uniform(xp, x.shape, x.dtype)


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    global watched
    wb.enable_static()
    watched = _Watched()
    yield
    wb.disable_static()


def recurrent() -> Any:
    x, n, h = inputs()
    w = static.create_parameter([4, 4], "float32")
    body = lambda i, h: [i + 1, wb.tanh(SOFTENED(wb.matmul(h, w)) + x)]  # noqa: E731
    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def twice_in_a_pass() -> Any:
    """Two in a row, and one whose result is what the next pass begins with."""
    x, n, h = inputs()

    def body(i: Any, h: Any) -> list[Any]:
        return [i + 1, SOFTENED(SOFTENED(SOFTENED(h) * x) + h * 0.5)]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def in_the_condition() -> Any:
    _, n, h = inputs()
    goes_on = lambda i, h: wb.logical_and(i < n, wb.mean(SOFTENED(h)) < 0.9)  # noqa: E731
    return wb.mean(loop(goes_on, lambda i, h: [i + 1, h * 1.5 + 0.1], [counter(), h])[1])


def nested() -> Any:
    """In a loop, in one inside it, and in the branches of one inside that."""
    x, n, h = inputs()

    def deep(j: Any, h: Any) -> Any:
        return cond(j % 2 == 0, lambda: SOFTENED(h) * 0.9, lambda: wb.tanh(h + x))

    def body(i: Any, h: Any) -> list[Any]:
        inner = loop(lambda j, h: j < i, lambda j, h: [j + 1, SOFTENED(deep(j, h) + x)], [counter(), h])[1]
        return [i + 1, SOFTENED(inner * 1.1)]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def only_inside() -> Any:
    """Only the innermost of three blocks has one."""
    x, n, h = inputs()

    def inner(h: Any, i: Any) -> Any:
        return loop(lambda j, h: j < i, lambda j, h: [j + 1, SOFTENED(h + x)], [counter(), h])[1]

    def body(i: Any, h: Any) -> list[Any]:
        return [i + 1, wb.tanh(cond(i % 3 != 1, lambda: inner(h, i), lambda: h * x))]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def branching() -> Any:
    x, n, h = inputs()
    h = cond(n > 2, lambda: SOFTENED(h) * h, lambda: F.relu(h) * SOFTENED(x))
    return wb.mean(cond(n % 2 == 0, lambda: h, lambda: SOFTENED(-h * h)))


def drawing() -> Any:
    """Random numbers in Python and in kernels."""
    _, n, h = inputs()

    def body(i: Any, h: Any) -> list[Any]:
        inner = loop(lambda j, h: j < i, lambda j, h: [j + 1, JITTERED(h) * 0.5], [counter(), h])[1]
        return [i + 1, F.dropout(inner, 0.3) + cond(i % 2 == 0, lambda: JITTERED(h), lambda: h)]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def in_float64() -> Any:
    """Numbers that kernels do not compute with: of every pass Python makes all but the control flow."""
    x, n, h = inputs()
    x, h = wb.cast(x, "float64"), wb.cast(h, "float64")
    w = static.create_parameter([4, 4], "float64")
    body = lambda i, h: [i + 1, SOFTENED(wb.matmul(h, w) + x)]  # noqa: E731
    return wb.cast(wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1]), "float32")


PROGRAMS: dict[str, Callable[[], Any]] = {
    program.__name__: program
    for program in (
        recurrent, twice_in_a_pass, in_the_condition, nested, only_inside, branching, drawing, in_float64,
    )
}  # fmt: skip
PASSES = [3, 0, 1, 5, 2, 20]  # more than there is room for at first


def started(program: Callable[[], Any], optimizer: Any = None) -> Model:
    return build(program, optimizer or wb.optimizer.SGD(0.5)).start()


def in_python(inspection: Any) -> tuple[set[str], set[str]]:
    """The types of ops that Python runs: of the program itself, and of its blocks."""
    binding = inspection.last
    units = [unit for program in (*binding.speculative, *binding.commit) for unit in program.units]
    rows = [row for unit in units if isinstance(unit, Segment) for desk in unit.tape.desks for row in desk.rows]
    return {unit.row.node.type for unit in units if not isinstance(unit, Segment)}, {row.node.type for row in rows}


WITHOUT = {type for op in (SOFTENED, STEEPNESS, JITTERED) for type in (op.type, op.type + "_grad")}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_steps_are_those_of_the_reference(name: str) -> None:
    results, inspection = steps(started(PROGRAMS[name]), PASSES)
    close(results, by_reference(started(PROGRAMS[name]), PASSES))
    outside, inside = in_python(inspection)
    assert inside & WITHOUT and not outside & {"while", "while_grad", "cond", "cond_grad"}
    assert inside <= WITHOUT or name == "in_float64"
    assert not inspection.last.is_native


def test_python_makes_one_call_for_each() -> None:
    model = started(recurrent)
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(3))
    for passes in (4, 0, 7):
        before = watched.calls
        exe.run([model.loss], feed=feed_of(passes))
        assert watched.calls == before + passes


def growing() -> Any:
    """A loop that ends by what is in the data."""
    x = static.data("x", [None, 4])
    h = static.nn.fc(x, 4, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Constant(0.5)))
    body = lambda h: [h * 1.3 + 0.01 * SOFTENED(h)]  # noqa: E731
    return wb.mean(loop(lambda h: wb.mean(wb.abs(h)) < 4.0, body, [h])[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_devices_make_passes_of_their_own(threads: int) -> None:
    x = np.ones((4, 4), np.float32) * np.array([[0.05], [0.05], [1.5], [1.5]], np.float32)
    losses = []
    for tape in (True, False):
        model = started(growing, wb.optimizer.SGD(0.01))
        with override(cpu_tape=tape):
            exe = model.parallel(2, **strategies(threads=threads))
            losses.append([exe.run([model.loss], feed={"x": x})[0] for _ in range(4)])
            losses[-1] += model.values().values()
    close(*losses)
    assert losses[0][0][0] != losses[0][0][1]


def test_shapes_in_turn_have_calls_of_their_own() -> None:
    model, other = started(nested), started(nested)
    exe = model.parallel(1)
    shapes = [(3, 2), (5, 3), (7, 4), (9, 1), (11, 6), (13, 0), (4, 3)]
    results = [exe.run([model.loss], feed=feed_of(passes, rows))[0] for rows, passes in shapes]
    expected = [by_reference(other, [passes], rows)[0] for rows, passes in shapes]
    close(results, expected)
    assert "while" not in in_python(exe.inspection)[0]


def _interrupt(at: int) -> Callable[[int], None]:
    """Ctrl-C in the middle of a call."""

    def then(number: int) -> None:
        if number == at:
            timer = threading.Timer(0.0, _thread.interrupt_main)
            timer.start()
            timer.join()

    return then


@pytest.mark.parametrize("name", ["recurrent", "nested", "only_inside"])
def test_after_an_interrupt_steps_are_as_if_nothing_had_been(name: str) -> None:
    model, undisturbed = started(PROGRAMS[name]), started(PROGRAMS[name])
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(5))
    before, parameters = watched.calls, model.values()
    for at in (before + 1, before + 5):
        watched.then = _interrupt(at)
        with pytest.raises(KeyboardInterrupt):
            exe.run([model.loss], feed=feed_of(5))
    watched.then = lambda number: None
    assert all(np.array_equal(model.values()[key], value) for key, value in parameters.items())
    results = [exe.run([model.loss], feed=feed_of(4))[0], *model.values().values()]
    expected, _ = steps(undisturbed, [5, 4])
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=True))


@pytest.mark.parametrize("name", ["recurrent", "nested"])
def test_what_the_op_raises_names_it_and_its_line(name: str) -> None:
    model, undisturbed = started(PROGRAMS[name]), started(PROGRAMS[name])
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(5))
    before = watched.calls

    def fail(number: int) -> None:
        if number == before + 4:
            raise ValueError("this one is too soft")

    watched.then = fail
    with pytest.raises(EnforceNotMet, match=r"(?s)toy_softened.*too soft.*test_blocks_with_python"):
        exe.run([model.loss], feed=feed_of(5))
    watched.then = lambda number: None
    results = [exe.run([model.loss], feed=feed_of(4))[0], *model.values().values()]
    expected, _ = steps(undisturbed, [5, 4])
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=True))


def dividing() -> Any:
    """By whatever is fed, 0 too, which gives 0."""
    _, n, h = inputs()
    k = static.data("k", [1], "int64")
    body = lambda i, h: [i + 1, SOFTENED(h) + wb.cast(i // k, "float32")]  # noqa: E731
    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


@pytest.fixture
def flags_as_they_were() -> Iterator[None]:
    yield
    wb.set_flags({"FLAGS_check_nan_inf": False})


@pytest.mark.parametrize("looked_at", [None, 0, 2])
def test_no_divisor_makes_a_loop_begin_anew(looked_at: int | None, flags_as_they_were: None) -> None:
    results = []
    for executor in ("compiled", "reference"):
        model = started(dividing)
        losses = []
        with override(executor=executor):
            exe = static.Executor()
            for step, k in enumerate((2, -2, 0, -1)):
                calls = watched.calls
                wb.set_flags({"FLAGS_check_nan_inf": step == looked_at and executor == "compiled"})
                feed = {**feed_of(3 + step), "k": np.array([k])}
                losses += exe.run(model.main, feed=feed, fetch_list=[model.loss], scope=model.scope)
                assert watched.calls == calls + 3 + step or executor == "reference"
        results.append([*losses, *model.values().values()])
    close(*results)
