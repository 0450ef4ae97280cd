"""One step of a binding: load, speculate, fetch, commit (promise 1: a step applies whole or not at all).

Until the commit nothing outside the arenas changes. The commit updates storage in place and copies staged values; it
allocates nothing, runs nothing of the user's, and no signal handler runs in the middle of it. Should one of its calls
raise all the same, the commit is taken to its end before the error leaves, so that the step has been applied whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, ExecutionError, Unavailable, located
from workbench.executors.failures import node_failure
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.operands import Cell
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.planning.plan import Row
from workbench.executors.workers.pool import Stopped
from workbench.executors.workers.task import Task
from workbench.framework.quiet import quietly
from workbench.framework.values.rows import Patch, dense
from workbench.graph.ssa import Graph
from workbench.runtime.ending import require_time
from workbench.runtime.storage.tensor import LoDTensor
from workbench.runtime.undisturbed import in_one_call, undisturbed

Fill = Callable[[], Any]
_task_of = attrgetter("task")


class Broken(ExecutionError):
    """A commit could be neither finished nor undone."""


def load(binding: Binding, fed: Fed) -> None:
    """Put what is fed where the plan reads it; what it does not read is left out."""
    sources = fed.sources
    arrays, cells = binding.fed_places.of(fed.plan)
    for place, name, index, target in arrays:
        target[...] = sources[place][name][index]
    for place, name, index, cell in cells:
        cell.value = np.array(sources[place][name][index])


def _run_in_python(binding: Binding, tasks: Sequence[Task]) -> None:
    """Run tasks of which some are Python's; NumPy says nothing of infinities and NaN."""
    quietly(partial(binding.pool.run, tasks))


def failed_row(programs: Sequence[ThreadProgram], error: BaseException) -> Row | None:
    """The row whose call raised `error`."""
    failed = [p for p in programs if not p.task.complete and p.task.done]
    own = [p for p in failed if p.task.error is error] or [p for p in failed if p.task.error is None] or failed
    return own[0].failed_row() if own else None


def explain(binding: Binding, programs: Sequence[ThreadProgram], error: Exception) -> Exception:
    """The error of a call, with the op it belongs to."""
    graph = binding.plan.graph
    if isinstance(error, Unavailable) and (stuck := [p.current_row() for p in programs if not p.task.resting]):
        return located(Unavailable("\n  ".join([str(error), *(_at(row, graph) for row in stuck)])))
    if isinstance(error, Stopped):
        require_time()  # who else stops a step
    row = None if isinstance(error, Stopped) else failed_row(programs, error)
    if row is None:
        return error
    known = isinstance(error, EnforceNotMet) and error.located
    explained: Any = error
    if not known:
        explained = node_failure(row.node, graph, binding.spec_of, error)
    elif graph.devices > 1:
        explained = _failure_inside(row, graph, error)
    explained.node = row.node
    return explained


def _failure_inside(row: Row, graph: Graph, error: Any) -> EnforceNotMet:
    """The error of an op in a body of control flow, which does not know the device; any other as it is."""
    node = row.node
    if not any(op.blocks() for op in node.origins) or type(error).__init__ is not EnforceNotMet.__init__:
        return error
    return located(type(error)(f"{error}\n  inside op {node.type!r} on {graph.places[node.place]}, at {node.site}"))


def _at(row: Row, graph: Graph) -> str:
    return f"it is at op {row.node.type!r} on {graph.names(row.node.places)}, built at {row.node.site}"


def commit(
    binding: Binding, programs: Sequence[ThreadProgram], counters: Sequence[LoDTensor], fills: Sequence[Fill]
) -> None:
    """Apply the step.

    Args:
        programs: the binding's commit, plain or watched.
        counters: step counters to move on. fills: C functions called at the end, such as copies of what was written.

    Raises:
        ExecutionError: a call raised; the step has been applied all the same.
        Broken: it could not be.
    """
    tasks = list(map(_task_of, programs))
    calls: list[Fill] = []
    for source, tensor in binding.writes.staged:
        calls += _putting(tensor, source.value) if type(source) is Cell else tensor.setting(source)
    calls += binding.writes.changed.counting()
    for counter in counters:
        calls += counter.taking(_next(counter))
    trouble = _perform(binding, tasks, [*calls, *fills])
    if trouble is not None:
        raise ExecutionError(
            f"a call of the commit raised {type(trouble).__name__}: {trouble}; the step has been applied whole, on "
            "all devices"
        ) from trouble


def _next(counter: LoDTensor) -> Any:
    return counter.array + 1 if counter.initialized else np.ones(1, np.int64)


def _putting(tensor: LoDTensor, value: Any) -> list[Fill]:
    """What puts an object aside into the scope."""
    if isinstance(value, Patch):
        return tensor.patching(value.rows, value.values)
    return tensor.setting(np.asarray(dense(np, value)))


def _perform(binding: Binding, tasks: Sequence[Task], calls: Sequence[Fill]) -> BaseException | None:
    """Run the tasks and then the calls, out of reach of signal handlers.

    Returns:
        what a task raised; it has been taken to its end.
    """
    over: list[bool] = []
    trouble = None
    first, last = _as_c_functions(binding, tasks)
    rest: Iterator[Fill] = iter([*calls, *last, partial(over.append, True)])
    if first is None:
        return undisturbed(partial(_run_all, binding, tasks, rest))
    try:
        in_one_call(chain(first, rest))
    finally:
        if not over:  # a kernel has declined
            trouble = undisturbed(partial(_run_all, binding, tasks, rest))
    return trouble


def _as_c_functions(binding: Binding, tasks: Sequence[Task]) -> tuple[list[Fill] | None, list[Fill]]:
    """C functions that run the tasks, None if Python has a part in that; and those that wind them back."""
    if len(tasks) > 1:
        return None, []
    (task,), control = tasks, binding.pool.control
    if not task.calls:
        return [], []
    if task.piece is None or control is None:
        return None, []
    if binding.pool.is_unsettled:
        binding.pool.begin()
    return [partial(control.run_through, task.piece.address)], [task.piece.rewinding()]


def _run_all(binding: Binding, tasks: Sequence[Task], calls: Iterator[Fill]) -> BaseException | None:
    trouble = _run_to_the_end(binding, tasks)
    in_one_call(calls)
    return trouble


def _run_to_the_end(binding: Binding, tasks: Sequence[Task]) -> BaseException | None:
    """Run all calls of the commit, whatever they raise on the first attempt."""
    for task in tasks:
        task.rewind()
    try:
        binding.pool.run(tasks) if binding.is_native else _run_in_python(binding, tasks)
        return None
    except BaseException as error:
        binding.pool.failed = False  # the others have stopped; what is left of them has to be run
        for task in tasks:
            _finish(task, error, binding.pool.timeout)
        return error


def _finish(task: Task, error: BaseException, patience: float) -> None:
    """Run what is left of a task, beginning with the call that raised: it had not done anything yet."""
    if not task.comes_to_rest(patience):
        raise Broken(f"the commit did not come to an end: {error}; {_HALF_DONE}") from error
    try:
        while not task.complete:
            task.run(max(task.done - 1, 0))
    except BaseException as again:
        raise Broken(f"a call of the commit raised {error!r}, and again {again!r}; {_HALF_DONE}") from again


_HALF_DONE = "the devices may differ now; load or set all parameters, and make a new executor"
