"""Executor: runs programs on one place (rules E-1 … E-14): a front of the engine that all executors share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from workbench.config import FLAG_VALUES
from workbench.errors import EnforceNotMet, InvalidType, NotFound
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.compiled_programs import CompiledPrograms
from workbench.executors.api.inner_names import InnerNames
from workbench.executors.feeding.feed import Feed, as_dict, check_feed
from workbench.executors.fetching.fetch import as_items, split_optimize_ops, to_user
from workbench.executors.reference.interpreter import run_in_order
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.engine.pruned import needed, pruned_program
from workbench.executors.running.step.boundary import refuse_in_mid_step
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.order import is_startup
from workbench.framework.program.remote import Service, service_of
from workbench.framework.program.variable import Variable
from workbench.framework.values.place import CPUPlace, CUDAPlace, Place
from workbench.runtime.devices import require_gpu
from workbench.runtime.ending import require_time
from workbench.runtime.servers.standing import leave_servers
from workbench.runtime.storage.scope import Scope, global_scope

_Newest = tuple[int, int, Scope | None, Engine | None]  # uid and version of a program, and what runs it in a scope


class Executor(InnerNames):
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
        self._programs = CompiledPrograms(place)
        self._newest: _Newest = (0, 0, None, None)

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

        The step applies whole or not at all: if anything fails or is interrupted, nothing in the scope has changed.
        Several threads may run programs in one scope, one step after the other. A program is compiled when it is first
        run, as a CompiledProgram is (see `compiled`), and again after it has changed. A startup program is run op by op
        instead, and with `FLAGS_executor=reference` every program is.

        Args:
            program: the default main program if None; a CompiledProgram runs on its devices.
            feed: {name: array}, or a list of one such dict.
            fetch_list: Variables or names; some of the program's updates in it switch `use_prune` on, all do not.
            feed_var_name, fetch_var_name, use_program_cache: accepted for compatibility.
            scope: where persistable variables live; `global_scope()` if None.
            return_numpy: ndarrays if True, LoDTensors otherwise; both are copies.
            return_merged: of several devices, join their values along dimension 0; False gives a list per variable.
            use_prune: run only what the fetches and the listed optimizer operators need.

        Returns:
            one entry per fetched variable.

        Raises:
            EnforceNotMet: closed executor; a subclass for a wrong feed or fetch, or an op that fails.
            Unavailable: the process is ending.
        """
        program = default_main_program() if program is None else program
        scope = global_scope() if scope is None else scope
        if self._closed:
            raise EnforceNotMet("the executor is closed")
        if not (isinstance(scope, Scope) and isinstance(program, (Program, CompiledProgram))):
            raise _refused(program, scope)
        if isinstance(program, CompiledProgram):
            engine, names = needed(program.engine_for(self.place, scope), feed, fetch_list, use_prune)
            return engine.run(feed, names, return_numpy, return_merged)
        if FLAG_VALUES["FLAGS_executor"] == "reference" and service_of(program) is None:
            return self._run_in_order(program, feed, fetch_list, scope, return_numpy, use_prune)
        uid, version, known, whole = self._newest
        if uid != program.uid or version != program.version or known is not scope or whole is None:
            if (serve := service_of(program)) is not None:
                return self._serve(serve, program, scope)
            if is_startup(program):
                return self._run_in_order(program, feed, fetch_list, scope, return_numpy, use_prune)
            whole = self._engine(program, scope)
        if type(feed) is not dict:
            feed = self._as_dict(feed, fetch_list, program)
        try:
            engine, names = needed(whole, feed, fetch_list, use_prune)
            return engine.run(feed, names, return_numpy)
        except NotFound:
            return self._run_beside(scope, whole, feed, fetch_list, return_numpy, use_prune)

    def compiled(self, program: Program | None = None, scope: Scope | None = None) -> CompiledProgram:
        """What runs when `run` is told to run a program: to look into its steps.

        It is that of the program as it is now: one that changes is compiled anew when it is run next.

        Args:
            program: the default main program if None. scope: `global_scope()` if None.

        Raises:
            EnforceNotMet: closed executor. InvalidType: no Program, no Scope.

        Example:
            >>> wb.enable_static()
            >>> x = static.data("x", [None, 4])
            >>> y = static.nn.fc(x, 2)
            >>> executor = static.Executor()
            >>> startup = executor.run(static.default_startup_program())
            >>> step = executor.compiled().stepper({"x": np.ones((6, 4), np.float32)}, [y])
            >>> step.next().type
            'mul'
        """
        if self._closed:
            raise EnforceNotMet("the executor is closed")
        program = default_main_program() if program is None else program
        scope = global_scope() if scope is None else scope
        _require(program, Program, "program")
        _require(scope, Scope, "scope")
        return self._programs.get(program, scope)

    def _engine(self, program: Program, scope: Scope) -> Engine:
        version = program.version
        engine = self._programs.get(program, scope).engine
        self._newest = program.uid, version, scope, engine
        return engine

    @staticmethod
    def _as_dict(feed: Feed, fetch_list: Any, program: Program) -> Mapping[str, Any]:
        split_optimize_ops(fetch_list)  # where the two are exchanged, that is what to say
        return as_dict(feed, program)

    def _run_in_order(
        self, program: Program, feed: Feed, fetch_list: Any, scope: Scope, return_numpy: bool, use_prune: bool
    ) -> list[Any]:
        if not (program.global_block().ops or as_items(fetch_list)):
            warnings.warn("the program has no operators; nothing was run", stacklevel=3)
            return []
        require_time()
        refuse_in_mid_step(scope)
        runs = self._programs.in_order(program, scope)
        pruned, feed, names = pruned_program(runs, self._as_dict(feed, fetch_list, runs), fetch_list, use_prune)
        arrays, give = check_feed(pruned, feed), partial(to_user, return_numpy=return_numpy)
        with nullcontext() if runs is program else scope.in_use():  # an exchange takes one step after the other
            return run_in_order(pruned, scope, arrays, names, self.place.index, give)

    def _run_beside(
        self, scope: Scope, whole: Engine, feed: Feed, fetch_list: Any, return_numpy: bool, prune: bool
    ) -> list[Any]:
        """A step of which some of what is fetched is in the scope, and unknown to the program.

        Raises:
            NotFound: the one that is being handled, if nothing is.
        """
        in_scope = self._only_in_scope(whole.program, fetch_list, scope, return_numpy)
        if not in_scope:
            raise
        rest = [item for item in as_items(fetch_list) if _name(item) not in in_scope]
        engine, fetches = needed(whole, feed, rest, prune)
        results = iter(engine.run(feed, fetches, return_numpy))
        names = [_name(item) for item in split_optimize_ops(fetch_list)[0]]
        return [in_scope[name] if name in in_scope else next(results) for name in names]

    @staticmethod
    def _only_in_scope(program: Program, fetch_list: Any, scope: Scope, return_numpy: bool) -> dict[str, Any]:
        """Values of what is fetched and the program does not name, as a callback of the user's may have put there."""
        names = [_name(item) for item in split_optimize_ops(fetch_list)[0]]
        held = {name: scope.find_var(name) for name in names if not program.global_block().has_var(name)}
        return {n: to_user(v.tensor.array, return_numpy) for n, v in held.items() if v and v.tensor.initialized}

    def _serve(self, serve: Service, program: Program, scope: Scope) -> list[Any]:
        """Be a server until nobody needs it any more."""
        require_time()
        refuse_in_mid_step(scope)
        serve(Executor(self.place), program, scope)
        return []

    def close(self) -> None:
        """Refuse further runs, and tell parameter servers, where there are some, that this process has left."""
        self._closed = True
        leave_servers()
        self._programs.clear()
        self._newest = (0, 0, None, None)

    @staticmethod
    def _split_optimize_ops_in_fetch_list(fetch_list: Any) -> tuple[list[Any], list[Operator]]:
        """(fetch list without optimizer operators, the operators); Paddle's name for it (E-3)."""
        return split_optimize_ops(fetch_list)


def _require(value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise _no(kind, value, name)


def _refused(program: Any, scope: Any) -> InvalidType:
    return _no(Program, program, "program") if isinstance(scope, Scope) else _no(Scope, scope, "scope")


def _no(kind: type, value: Any, name: str) -> InvalidType:
    return InvalidType(f"Executor takes a {kind.__name__} as {name}, got {value!r}")


def _name(item: Any) -> Any:
    return item.name if isinstance(item, Variable) else item
