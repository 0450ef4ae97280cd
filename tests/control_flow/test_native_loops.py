"""Loops and branches in kernels: against the reference, with any number of passes, nested, interrupted."""

from __future__ import annotations

import _thread
import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, build
from tests.parallel.programs import strategies
from workbench import events, static
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.executors.lowering.tape.flow.loops import LoopMemory
from workbench.executors.lowering.tape.registry import RULES
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.runtime.arena import Arena

pytestmark = pytest.mark.usefixtures("tape")
loop, cond = static.nn.while_loop, static.nn.cond
Feed = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def counter(start: int = 0) -> Any:
    return wb.full([1], start, "int64")


def inputs() -> tuple[Any, Any, Any]:
    """Rows, a number of passes, and the rows behind a layer that learns."""
    x, n = static.data("x", [None, 4]), static.data("n", [1], "int64")
    return x, n, static.nn.fc(x, 4)


def feed_of(passes: int, rows: int = 3) -> Feed:
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
    return {"x": x, "n": np.array([passes], np.int64)}


def recurrent() -> Any:
    x, n, h = inputs()
    w = static.create_parameter([4, 4], "float32")
    return wb.mean(loop(lambda i, h: i < n, lambda i, h: [i + 1, wb.tanh(wb.matmul(h, w) + x)], [counter(), h])[1])


def swapping() -> Any:
    """Loop variables that change places, one that stays, one that is made of what another one was."""
    x, n, h = inputs()
    a, b, same, last = h, h * 0.5, h + 1.0, x
    _, a, b, same, last = loop(
        lambda i, *rest: i < n, lambda i, a, b, same, last: [i + 1, b, a, same, a * 0.5 + b],
        [counter(), a, b, same, last],
    )  # fmt: skip
    return wb.mean(a * 3.0 + b * same + last * x)


def counting_down() -> Any:
    """Only some passes change anything; a condition of several parts."""
    _, n, h = inputs()

    def body(i: Any, h: Any) -> list[Any]:
        return [i - 1, cond(i % 2 == 0, lambda: h * 1.5, lambda: wb.tanh(h))]

    goes_on = lambda i, h: wb.logical_and(i > 0, wb.logical_not(i > 40))  # noqa: E731
    return wb.mean(loop(goes_on, body, [n + 0, h])[1])


def nested() -> Any:
    x, n, h = inputs()

    def body(i: Any, h: Any) -> list[Any]:
        inner = loop(lambda j, h: j < i, lambda j, h: [j + 1, wb.tanh(h + x)], [counter(), h])[1]
        return [i + 1, inner * 0.9]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def branched_loops() -> Any:
    """Loops in the branches of a loop's body, one of them three deep."""
    x, n, h = inputs()

    def often(h: Any, count: Any) -> Any:
        return loop(lambda j, h: j < count, lambda j, h: [j + 1, wb.tanh(h * 0.8 + x)], [counter(), h])[1]

    def deep(i: Any, h: Any) -> Any:
        return loop(lambda j, h: j < i, lambda j, h: [j + 1, often(h, j) * 0.9], [counter(), h])[1]

    def body(i: Any, h: Any) -> list[Any]:
        return [
            i + 1,
            cond(i % 3 == 0, lambda: often(h, i), lambda: cond(i % 3 == 1, lambda: deep(i, h), lambda: h * x)),
        ]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def branching() -> Any:
    x, n, h = inputs()
    h = cond(n > 2, lambda: wb.tanh(h) * h, lambda: F.relu(h) * x)
    return wb.mean(cond(n % 2 == 0, lambda: h, lambda: -h * h))


def unlearnt() -> Any:
    """A loop nobody differentiates, beside one that is."""
    _, n, h = inputs()
    scale = loop(lambda i, s: i < n, lambda i, s: [i + 1, s * 1.25], [counter(), wb.full([1], 1.0)])[1]
    scale.stop_gradient = True
    return wb.mean(h * scale + loop(lambda i, h: i < n, lambda i, h: [i + 1, wb.tanh(h)], [counter(), h])[1])


def drawing() -> Any:
    """Random numbers in a loop, in a branch inside it, and in a loop inside that: every pass has its own."""
    x, n, h = inputs()

    def body(i: Any, h: Any) -> list[Any]:
        h = F.dropout(h, 0.3) + 0.1 * wb.uniform([1, 4])
        inner = loop(lambda j, h: j < i, lambda j, h: [j + 1, F.dropout(h + x, 0.2)], [counter(), h])[1]
        return [i + 1, cond(i % 2 == 0, lambda: F.dropout(inner, 0.4), lambda: inner + wb.uniform([1, 4]))]

    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


