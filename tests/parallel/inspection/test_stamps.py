"""A step that is stamped is the step that runs; what its stamps say of ops, waits and exchanges."""

from __future__ import annotations

import itertools
import time
from typing import Any
from unittest import mock

import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier
from tests.parallel.observe import bits, costly_ops, held, threads_of
from tests.parallel.programs import strategies
from workbench import events, static
from workbench.config import override
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.running.watching.stamps import Stamps
from workbench.executors.running.whole_step import WholeStep
from workbench.runtime.words.codes import STAMPS

TIMED = events.OpRun, events.Wait, events.Collective


@pytest.fixture(autouse=True)
def on_the_tape(tape: None) -> None:
    """All of this is about kernels."""


def clipped() -> Model:
    """Its all-reduces are not left to updates: the norm of the sums is looked at."""
    return classifier(wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(1.0)))


def with_python() -> Model:
    """A row that runs in Python between pieces of the tape."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.fc(x, 8, activation="tanh")
        h = static.nn.cond(wb.mean(h) > 0, lambda: h * 2.0, lambda: h - 1.0)
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.SGD(0.1))


MODELS = {"one call": classifier, "clipped": clipped, "with python": with_python}


def stamps_of(exe: Any) -> Stamps:
    return exe.inspection.last_step.watching.programs(clock=True, finite=False).stamps


def pieces(binding: Binding) -> list[Segment]:
    programs = (*binding.speculative, *binding.commit)
    return [unit for program in programs for unit in program.units if isinstance(unit, Segment)]


def slowed(model: Model, slow: int, threads: int) -> tuple[Any, list[Any]]:
    """An executor, and what it told of a step in which one device began late if it has a thread of its own."""
    heard: list[Any] = []
    with costly_ops():
        exe = model.parallel(2, **strategies(threads=threads))
        exe.run([], feed=batch(8))
    binding = exe.inspection.last
    assert threads_of(binding) == threads
    thread = next(row.thread for row in binding.plan.rows if row.node.places == (slow,))
    task = binding.speculative[thread].task
    task.piece = None
    task.calls.insert(0, lambda: time.sleep(0.2))
    with events.subscribe(heard.append, *TIMED):
        exe.run([], feed=batch(8))
    return exe, heard


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["one call", "clipped"])
def test_an_all_reduce_starts_when_the_last_device_has_made_its_part(name: str, threads: int, slow: int) -> None:
    exe, heard = slowed(MODELS[name]().start(), slow, threads)
    graph = exe.graph([])
    makers: dict[str, set[int]] = {}
    for number, node in enumerate(graph.nodes):
        for value in node.writes if not node.is_collective else ():
            makers.setdefault(value.name, set()).add(number)
    ends = {node: e.end for e in heard if isinstance(e, events.OpRun) for node in e.op.nodes}
    exchanged = [event for event in heard if isinstance(event, events.Collective)]
    assert exchanged and {event.within_ops for event in exchanged} == {name == "one call"}
    for event in exchanged:
        last = max(ends[node] for name in event.names for node in makers[name])
        assert last <= event.start <= event.end
        assert max(event.arrived) <= event.start and len(event.waits) == 2
        assert event.within_ops or event.start < event.end
        if threads == 2:
            assert event.waits[slow] < event.waits[1 - slow]


@pytest.mark.parametrize(("name", "awaited"), [("clipped", "on cpu:1"), ("one call", "the other threads")])
def test_a_thread_that_waits_for_a_slow_device_says_so(name: str, awaited: str) -> None:
    """For an op of its; or, where updates take the sums, at the end of the part before them."""
    _, heard = slowed(MODELS[name]().start(), 1, 2)
    (fast,) = {e.thread for e in heard if isinstance(e, events.OpRun) and "mul" in e.op.type and e.op.place.index == 0}
    waits = [event for event in heard if isinstance(event, events.Wait)]
    longest = max(waits, key=lambda event: event.end - event.start)
    assert longest.thread == fast and longest.place.index == 0 and longest.end - longest.start > 0.1 * 1e9
    assert all(event.awaited and all(event.awaited) for event in waits)
    assert any(awaited in text for event in waits for text in event.awaited)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_the_ops_of_a_stamped_step_are_the_rows_of_the_plan_in_order(name: str, threads: int) -> None:
    model, heard = MODELS[name]().start(), []
    with costly_ops():
        exe = model.parallel(2, **strategies(threads=threads))
        with events.subscribe(heard.append, events.OpRun):
            for step in range(3):
                exe.run([], feed=batch(8, step))
    plan = exe.inspection.last.plan
    number = {node: k for k, node in enumerate(plan.graph.nodes)}
    for step in range(3):
        ran = [event for event in heard if event.step == step]
        for rows in (plan.rows, plan.commit):
            own = {number[row.node] for row in rows}
            for thread in {row.thread for row in rows}:
                expected = [number[r.node] for r in rows if r.thread == thread and not r.node.is_collective]
                nodes = [node for e in ran if e.thread == thread for node in e.op.nodes if node in own]
                assert nodes == expected


def test_waits_and_signals_are_no_work_of_an_op() -> None:
    with costly_ops():
        exe = clipped().start().parallel(2, **strategies(threads=2))
        exe.run([], feed=batch(8))
    seen: set[str] = set()
    for piece in pieces(exe.inspection.last):
        table, layout = piece.tape.kept[-1], piece.layout()
        kernels = {address: kernel for kernel, address in piece.tape.kernels.addresses.items()}
        kinds = [kernels[table[(row - table.ctypes.data) // 8]] for row in layout.rows.tolist()]
        begins = [first for first, _, _ in layout.spans]
        for (first, work, end), following in zip(layout.spans, [*begins[1:], len(kinds)], strict=True):
            assert set(kinds[first:work]) <= {"wait"} and set(kinds[end:following]) <= {"signal", "look_up"}
            assert not {"wait", "signal", "look_up"} & set(kinds[work:end])
        seen.update(kinds)
    assert {"wait", "signal"} < seen


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_bits_are_those_of_steps_nobody_looks_at(name: str, threads: int) -> None:
    results = []
    for looked_at in (False, True):
        model, losses = MODELS[name]().start(), []
        with costly_ops():
            exe = model.parallel(2, **strategies(threads=threads))
        for step in range(6):
            if looked_at and step % 3:
                with events.subscribe(lambda event: None):
                    losses += bits(exe.run([model.loss], feed=batch(8, step)))
            else:
                losses += bits(exe.run([model.loss], feed=batch(8, step)))
        results.append((losses, held(exe, model.main)))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", MODELS)
def test_nobody_looks_and_nothing_is_stamped(name: str) -> None:
    model = MODELS[name]().start()
    with costly_ops():
        exe = model.parallel(2, **strategies(threads=2))
    with events.subscribe(lambda event: None, events.OpRun):
        exe.run([], feed=batch(8))
    binding = exe.inspection.last
    rings = stamps_of(exe)._rings
    assert any(len(ring) for ring in rings)
    before = [(len(ring), ring.entries().tobytes()) for ring in rings]
    for step in range(3):
        exe.run([], feed=batch(8, step))
    with events.subscribe(lambda event: None, events.Step, events.Feed, events.Memory):
        exe.run([], feed=batch(8))
    assert [(len(ring), ring.entries().tobytes()) for ring in rings] == before
    assert pieces(binding) and all(piece._words[STAMPS] == 0 for piece in pieces(binding))


def test_a_step_that_is_one_call_is_that_call_while_it_is_looked_at() -> None:
    model, heard = classifier().start(), []
    exe = model.parallel(2, **strategies(threads=1))
    exe.run([], feed=batch(8))
    whole = exe.inspection.last_step.whole
    assert whole is not None
    with (
        mock.patch.object(WholeStep, "run", autospec=True, side_effect=WholeStep.run) as run,
        events.subscribe(heard.append),
    ):
        exe.run([], feed=batch(8))
    assert run.call_count == 1 and exe.inspection.last_step.whole is whole
    (step,) = [event for event in heard if isinstance(event, events.Step)]
    ops = [event for event in heard if isinstance(event, events.OpRun)]
    assert step.start <= ops[0].start and max(op.end for op in ops) <= step.end


def test_a_step_that_fails_is_not_stamped_for_good() -> None:
    model, heard = classifier().start(), []
    exe = model.parallel(2, **strategies(threads=1))
    exe.run([], feed=batch(8))
    bad = batch(8)
    bad["y"][5] = 99
    with events.subscribe(heard.append):
        with pytest.raises(wb.errors.EnforceNotMet):
            exe.run([], feed=bad)
        assert [type(event) for event in heard] == [events.Feed, events.Error]
        heard.clear()
        exe.run([], feed=batch(8))
    assert sum(isinstance(event, events.OpRun) for event in heard) > 10
    assert all(piece._words[STAMPS] == 0 for piece in pieces(exe.inspection.last))


def test_several_steps_of_a_run_follow_each_other() -> None:
    heard: list[Any] = []
    model = classifier().start()
    strategy = static.ExecutionStrategy()
    strategy.use_experimental_executor = False
    strategy.num_iteration_per_run = 3
    exe = model.parallel(2, exec_strategy=strategy)
    with events.subscribe(heard.append, events.Step, events.OpRun):
        exe.run([], feed=batch(8))
    steps = [event for event in heard if isinstance(event, events.Step)]
    assert len(steps) == 3
    for step, following in itertools.pairwise(steps):
        assert step.end <= following.start
    for step in steps:
        ops = [event for event in heard if isinstance(event, events.OpRun) and event.step == step.step]
        assert ops and step.start <= min(op.start for op in ops) and max(op.end for op in ops) <= step.end


def test_looking_for_nan_and_at_the_clock_go_together() -> None:
    heard: list[Any] = []
    model = classifier().start()
    exe = model.parallel(2, **strategies(threads=2))
    with costly_ops(), override(check_nan_inf=True), events.subscribe(heard.append, events.OpRun):
        exe.run([], feed=batch(8))
    plan = exe.inspection.last.plan
    ops = [row for row in (*plan.rows, *plan.commit) if not row.node.is_collective]
    assert sum(len(event.op.nodes) for event in heard) == len(ops)
