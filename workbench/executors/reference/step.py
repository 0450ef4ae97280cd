"""One step of a program in a scope: speculate, then commit (promise 1: a step applies whole or not at all).

*Speculate* runs every operator on values held aside; what would change a persistable variable is staged.
*Commit* copies the staged values into the scope. It runs no user code, everything it allocates it allocates before
the first write, and it is one call of C code, so that no signal handler runs in the middle of it.

Threads may run programs in one scope: a step whose parameters another thread has changed meanwhile does not commit,
and is run again (`InterpretedStep.commit`). So steps of one scope have the effect of one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, NotFound, PreconditionNotMet
from workbench.executors.reference.calls import Call, Pairs, Values, make_calls, run_call, without_value
from workbench.executors.reference.runner import OpRunner
from workbench.framework.program.failures import require_agreement
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.order import feeds_of, written_first
from workbench.framework.program.variable import Variable
from workbench.framework.quiet import quietly
from workbench.framework.values.rows import dense
from workbench.framework.values.spec import spec_of
from workbench.graph.loss import perhaps
from workbench.runtime.servers.standing import applied, exchanges_of
from workbench.runtime.storage.ownership import initial_values_of, owner_of
from workbench.runtime.storage.scope import Scope, ScopeVariable
from workbench.runtime.storage.tensor import LoDTensor
from workbench.runtime.undisturbed import in_one_call


@dataclass
class Prepared:
    """A program made ready to run.

    Attributes:
        calls: the operators of the global block.
        reads: persistable variables whose value is taken from the scope.
        persistables: names of all persistable variables.
        initialises: those that are written without being read before, as a startup program does.
        feeds: every feed the program reads, with its first reader.
        draws: whether some op draws random numbers anew in every step.
        blocks: calls of sub-blocks, made when they first run.
    """

    program: Program
    calls: list[Call]
    reads: list[Variable]
    persistables: frozenset[str]
    initialises: frozenset[str]
    feeds: dict[str, Operator]
    draws: bool
    blocks: dict[int, list[Call]] = field(default_factory=dict)


def prepare(program: Program, fetches: Sequence[str]) -> Prepared:
    """Look everything up once."""
    block = program.global_block()
    persistables = frozenset(v.name for v in block.vars.values() if v.persistable)
    calls = make_calls(block, {*persistables, *fetches})
    names = {n for call in calls for n in call.op.value_names if n in persistables}
    names.update(persistables.intersection(fetches).difference(*(call.written for call in calls)))
    reads = [block.vars[n] for n in sorted(names)]
    draws = any(op.draws for op in program.all_ops())
    initialises = written_first(block) & persistables
    return Prepared(program, calls, reads, persistables, initialises, feeds_of(block), draws)


class InterpretedStep:
    """A run of a prepared program."""

    def __init__(self, prepared: Prepared, scope: Scope, feed: dict[str, Any], place_index: int = 0) -> None:
        self.prepared, self.scope = prepared, scope
        self.values: Values = {}
        self.staged: dict[str, Any] = {}
        self.seen: list[tuple[LoDTensor, int]] = []
        self._load(feed)
        self.rng_step = self._rng_step()
        self.runner = OpRunner(prepared.program, place_index, prepared.blocks, self.rng_step)

    def speculate(self) -> None:
        """Run every operator; the scope is not touched.

        A missing feed is told before anything runs. NumPy's warnings about infinities and NaN are off: they name
        our lines; FLAGS_check_nan_inf names the user's.
        """
        for name, reader in self.prepared.feeds.items():
            if name not in self.values:
                raise without_value(reader, name)
        quietly(self._run_calls)

    def _run_calls(self) -> None:
        values, persistables = self.values, self.prepared.persistables
        for call in self.prepared.calls:
            outputs = run_call(call, values, self.runner.of_call)
            if not persistables.isdisjoint(call.written):
                outputs = self._stage(call, outputs)
            values.update(outputs)
            for name in call.frees:
                values.pop(name, None)

    def _stage(self, call: Call, outputs: Pairs) -> Pairs:
        """Hold back what would change the scope."""
        persistables = self.prepared.persistables
        owned = [(n, _own(v, call, self.values) if n in persistables else v) for n, v in outputs]
        self.staged.update((n, v) for n, v in owned if n in persistables)
        return owned

    def fetch(self, name: str) -> Any:
        """The newest value of a variable.

        Raises:
            NotFound: the program has no such variable. PreconditionNotMet: nothing gave it a value.
            InvalidArgument: the variable is a feed and was not fed.
        """
        if name in self.values:
            return self.values[name]
        block = self.prepared.program.global_block()
        if not block.has_var(name):
            variable = self.scope.find_var(name)
            if variable is not None and variable.tensor.initialized:
                return variable.tensor.array
            raise NotFound(
                f"fetch {name!r}: the program has no such variable.{perhaps(name, self.prepared.program)} "
                "Only variables that an op reads or writes can be fetched"
            )
        if block.var(name).is_data:
            raise InvalidArgument(f"fetch {name!r}: the variable is a feed and nothing was fed for it")
        raise PreconditionNotMet(f"fetch {name!r}: nothing gave the variable a value; run the startup program first")

    def commit(self) -> bool:
        """Put the staged values into the scope, all of them or none.

        Returns:
            False if another thread has changed something since this step read it; then nothing was written.

        Raises:
            Unavailable: another thread has kept the scope for itself for minutes.
        """
        with self.scope.in_use():
            calls = self._putting()  # before the look, which nothing of this thread's is to come behind
            is_fresh = all(tensor.version == version for tensor, version in self.seen)
            if is_fresh:
                in_one_call(calls)
        return is_fresh

    def _putting(self) -> list[Callable[[], Any]]:
        """What puts the staged values into the scope: C functions."""
        program, staged = self.prepared.program, dict(self.staged)
        if self.prepared.draws and program.rng_step:
            staged[program.rng_step] = np.array([self.rng_step + 1], np.int64)
        new, initialises = dict[str, ScopeVariable](), self.prepared.initialises
        owner, initial = (owner_of(program), initial_values_of(program)) if initialises else (None, {})
        calls: list[Callable[[], Any]] = [partial(self.scope.root.vars.update, new)]
        for name, value in staged.items():
            target = self.scope.find_var(name) or new.setdefault(name, ScopeVariable(name))
            calls += target.tensor.setting(value)
            if name in initialises:
                noted = {"owner": owner, "initial": initial.get(name)}
                calls += [partial(setattr, target, *each) for each in noted.items()]
        return [*calls, *applied(exchanges_of(program))]

    def _load(self, feed: dict[str, Any]) -> None:
        """Values the step begins with: persistables, learning rates, feeds."""
        for variable in self.prepared.reads:
            held = self.scope.find_var(variable.name)
            if held is not None and held.tensor.initialized:
                self.seen.append((held.tensor, held.tensor.version))  # before the value is looked at
                array = self.values[variable.name] = held.tensor.array
                if array.shape != variable.shape or array.dtype != variable.dtype.numpy:
                    require_agreement(variable, spec_of(array), "")
        for name, scheduler in self.prepared.program.lr_schedulers.items():
            dtype = self.prepared.program.global_block().var(name).dtype.numpy
            self.values[name] = self.staged[name] = np.array([scheduler()], dtype)  # P-48
        for name, value in feed.items():
            self.values[name] = value
            if name in self.prepared.persistables:
                self.staged[name] = self.values[name] = np.array(value)

    def _rng_step(self) -> int:
        name = self.prepared.program.rng_step
        variable = self.scope.find_var(name) if name else None
        if variable is None or not variable.tensor.initialized:
            return 0
        if self.prepared.draws:
            self.seen.append((variable.tensor, variable.tensor.version))
        return int(variable.tensor.array[0])


def _own(value: Any, call: Call, values: Values) -> Any:
    """`value`, copied if its memory may belong to something else that a commit writes to."""
    value = np.asarray(dense(np, value))
    borrowed = value.base is not None or any(values.get(n) is value for n in call.op.input_arg_names)
    return value.copy() if borrowed else value
