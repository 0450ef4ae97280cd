"""A step applies whole or not at all, on all devices, after whatever call a fault comes (promise 1)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import workbench as wb
from tests.parallel.lowerings import as_calls, in_both, on_tape, on_tapes
from tests.parallel.models import Model, batch, build
from tests.parallel.observe import Held, binding_of, bits, costly_ops, held, threads_of
from workbench import events, static
from workbench.errors import ExecutionError, PreconditionNotMet
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.running.transaction import Broken

MODES = ["AllReduce", "Reduce"]


def network() -> Model:
    """Parameters, optimizer state, statistics, a schedule, a counter, random numbers: every kind of state."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.batch_norm(static.nn.fc(x, 8, activation="relu"))
        h = wb.cast(wb.cast(wb.nn.functional.dropout(h, 0.3), "float64"), "float32")  # calls between kernels
        counter = static.create_global_var([1], 0.0, "float32", persistable=True, name="counter")
        counter.block.append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.05, 0.9)))


class Trained:
    """A model on two devices, with the bits it should hold after every step."""

    def __init__(self, model: Model, steps: int, threads: int = 1, mode: str = "AllReduce", **settings: Any) -> None:
        self.model, self.threads, self.mode, self.settings = model, threads, mode, settings
        self.fetches = [model.loss.name, "fc_0.w_0"]
        self.states: list[Held] = []
        self.results: list[Any] = []
        undisturbed = self.executor()
        for i in range(steps):
            self.results.append(bits(self.step(undisturbed, i)))
            self.states.append(held(undisturbed, model.main))
        assert len({tuple(sorted(s.items())) for s in self.states}) == steps
        self.exe = self.executor()
        self.step(self.exe, 0)
        assert held(self.exe, model.main) == self.states[0]

    def executor(self, scope: Any = None) -> Any:
        """One that begins from the start."""
        self.model.scope = static.Scope() if scope is None else scope
        self.model.start()
        building, execution = static.BuildStrategy(), static.ExecutionStrategy()
        building.reduce_strategy = static.BuildStrategy.ReduceStrategy[self.mode]
        execution.num_threads = self.threads
        for name, value in self.settings.items():
            setattr(building if name in building.OPTIONS else execution, name, value)
        return self.model.parallel(2, build_strategy=building, exec_strategy=execution)

    def step(self, exe: Any, number: int) -> Any:
        return exe.run(self.fetches, feed=batch(8, seed=number))

    def bound(self) -> Binding:
        return binding_of(self.exe, self.fetches, batch(8))

    def goes_on_from(self, number: int) -> None:
        """The next step has the results and leaves the state of an undisturbed run."""
        assert bits(self.step(self.exe, number)) == self.results[number]
        assert held(self.exe, self.model.main) == self.states[number]


class Injected(Exception):
    pass


class Fault:
    """A call that raises, `times` times."""

    def __init__(self, times: int = 1, error: type[BaseException] = Injected) -> None:
        self.times, self.error = times, error

    def __call__(self) -> None:
        if self.times:
            self.times -= 1
            raise self.error("injected")


@contextlib.contextmanager
def call_at(program: ThreadProgram, k: int, call: Callable[[], Any]) -> Iterator[None]:
    """One more call before the k-th of a thread, or behind the last."""
    ends, piece = list(program.ends), program.task.piece
    program.task.calls.insert(k, call)
    program.task.piece = None  # it is not the only call any more
    program.ends[:] = [end + 1 if end > k or end == ends[-1] else end for end in ends]
    try:
        yield
    finally:
        program.task.calls.remove(call)
        program.task.piece = piece
        program.ends[:] = ends


def places_of(programs: list[ThreadProgram]) -> list[tuple[ThreadProgram, int]]:
    """Everywhere a call may be put: before the first, and after every single one."""
    return [(p, k) for p in programs if p.task.calls for k in range(len(p.task.calls) + 1)]


# A fault after every single call


