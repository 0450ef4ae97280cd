"""A step on the observed plan: node by node in program order, with every value at hand, and applied only on demand.

The observed plan fuses nothing, lets no two values share memory and writes to no scope; so until `apply` nothing
outside the step's own memory changes, and whoever leaves it midway leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from workbench.errors import NotFound, PreconditionNotMet, did_you_mean
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.thread_program import PythonRow, ThreadProgram
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.transaction import Fill, explain
from workbench.executors.running.watching.watch import blemish, blemished
from workbench.framework.outside import is_from_outside
from workbench.framework.quiet import quietly
from workbench.graph.ssa import Graph, Node, Value
from workbench.runtime.blas import one_blas_thread


class Observation:
    """A step that has begun.

    Its memory, about the sum of all values of the step, is its own and goes with it.

    Args:
        fed: what the devices are fed; loaded at once.
        finite: raise ExecutionError for the first node that makes a NaN or an Inf.

    Attributes:
        parts: what there is to run, in program order; at: how many of them have run.
        numbers: of the nodes, as in the printed graph.
        newest: of every variable, by (name, device), the value it has at this point.

    Raises:
        EnforceNotMet: as `run` of the executor would, for a feed or a parameter that is missing.
    """

    def __init__(self, engine: Engine, fetches: Sequence[str], fed: Fed, finite: bool = False) -> None:
        self.engine, self.fed, self.at, self._finite = engine, fed, 0, finite
        self.begun = perf_counter_ns()
        self._step = engine.by_hand(fetches, fed)
        self.binding = self._step.bound.binding
        counters = ((engine.program.rng_step, *counter) for counter in enumerate(self._step.counters))
        standing_on = [*self.binding.storage.tensors(), *counters]
        self._seen = {(name, place): (tensor, tensor.version) for name, place, tensor in standing_on}
        self.graph: Graph = self.binding.plan.graph
        self.numbers = {node: number for number, node in enumerate(self.graph.nodes)}
        (program,) = self.binding.speculative
        rows = [unit for unit in program.units if isinstance(unit, PythonRow)]
        self.rows = sorted(rows, key=lambda row: self.numbers[row.row.node])
        self.newest: dict[tuple[str, int], Value] = {(v.name, v.place): v for v in self.binding.plan.feeds}

    @property
    def next_node(self) -> Node | None:
        """The node that runs next, None at the end."""
        return self.rows[self.at].row.node if self.at < len(self.rows) else None

    def todo(self) -> list[Node]:
        """The nodes that have not run."""
        return [row.row.node for row in self.rows[self.at :]]

    def advance(self) -> Node:
        """Run the next node. Should it be interrupted, it can be run again: it has no memory but its results.

        Raises:
            EnforceNotMet: its op failed. PreconditionNotMet: a value it reads has changed since the step began.
        """
        row = self.rows[self.at]
        node = row.row.node
        self._require_unchanged([(v.name, v.place) for v in node.reads if v.persistable])
        _run(self.binding, row)
        self.at += 1
        self.newest.update(((v.name, v.place), v) for v in node.writes)
        if self._finite:
            for value, data in blemished(self.binding, row.row):
                raise blemish(self.binding, row.row, value, data)
        return node

    def advance_to_the_end(self) -> None:
        """Run all nodes that are left."""
        while self.at < len(self.rows):
            self.advance()

    def apply(self, return_numpy: bool, merged: bool, *ended: Fill) -> list[Any]:
        """Commit a step of which all nodes have run.

        Args:
            ended: C functions that are part of the commit: called if, and only if, the step is applied.

        Returns:
            the fetched values.

        Raises:
            PreconditionNotMet: what it read or would change has changed since it began.
        """
        self._require_unchanged(list(self._seen))
        results, fills = self._step.bound.collector.collect(return_numpy, merged)
        number, reporter = self.engine.steps, self.engine.reporter
        reporter.fed(number, self.begun, self.fed)
        self._step.apply([*fills, *ended])
        reporter.stepped(number, self.begun, perf_counter_ns(), self.fed)
        return results

    # Looking

    def current(self, name: str, device: int, version: int | None = None) -> Any:
        """What a variable holds at this point, not copied: an array, or an object.

        Args:
            version: None for the newest.

        Raises:
            PreconditionNotMet: it has not been computed yet; or nobody has given it a value.
            NotFound: the step has no such variable, or no such version of it.
        """
        value = self._newest(name, device) if version is None else self._versioned(name, device, version)
        content = self._outside(name, device) if value is None else self.binding.current(value)
        if content is None:
            raise PreconditionNotMet(f"{name!r} has no value on {self.graph.places[device]}")
        return content

    def _newest(self, name: str, device: int) -> Value | None:
        newest = self.newest.get((name, device))
        makers = [node for node in self.todo() if any((v.name, v.place) == (name, device) for v in node.writes)]
        last = self.graph.newest.get((name, device))
        if newest is None and makers and last is not None and not last.persistable:
            raise self._not_yet(makers[0], name)
        return newest

    def _versioned(self, name: str, device: int, version: int) -> Value:
        wanted = name, device, version
        for value in self.binding.plan.feeds:
            if (value.name, value.place, value.version) == wanted:
                return value
        for node in self.numbers:
            for value in node.writes:
                if (value.name, value.place, value.version) == wanted:
                    if node in self.todo():
                        raise self._not_yet(node, name)
                    return value
        raise NotFound(f"the step has no version {version} of {name!r} on {self.graph.places[device]}")

    def _not_yet(self, node: Node, name: str) -> PreconditionNotMet:
        following = self.numbers[self.todo()[0]]
        return PreconditionNotMet(
            f"{name!r} has not been computed yet: node #{self.numbers[node]} {node.type!r} makes it, and #{following} "
            f"is next\n  at {node.site}"
        )

    def _outside(self, name: str, device: int) -> Any:
        """A persistable variable the step does not read."""
        variable = self.graph.program.global_block().vars.get(name)
        if variable is not None and variable.persistable:
            tensor = self.engine.replicas.find(name, device)
            return None if tensor is None else tensor.array
        known = dict.fromkeys(n for n, place in self.graph.newest if place == device)
        if variable is None:
            raise NotFound(f"the program has no variable {name!r}.{did_you_mean(name, known)}")
        raise NotFound(
            f"no node of this step reads or writes {name!r} on {self.graph.places[device]}; what nobody uses is left "
            "out unless it is in the fetch_list"
        )

    # Guarding

    def _require_unchanged(self, keys: Sequence[tuple[str, int]]) -> None:
        """The step stands on the values it began with; another step, a load or a `set()` takes them away."""
        whole = self.binding.storage.is_current()
        for key in keys if whole else self._seen:
            tensor, version = self._seen.get(key, (None, 0))
            if tensor is not None and tensor.version != version:
                raise _changed(f"{key[0]!r} of {self.graph.places[key[1]]} has changed")
        if not whole:
            raise _changed("variables of the scope have been moved or dropped")


def _changed(what: str) -> PreconditionNotMet:
    return PreconditionNotMet(
        f"the step cannot go on: {what} since it began; nothing has been applied, begin another step"
    )


def _run(binding: Binding, row: PythonRow) -> None:
    program = ThreadProgram()
    program.add(row)
    try:
        one_blas_thread.run(partial(quietly, program.task.run))
    except Exception as error:
        explained = error if is_from_outside(error) else explain(binding, [program], error)
        if explained is error:
            raise
        raise explained from error