def indexing() -> Any:
    """Bodies that read a part of a sequence: by the counter, of a transposed one, and always the first."""
    x, n, h = inputs()
    sequence = wb.stack([x, x * 0.5, x - 1.0], axis=1)
    turned = wb.transpose(sequence, [1, 0, 2])

    def body(i: Any, h: Any, last: Any) -> list[Any]:
        by_counter = wb.reshape(sequence[:, i % 3], [-1, 4])
        of_turned = wb.squeeze(wb.gather(turned, i % 3, 0), [0])
        return [i + 1, wb.tanh(h * by_counter + of_turned), sequence[:, 0]]

    _, h, last = loop(lambda i, *rest: i < n, body, [counter(), h, x])
    return wb.mean(h * last)


F = wb.nn.functional
PROGRAMS: dict[str, Callable[[], Any]] = {
    program.__name__: program
    for program in (recurrent, swapping, counting_down, nested, branched_loops, branching, unlearnt, drawing, indexing)
}  # fmt: skip


def steps(model: Model, passes: list[int], rows: int = 3) -> tuple[list[np.ndarray], Any]:
    """The loss of each step and all parameters at the end; and the executor's inspection."""
    exe = model.parallel(1)
    losses = [exe.run([model.loss], feed=feed_of(count, rows))[0] for count in passes]
    return [*losses, *model.values().values()], exe.inspection


def by_reference(model: Model, passes: list[int], rows: int = 3) -> list[np.ndarray]:
    with override(executor="reference"):
        exe = static.Executor()
        losses = [
            exe.run(model.main, feed=feed_of(count, rows), fetch_list=[model.loss], scope=model.scope)[0]
            for count in passes
        ]
    return [*losses, *model.values().values()]


def started(name: str) -> Model:
    return build(PROGRAMS[name], wb.optimizer.SGD(0.5)).start()


def close(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_steps_are_those_of_the_reference(name: str) -> None:
    passes = [3, 0, 1, 5, 2, 20]  # more than there is room for at first
    results, inspection = steps(started(name), passes)
    close(results, by_reference(started(name), passes))
    assert inspection.last.is_native


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PROGRAMS)), st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 5))
def test_any_number_of_passes(name: str, passes: list[int], rows: int) -> None:
    results, _ = steps(started(name), passes, rows)
    close(results, by_reference(started(name), passes, rows))


@pytest.mark.parametrize("name", ["recurrent", "branching"])
def test_shapes_in_turn_have_loops_of_their_own(name: str) -> None:
    model, other = started(name), started(name)
    exe = model.parallel(1)
    shapes = [(3, 2), (5, 3), (7, 4), (9, 1), (11, 6), (13, 0), (4, 3)]
    for rows, passes in shapes:
        result = exe.run([model.loss], feed=feed_of(passes, rows))
        close(result, by_reference(other, [passes], rows)[:1])
        assert exe.inspection.last.is_native
    assert exe.inspection.refusals == []


def sequential() -> Any:
    """The number of sequences is unknown, and not the first dimension: it is planned for any from the first step on."""
    x, n = static.data("x", [6, None, 4]), static.data("n", [1], "int64")
    w = static.create_parameter([4, 4], "float32")
    begin = wb.zeros_like(x[0])
    step = lambda i, h: [i + 1, wb.tanh(wb.matmul(h, w) + wb.squeeze(wb.gather(x, i), 0))]  # noqa: E731
    h = loop(lambda i, h: i < n, step, [counter(), begin])[1]
    return wb.mean(cond(n > 2, lambda: h * h, lambda: h * 2.0))


def test_a_loop_is_native_where_another_dimension_than_the_first_is_unknown() -> None:
    results = []
    for executor in ("compiled", "reference"):
        model = build(sequential, wb.optimizer.SGD(0.5)).start()
        with override(executor=executor):
            exe = model.parallel(1) if executor == "compiled" else static.Executor()
            for passes, sequences in ((3, 5), (6, 5), (1, 8), (2, 3)):
                x = np.random.default_rng(passes).standard_normal((6, sequences, 4)).astype(np.float32)
                feed = {"x": x, "n": np.array([passes], np.int64)}
                if executor == "compiled":
                    results.append(exe.run([model.loss], feed=feed)[0])
                    assert exe.inspection.last.is_native
                else:
                    loss = exe.run(model.main, feed=feed, fetch_list=[model.loss], scope=model.scope)[0]
                    np.testing.assert_allclose(results.pop(0), loss, rtol=2e-5, atol=2e-6)