@in_both
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("threads", "observed"), [(1, False), (4, False), (4, True)])
def test_a_fault_after_any_call_of_the_speculative_part_changes_nothing(
    threads: int, mode: str, observed: bool, quick_polls: None
) -> None:
    with costly_ops(), contextlib.ExitStack() as stack:
        if observed:
            stack.enter_context(events.subscribe(lambda event: None, events.OpRun))
        t = Trained(network(), 160, threads, mode)
        bound = t.bound()
        assert threads_of(bound) == threads
        watching = t.exe.inspection.last_step.watching
        programs = watching.programs(True, False).speculative if observed else bound.speculative
        done, tried = 1, 0
        for program, k in places_of(programs):
            with call_at(program, k, Fault()), pytest.raises(ExecutionError, match=r"op '\w+' failed on cpu:.*: inj"):
                t.step(t.exe, done)
            assert held(t.exe, t.model.main) == t.states[done - 1], f"call {k} left something behind"
            tried += 1
            if tried % 3 == 0:
                t.goes_on_from(done)
                done += 1
        assert tried > (1 if on_tape() else 50)
        t.goes_on_from(done)
        assert t.bound() is bound


@as_calls
def test_the_error_names_the_op_whose_call_failed() -> None:
    t = Trained(network(), 2)
    (program,) = t.bound().speculative
    for part, end in zip(program.units, list(program.ends), strict=True):
        if part.calls:
            with call_at(program, end - 1, Fault()), pytest.raises(ExecutionError) as caught:
                t.step(t.exe, 1)
            node = part.row.node
            where = ", ".join(f"cpu:{place}" for place in node.places)
            assert str(caught.value).startswith(f"op {node.type!r} failed on {where}: injected")
            assert str(caught.value).endswith(f"at {node.site}")
            assert node.site.file.startswith(os.path.dirname(os.path.dirname(__file__)))


@on_tapes
@pytest.mark.parametrize(("mode", "fused"), [("AllReduce", True), ("AllReduce", False), ("Reduce", False)])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_commit_whose_call_raises_is_taken_to_its_end(
    threads: int, mode: str, fused: bool, quick_polls: None
) -> None:
    with costly_ops():
        t = Trained(network(), 300, threads, mode, fuse_all_optimizer_ops=fused)
        everywhere = places_of(t.bound().commit)
        assert everywhere
        for done, (program, k) in enumerate(everywhere, start=1):
            whole = r"a call of the commit raised Injected: injected; the step has been applied whole, on all devices"
            with call_at(program, k, Fault()), pytest.raises(ExecutionError, match=whole):
                t.step(t.exe, done)
            assert held(t.exe, t.model.main) == t.states[done], f"call {k} left the step unfinished"
        t.goes_on_from(len(everywhere) + 1)


@on_tapes
def test_in_the_commit_of_several_threads_all_may_fail(quick_polls: None) -> None:
    with costly_ops():
        t = Trained(network(), 3, 4, "Reduce")
        busy = [p for p in t.bound().commit if p.task.calls]
        assert len(busy) > 1
        with contextlib.ExitStack() as stack:
            for program in busy:
                stack.enter_context(call_at(program, 0, Fault()))
            with pytest.raises(ExecutionError, match="applied whole"):
                t.step(t.exe, 1)
        assert held(t.exe, t.model.main) == t.states[1]
        t.goes_on_from(2)


@in_both
@pytest.mark.parametrize("threads", [1, 4])
def test_a_commit_that_cannot_be_finished_ends_the_executor(threads: int, quick_polls: None) -> None:
    with costly_ops():
        t = Trained(network(), 3, threads)
        program = t.bound().commit[-1]
        with call_at(program, 0, Fault(2)), pytest.raises(Broken, match=r"raised Injected\('injected'\), and again"):
            t.step(t.exe, 1)
        left = held(t.exe, t.model.main)
        for _ in range(2):
            with pytest.raises(PreconditionNotMet, match=r"the executor cannot run: .*make a new executor"):
                t.step(t.exe, 1)
        assert held(t.exe, t.model.main) == left
        t.exe = t.executor(t.model.scope)  # runs the startup program, too
        t.goes_on_from(0)


@in_both
def test_a_commit_that_raised_counts_as_a_step() -> None:
    t, seen = Trained(network(), 3), []
    with events.subscribe(seen.append, events.Step, events.Error):
        (program,) = t.exe.inspection.last_step.watching.programs(False, False).commit
        with call_at(program, 1, Fault()), pytest.raises(ExecutionError, match="applied whole"):
            t.step(t.exe, 1)
    assert [(type(event), event.step) for event in seen] == [(events.Step, 1)]


# Ctrl-C


def spin() -> None:
    """Let a pending signal be delivered."""
    for _ in range(1000):
        pass
