"""Executor: runs a program's operators in order on one device. The definition of correct (rules E-1 … E-14)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from time import perf_counter_ns
from typing import Any

from workbench import between
from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, PreconditionNotMet, Unavailable
from workbench.executors.cache import Cache
from workbench.executors.compiled import CompiledProgram
from workbench.executors.engine import snapshot
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feed import Feed, as_dict, check_feed
from workbench.executors.feed_notes import note_rows
from workbench.executors.fetch import split_optimize_ops, to_user
from workbench.executors.moment import Copies, Guard, Moment
from workbench.executors.ownership import warn_of_overwriting
from workbench.executors.step import Prepared, Step, prepare
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.prune import prune
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.program.variable import Variable
from workbench.framework.values.place import CPUPlace, CUDAPlace, Place
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.devices import require_gpu
from workbench.runtime.ending import require_time
from workbench.runtime.scope import Scope, global_scope

_CACHE_SIZE = 64  # programs; a cached one is kept alive
_ATTEMPTS = 100


class Executor:
    """Runs programs on one place.

    Args:
        place: `CPUPlace()` (default).

    Raises:
        InvalidType: not a place. Unavailable: a place this machine or version does not serve.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> (value,) = executor.run(feed={"x": np.ones((6, 4), np.float32)}, fetch_list=[loss])
        >>> value.shape
        (1,)
    """

    def __init__(self, place: Place | None = None) -> None:
        place = CPUPlace() if place is None else place
        if not isinstance(place, Place):
            raise InvalidType(f"Executor takes a place such as CPUPlace(), got {place!r}")
        if isinstance(place, CUDAPlace):
            require_gpu()
        self.place = place
        self._closed = False
        self._guards: tuple[Guard, ...] = ()
        self._prepared: Cache[Prepared] = Cache(_CACHE_SIZE)
        self._pruned: Cache[Program] = Cache(_CACHE_SIZE)

    def run(
        self,
        program: Program | CompiledProgram | None = None,
        feed: Feed = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run every operator of a program once.

        The step applies whole or not at all: if anything fails or is interrupted, no parameter, statistic or
        counter in the scope has changed.

        Args:
            program: the default main program if None; a CompiledProgram runs on its devices.
            feed: {name: array}, or a list of one such dict.
            fetch_list: Variables or names; optimizer operators in it switch `use_prune` on.
            feed_var_name, fetch_var_name: accepted for compatibility; feeds and fetches need no variables here.
            scope: where persistable variables live; `global_scope()` if None.
            return_numpy: ndarrays if True, LoDTensors otherwise; both are copies.
            use_program_cache: accepted for compatibility; prepared programs are always kept.
            return_merged: of several devices, join their values along dimension 0; False gives a list per variable.
            use_prune: run only what the fetches and the listed optimizer operators need.

        Returns:
            one entry per fetched variable.

        Several threads may run programs in one scope; their steps have the effect of one after the other.

        Raises:
            EnforceNotMet: closed executor; a subclass for a wrong feed or fetch, or an op that fails.
            Unavailable: the process is ending.
        """
        if self._closed:
            raise EnforceNotMet("the executor is closed")
        require_time()
        program = default_main_program() if program is None else program
        scope = global_scope() if scope is None else scope
        if not isinstance(scope, Scope):
            raise InvalidType(f"Executor.run takes a Scope as scope, got {scope!r}")
        if isinstance(program, CompiledProgram):
            return program.run_with(self.place, scope, feed, fetch_list, return_numpy, return_merged, use_prune)
        if not isinstance(program, Program):
            raise InvalidType(f"Executor.run takes a Program, got {program!r}")
        if perf_counter_ns() >= between.due:
            between.visit()
        fetches, optimize_ops = split_optimize_ops(fetch_list)
        names = [f.name if isinstance(f, Variable) else f for f in fetches]
        if not program.global_block().ops and not names:
            warnings.warn("the program has no operators; nothing was run", stacklevel=2)
            return []
        if use_prune or optimize_ops:
            program, feed = self._prune(program, feed, names, optimize_ops)
        arrays, prepared = check_feed(program, feed), self._prepare(program, names)
        step, results = self._speculate(prepared, scope, arrays, names, return_numpy)
        if prepared.initialises:
            warn_of_overwriting(program, prepared.initialises, scope)
        if step.commit():
            return results
        with scope.in_use():  # another thread changed what the step had read: again, while the others wait
            for _ in range(_ATTEMPTS):
                step, results = self._speculate(prepared, scope, arrays, names, return_numpy)
                if step.commit():
                    return results
        raise Unavailable("other threads keep setting variables of the scope while the program runs")

    def _speculate(
        self, prepared: Prepared, scope: Scope, arrays: dict[str, Any], names: list[str], return_numpy: bool
    ) -> tuple[Step, list[Any]]:
        """A step that is ready to commit, and what was fetched."""
        step = Step(prepared, scope, arrays, self.place.index)
        try:
            step.speculate()
        except InvalidArgument as error:
            note_rows(error, prepared.program, {n: len(a) for n, a in arrays.items() if a.ndim})
            raise
        if self._guards and not step.is_finite(names):
            self._call_guards(step, arrays, names)
        return step, [to_user(step.fetch(name), return_numpy) for name in names]

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Have `guard(take)` called when a step that is about to be applied has a NaN or an Inf in it.

        See `Engine.guard`. Of the steps of CompiledPrograms it is not called: these have an engine.
        """
        self._guards = (*self._guards, guard)
        return lambda: self._dismiss(guard)

    def _dismiss(self, guard: Guard) -> None:
        self._guards = tuple(other for other in self._guards if other is not guard)

    def _call_guards(self, step: Step, feed: dict[str, Any], fetches: list[str]) -> None:
        found = cache(lambda: self._moment(step, feed, fetches))
        for guard in self._guards:
            guard(found)

    def _moment(self, step: Step, feed: dict[str, Any], fetches: list[str]) -> Moment:
        """What a step that has not been applied began with: that is still what the scope holds."""
        prepared, copied = step.prepared, Copies()
        program = snapshot(prepared.program)
        held = {read.name: step.scope.find_var(read.name) for read in prepared.reads}
        state = {n: copied.of(v.tensor.array) for n, v in held.items() if v is not None and v.tensor.initialized}
        for name in (*program.lr_schedulers, program.rng_step):
            state.pop(name or "", None)
        return Moment(
            0, program, tuple(fetches), (self.place,), prepared.loss, BuildStrategy(), ExecutionStrategy(), False,
            [{name: copied.of(array) for name, array in feed.items()}], [state],
            {name: float(scheduler()) for name, scheduler in program.lr_schedulers.items()}, [step.rng_step],
        )  # fmt: skip

    def close(self) -> None:
        """Refuse further runs."""
        self._closed = True
        self._prepared.clear()
        self._pruned.clear()

    @staticmethod
    def _split_optimize_ops_in_fetch_list(fetch_list: Any) -> tuple[list[Any], list[Operator]]:
        """(fetch list without optimizer operators, the operators); Paddle's name for it (E-3)."""
        return split_optimize_ops(fetch_list)

    def _prepare(self, program: Program, fetches: list[str]) -> Prepared:
        key = (program.uid, program.version, *fetches)
        # A startup program runs once; keeping it would make it look as if somebody still used its model.
        return self._prepared.get(key, lambda: prepare(program, fetches), keep=lambda made: not made.initialises)

    def _prune(
        self, program: Program, feed: Feed, fetches: list[str], optimize_ops: list[Operator]
    ) -> tuple[Program, dict[str, Any]]:
        """The part of the program the targets need, and the feeds that are left (E-5)."""
        given = {k.name if isinstance(k, Variable) else k: v for k, v in as_dict(feed, program).items()}
        block = program.global_block()
        if any(op.block is not block for op in optimize_ops):
            raise PreconditionNotMet("fetch_list holds optimizer operators of another program")
        keep = optimize_ops or [op for op in block.ops if op.role & OPTIMIZE]
        if not (fetches or keep):
            return program, dict(given)  # a startup program: no target to prune for
        key = (program.uid, program.version, tuple(fetches), tuple(sorted(given)), tuple(map(id, keep)))
        found = self._pruned.get(key, lambda: prune(program, fetches, list(given), keep))
        left = {}
        for name, value in given.items():
            if block.has_var(name) and not found.global_block().has_var(name):
                warnings.warn(f"feed {name!r} is not needed by what is run and was dropped", stacklevel=3)
            else:
                left[name] = value
        return found, left
