"""One step of a program in a scope: speculate, then commit (promise 1: a step applies whole or not at all).

*Speculate* runs every operator on values held aside; what would change a persistable variable is staged.
*Commit* copies the staged values into the scope. It allocates nothing that can fail, runs no user code, and
holds Ctrl-C back until it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, NotFound, PreconditionNotMet, did_you_mean
from workbench.executors.calls import Call, Values, make_calls, run_call
from workbench.executors.ownership import owner_of, written_first
from workbench.executors.streams import stream_of
from workbench.framework.block import Block
from workbench.framework.program import Program
from workbench.runtime.interrupt import deferred_interrupt
from workbench.runtime.scope import Scope, ScopeVariable


@dataclass
class Prepared:
    """A program made ready to run.

    Attributes:
        calls: the operators of the global block.
        reads: persistable variables whose value is taken from the scope.
        persistables: names of all persistable variables.
        initialises: those that are written without being read before, as a startup program does.
        draws: whether some op draws random numbers anew in every step.
        blocks: calls of sub-blocks, made when they first run.
    """

    program: Program
    calls: list[Call]
    reads: list[str]
    persistables: frozenset[str]
    initialises: frozenset[str]
    draws: bool
    blocks: dict[int, list[Call]]


def prepare(program: Program, fetches: Sequence[str]) -> Prepared:
    """Look everything up once."""
    block = program.global_block()
    persistables = frozenset(v.name for v in block.vars.values() if v.persistable)
    calls = make_calls(block, {*persistables, *fetches})
    reads = {n for call in calls for n in call.op.input_arg_names if n in persistables}
    reads.update(n for n in fetches if n in persistables)
    draws = any("rng" in op.record.needs and not op.attrs.get("startup") for op in program.all_ops())
    return Prepared(program, calls, sorted(reads), persistables, written_first(block) & persistables, draws, {})


class Step:
    """A run of a prepared program."""

    def __init__(self, prepared: Prepared, scope: Scope, feed: dict[str, Any], place_index: int = 0) -> None:
        self.prepared, self.scope, self.place_index = prepared, scope, place_index
        self.values: Values = {}
        self.staged: dict[str, Any] = {}
        self.trips: tuple[int, ...] = ()
        self._load(feed)
        self.rng_step = self._rng_step()

    def speculate(self) -> None:
        """Run every operator; the scope is not touched.

        NumPy's warnings about infinities and NaN are off: they name our lines; FLAGS_check_nan_inf names the user's.
        """
        with np.errstate(all="ignore"):
            self._run_calls()

    def _run_calls(self) -> None:
        for call in self.prepared.calls:
            for name, value in run_call(call, self.values, self.extras):
                if name in self.prepared.persistables:
                    value = self.staged[name] = _own(value, call, self.values)
                self.values[name] = value
            for name in call.frees:
                self.values.pop(name, None)

    def fetch(self, name: str) -> Any:
        """The newest value of a variable.

        Raises:
            NotFound: the program has no such variable. PreconditionNotMet: nothing gave it a value.
        """
        if name in self.values:
            return self.values[name]
        block = self.prepared.program.global_block()
        if not block.has_var(name):
            found = self.scope.find_var(name)
            if found is not None and found.tensor.initialized:
                return found.tensor.array
            raise NotFound(
                f"fetch {name!r}: the program has no such variable.{did_you_mean(name, block.vars)} "
                "Only variables that an op reads or writes can be fetched"
            )
        if block.var(name).is_data:
            raise InvalidArgument(f"fetch {name!r}: the variable is a feed and nothing was fed for it")
        raise PreconditionNotMet(f"fetch {name!r}: nothing gave the variable a value; run the startup program first")

    def commit(self) -> None:
        """Put the staged values into the scope, all of them or none."""
        targets = [(self._target(name), value) for name, value in self.staged.items()]
        if self.prepared.draws and self.prepared.program.rng_step:
            targets.append((self._target(self.prepared.program.rng_step), np.array([self.rng_step + 1], np.int64)))
        initialises = self.prepared.initialises
        owner = owner_of(self.prepared.program) if initialises else None
        with deferred_interrupt():
            for target, value in targets:
                target.tensor.take(value)
                if target.name in initialises:
                    target.owner = owner

    def extras(self, call: Call, values: Values) -> dict[str, Any]:
        """What an op `needs` besides its attributes."""
        extra: dict[str, Any] = {}
        if "rng" in call.needs:
            extra["rng"] = stream_of(
                call.op, self.prepared.program.random_seed, self.place_index, self.rng_step, self.trips
            )
        if "run_block" in call.needs:
            extra["run_block"] = self.run_block
        if "place" in call.needs:
            extra["place"] = self.place_index
        return extra

    def run_block(self, block: Block, given: Values, wanted: Sequence[str], trip: int = 0) -> list[Any]:
        """Run a sub-block on `given` values.

        Args:
            given: everything the block reads from outside.
            wanted: names whose values are returned, in order.
            trip: number of the pass through a loop body; keeps random streams of passes apart.
        """
        calls = self.prepared.blocks.get(block.idx)
        if calls is None:
            calls = self.prepared.blocks[block.idx] = [_without_frees(c) for c in make_calls(block, ())]
        values, old = dict(given), self.trips
        self.trips = (*old, trip)
        try:
            for call in calls:
                values.update(run_call(call, values, self.extras))
        finally:
            self.trips = old
        return [values[name] for name in wanted]

    def _load(self, feed: dict[str, Any]) -> None:
        """Values the step begins with: persistables, learning rates, feeds."""
        for name in self.prepared.reads:
            found = self.scope.find_var(name)
            if found is not None and found.tensor.initialized:
                self.values[name] = found.tensor.array
        for name, scheduler in self.prepared.program.lr_schedulers.items():
            dtype = self.prepared.program.global_block().var(name).dtype.numpy
            self.values[name] = self.staged[name] = np.array([scheduler()], dtype)  # P-48
        for name, value in feed.items():
            self.values[name] = value
            if name in self.prepared.persistables:
                self.staged[name] = self.values[name] = np.array(value)

    def _rng_step(self) -> int:
        name = self.prepared.program.rng_step
        found = self.scope.find_var(name) if name else None
        return int(found.tensor.array[0]) if found is not None and found.tensor.initialized else 0

    def _target(self, name: str) -> ScopeVariable:
        return self.scope.find_var(name) or self.scope.root.var(name)


def _own(value: Any, call: Call, values: Values) -> Any:
    """`value`, copied if its memory may belong to something else that a commit writes to."""
    if not isinstance(value, np.ndarray):
        return np.array(value.to_dense() if hasattr(value, "to_dense") else value)
    borrowed = value.base is not None or any(values.get(n) is value for n in call.op.input_arg_names)
    return value.copy() if borrowed else value


def _without_frees(call: Call) -> Call:
    call.frees = []
    return call
