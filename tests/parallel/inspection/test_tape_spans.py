"""What is told of steps on the tape: every op of every step once, with its time, in whatever pieces it ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import workbench as wb
from tests.parallel.lowerings import in_both
from tests.parallel.models import Model, batch, build, classifier
from tests.parallel.observe import costly_ops
from tests.parallel.programs import strategies
from workbench import events, static
from workbench.config import override
from workbench.graph.order import edges

F = wb.nn.functional


def mixed() -> Model:
    """Kernels, calls between them, a branch in Python, updates of several kinds."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.batch_norm(static.nn.fc(x, 8, activation="relu"))
        h = wb.cast(wb.cast(F.dropout(h, 0.3), "float64"), "float32")
        h = static.nn.fc(h, 8, activation="tanh")
        h = static.nn.cond(wb.mean(h) > 0, lambda: h * 2.0, lambda: h - 1.0)
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Adam(0.05))


SPANS = events.OpRun, events.Wait, events.Collective
MODELS = {"classifier": classifier, "mixed": mixed}


def told(model: Model, steps: int = 2, **options: Any) -> list[list[events.OpRun | events.Collective]]:
    """What ran in each step, in the order it was told."""
    heard: list[Any] = []
    exe = model.start().parallel(2, **strategies(**options))
    with events.subscribe(heard.append, events.OpRun, events.Collective):
        for step in range(steps):
            exe.run([model.loss], feed=batch(8, step))
    return [[event for event in heard if event.step == step] for step in range(steps)]


def ops(spans: list[Any]) -> Counter[tuple[str, int]]:
    """How often each type of op ran on each device, whatever was joined with what."""
    counts: Counter[tuple[str, int]] = Counter()
    for event in spans:
        if isinstance(event, events.OpRun):
            counts.update((kind, event.op.place.index) for kind in event.op.ops)
    return counts


def collectives(spans: list[Any]) -> Counter[tuple[str, str]]:
    """How often each variable was exchanged, and how."""
    collectives = [event for event in spans if isinstance(event, events.Collective)]
    return Counter((event.kind, name) for event in collectives for name in event.names)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_ops_are_told_of_both_lowerings(name: str, threads: int, tape: None) -> None:
    with costly_ops():
        observed = told(MODELS[name](), threads=threads)
        with override(cpu_tape=False):
            expected = told(MODELS[name](), threads=threads)
    for mine, theirs in zip(observed, expected, strict=True):
        assert ops(mine) == ops(theirs)
        assert collectives(mine) == collectives(theirs)
    assert sum(ops(observed[0]).values()) > 20


@in_both
@pytest.mark.parametrize("threads", [1, 2])
def test_spans_of_a_thread_follow_each_other_within_the_step(threads: int) -> None:
    """Ops, waits and collectives that are calls of their own; the time of others is part of that of ops."""
    heard: list[Any] = []
    model = mixed()
    exe = model.start().parallel(2, **strategies(threads=threads))
    with costly_ops(), events.subscribe(heard.append, *SPANS, events.Step):
        for number in range(3):
            exe.run([model.loss], feed=batch(8, number))
    for number in range(3):
        (step,) = [event for event in heard if isinstance(event, events.Step) and event.step == number]
        spans = [event for event in heard if isinstance(event, SPANS) and event.step == number]
        for thread in {event.thread for event in spans}:
            mine = [event for event in spans if event.thread == thread and not getattr(event, "within_ops", False)]
            for event, following in zip(mine, [*mine[1:], None], strict=True):
                assert event.start <= event.end
                assert following is None or event.end <= following.start
            assert step.start <= mine[0].start and mine[-1].end <= step.end
            assert sum(event.end - event.start for event in mine) <= step.end - step.start
        for event in spans:
            if isinstance(event, events.Collective) and event.within_ops:
                around = [op for op in spans if isinstance(op, events.OpRun) and op.start <= event.start <= op.end]
                assert around and event.end - event.start <= sum(op.end - op.start for op in spans if op is not event)
    assert threads == 1 or any(isinstance(event, events.Wait) for event in heard)


def test_what_is_one_row_of_the_tape_is_told_as_one_with_all_its_ops(tape: None) -> None:
    spans = [event for event in told(classifier(), 1)[0] if isinstance(event, events.OpRun)]
    joined = [event.op for event in spans if "+" in event.op.type]
    assert joined
    for op in joined:
        assert len(op.ops) >= len(op.type.split("+")) > 1
        assert op.outputs


def test_an_op_begins_after_what_it_waits_for_has_begun(tape: None) -> None:
    heard: list[Any] = []
    model = classifier()
    exe = model.start().parallel(2, **strategies(threads=2))
    with costly_ops(), events.subscribe(heard.append, events.OpRun):
        for step in range(20):
            exe.run([model.loss], feed=batch(8, step))
    graph = exe.graph([model.loss])
    number = {node: index for index, node in enumerate(graph.nodes)}
    across = 0
    for step in range(20):
        spans = {node: event for event in heard if event.step == step for node in event.op.nodes}
        for before, node, _ in edges(graph):
            first, second = spans.get(number[before]), spans.get(number[node])
            if first is not None and second is not None and first is not second:
                across += first.thread != second.thread
                assert first.start <= second.start
    assert across  # some waited for another thread