def growing() -> Any:
    """A loop that ends by what is in the data: devices make different numbers of passes."""
    x = static.data("x", [None, 4])
    h = static.nn.fc(x, 4, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.Constant(0.5)))
    return wb.mean(loop(lambda h: wb.mean(wb.abs(h)) < 4.0, lambda h: [h * 1.3 + 0.01], [h])[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_devices_make_passes_of_their_own(threads: int) -> None:
    x = np.ones((4, 4), np.float32) * np.array([[0.05], [0.05], [1.5], [1.5]], np.float32)
    losses = []
    for tape in (True, False):
        model = build(growing, wb.optimizer.SGD(0.01)).start()
        with override(cpu_tape=tape):
            exe = model.parallel(2, **strategies(threads=threads))
            losses.append([exe.run([model.loss], feed={"x": x})[0] for _ in range(3)])
            losses[-1] += model.values().values()
            if tape:
                assert exe.inspection.last.is_native
    close(*losses)
    assert losses[0][0][0] != losses[0][0][1]


def test_an_endless_loop_is_interrupted_within_a_second() -> None:
    def endless() -> Any:
        x = static.data("x", [None, 4])
        return wb.mean(loop(lambda h: wb.mean(h) < 2.0, lambda h: [wb.tanh(h)], [static.nn.fc(x, 4)])[0])

    model = build(endless, None).start()
    exe = model.parallel(1, model.main, loss_name=None)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    begun = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        exe.run([model.loss], feed={"x": feed_of(0)["x"]})
    assert time.monotonic() - begun < 20  # it ends; by the clock of a busy machine
    timer.join()


def test_after_an_interrupt_steps_are_as_if_nothing_had_been() -> None:
    model, undisturbed = started("recurrent"), started("recurrent")
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(3))
    before = model.values()
    timer = threading.Timer(0.02, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        exe.run([], feed=feed_of(400_000))
        timer.join()  # of a step that was quicker; it has changed the parameters, and what follows fails
    after = model.values()
    assert all(np.array_equal(after[name], value) for name, value in before.items())
    results = [exe.run([model.loss], feed=feed_of(4))[0], *model.values().values()]
    expected, _ = steps(undisturbed, [3, 4])
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=True))


def test_data_a_kernel_declines_is_explained_by_the_op_inside() -> None:
    def looking_up() -> Any:
        ids, n = static.data("ids", [None, 1], "int64"), static.data("n", [1], "int64")
        table = static.create_parameter([5, 4], "float32")

        def body(i: Any, total: Any) -> list[Any]:
            return [i + 1, total + wb.mean(F.embedding(ids, table))]

        return loop(lambda i, t: i < n, body, [counter(), wb.full([1], 0.0)])[1]

    model = build(looking_up, None).start()
    exe = model.parallel(1, model.main, loss_name=None)
    good = {"ids": np.array([[1], [4]]), "n": np.array([3])}
    (expected,) = exe.run([model.loss], feed=good)
    with pytest.raises(InvalidArgument, match=r"(?s)lookup_table.*7.*test_native_loops"):
        exe.run([model.loss], feed={**good, "ids": np.array([[1], [7]])})
    assert exe.run([model.loss], feed=good)[0] == expected


def test_memory_is_what_the_longest_loop_takes() -> None:
    model = started("recurrent")
    exe = model.parallel(1)
    for passes in (1, 5_000, 10, 5_000):
        exe.run([model.loss], feed=feed_of(passes))
    gc.collect()
    (memory,) = [o for o in gc.get_objects() if type(o) is LoopMemory]
    record = sum(-(-part.nbytes // 64) * 64 for name, part in memory.parts.items() if name in memory.offsets)
    assert 5_000 * record <= memory._records.nbytes <= 16_384 * record
    assert len(memory.offsets) < len(memory.parts)  # what the gradient only sees the shape of is not kept


def test_a_drop_gives_back_what_loops_keep_and_blocks_compute_with() -> None:
    model, undropped = started("recurrent"), started("recurrent")
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(5_000, 64))
    (memory,) = [o for place, o in exe.inspection.last.lowering._context.held if type(o) is LoopMemory]
    arenas = [o for _, o in exe.inspection.last.lowering._context.held if type(o) is Arena]
    dropped: list[events.ScopeDrop] = []
    with events.subscribe(lambda e: dropped.append(e) if isinstance(e, events.ScopeDrop) else None):
        kept = memory._records.nbytes
        exe.drop_local_exe_scopes()
    assert memory._records.nbytes == 0 and sum(arena.resident for arena in arenas) == 0
    assert arenas and sum(dropped[0].nbytes) >= kept > 5_000 * 64 * 4
    results = [exe.run([model.loss], feed=feed_of(passes, 64))[0] for passes in (3, 40)]
    expected, _ = steps(undropped, [5_000, 3, 40], 64)
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=False))


@pytest.mark.parametrize("name", ["recurrent", "counting_down", "branching", "nested", "branched_loops"])
def test_a_gradient_in_python_gets_what_kernels_have_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(writer: Any, row: Any) -> None:
        raise Unsuitable

    expected = by_reference(started(name), [3, 0, 1, 18])
    for type_ in ("while_grad", "cond_grad"):
        monkeypatch.setitem(RULES, type_, refuse)
    results, inspection = steps(started(name), [3, 0, 1, 18])
    close(results, expected)
    assert not inspection.last.is_native


def dividing() -> Any:
    """By whatever is fed, 0 too, which gives 0."""
    _, n, h = inputs()
    k = static.data("k", [1], "int64")
    body = lambda i, h: [i + 1, wb.tanh(h) + wb.cast(i // k, "float32")]  # noqa: E731
    return wb.mean(loop(lambda i, h: i < n, body, [counter(), h])[1])


@pytest.fixture
def flags_as_they_were() -> Iterator[None]:
    yield
    wb.set_flags({"FLAGS_check_nan_inf": False})


@pytest.mark.parametrize("looked_at", [None, 0, 2])
def test_whole_numbers_are_divided_in_loops_by_any_others(looked_at: int | None, flags_as_they_were: None) -> None:
    """Also behind a step that was looked at: programs with looks in them have loops of their own."""
    results = []
    for executor in ("compiled", "reference"):
        model = build(dividing, wb.optimizer.SGD(0.5)).start()
        losses = []
        with override(executor=executor):
            exe = static.Executor()
            for step, k in enumerate((2, -2, 0, -1)):
                wb.set_flags({"FLAGS_check_nan_inf": step == looked_at and executor == "compiled"})
                feed = {**feed_of(3 + step), "k": np.array([k])}
                losses += exe.run(model.main, feed=feed, fetch_list=[model.loss], scope=model.scope)
        results.append([*losses, *model.values().values()])
    close(*results)


def of_unknown_size() -> Any:
    """How many rows a loop makes is known when it has ended; another one and a branch go on with them."""
    _, n, h = inputs()
    rows = loop(lambda i, h: i < n, lambda i, h: [i + 1, wb.concat([h, h * 0.5])], [counter(), h])[1]
    rows = loop(lambda i, h: i < n, lambda i, h: [i + 1, wb.tanh(h)], [counter(), rows])[1]
    return wb.mean(cond(n > 2, lambda: rows * rows, lambda: rows * 2.0))


def test_what_does_not_run_in_kernels_runs_as_before() -> None:
    def program() -> Model:
        return build(of_unknown_size, wb.optimizer.SGD(0.5)).start()

    results, inspection = steps(program(), [2, 0, 3])
    close(results, by_reference(program(), [2, 0, 3]))
    assert not inspection.last.is_native


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(-(1 << 62), 1 << 62), st.integers(-9, 9), st.integers(-7, 7))
def test_whole_numbers(a: int, b: int, c: int) -> None:
    """Arithmetic, comparisons and choices, as NumPy does them; overflow, and division by 0, too."""

    def arithmetic() -> Any:
        x, y = static.data("a", [3], "int64"), static.data("b", [1], "int64")
        total = x * 3 - y + wb.maximum(x, y) - wb.minimum(x, y)
        both = wb.logical_xor(x < y, wb.logical_or(x >= y * 2, wb.equal(x, y)))
        return wb.where(both, total % c, -(total // c))

    model = build(arithmetic, None)
    feed = {"a": np.array([a, b, -a]), "b": np.array([b])}
    exe = model.parallel(1, model.main, loss_name=None)
    (loss,) = exe.run([model.loss], feed=feed)
    assert exe.inspection.last.is_native
    x, y = feed["a"], feed["b"]
    with np.errstate(all="ignore"):
        total = x * 3 - y + np.maximum(x, y) - np.minimum(x, y)
        both = np.logical_xor(x < y, np.logical_or(x >= y * 2, x == y))
        expected = np.where(both, total % c, -(total // c))
    assert loss.tolist() == expected.tolist()
