"""The programs of an Executor, compiled or prepared to run in order: each in its newest version, for each scope."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.planning.cache import Cache
from workbench.framework.program.program import Program
from workbench.framework.program.remote import runnable
from workbench.framework.values.place import Place
from workbench.runtime.storage.scope import Scope

_SCOPES = 8  # an engine keeps the values of its scope
_PROGRAMS = 64  # of each scope


class CompiledPrograms:
    """Of one executor. A program that nobody keeps any more is forgotten, and so is the one used longest ago.

    Args:
        place: where they run.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._scopes: Cache[_OfScope] = Cache(_SCOPES)
        self._in_order: Cache[tuple[int, Program]] = Cache(_PROGRAMS)

    def get(self, program: Program, scope: Scope) -> CompiledProgram:
        """The program as it is now, compiled for values in this scope."""
        return self._scopes.get(scope, lambda: _OfScope(self._place, scope)).get(program)

    def in_order(self, program: Program, scope: Scope) -> Program:
        """What is run op by op of the program as it is now: itself, unless it exchanges values with servers.

        Then it is the same at every step, for its exchange knows of the step before, and may have a thread.
        """
        key = program.uid, scope
        version, runs = self._in_order.get(key, lambda: _prepared(program), lambda entry: entry[1] is not program)
        if version != program.version:
            self._in_order.forget(key)
            _, runs = self._in_order.get(key, lambda: _prepared(program), lambda entry: entry[1] is not program)
        return runs

    def clear(self) -> None:
        """Forget everything."""
        self._scopes.clear()
        self._in_order.clear()


def _prepared(program: Program) -> tuple[int, Program]:
    version, runs = program.version, runnable(program)
    if runs is not program:
        runs.lr_schedulers = program.lr_schedulers
    return version, runs


class _OfScope:
    """Those that work on the values of one scope."""

    def __init__(self, place: Place, scope: Scope) -> None:
        self._place, self._scope = place, scope
        self._programs: Cache[tuple[int, CompiledProgram, Any]] = Cache(_PROGRAMS)
        self._gone: deque[int] = deque()  # told by the collector, which may come in the middle of anything

    def get(self, program: Program) -> CompiledProgram:
        """The program's; made anew for another version."""
        while self._gone:
            self._programs.forget(self._gone.popleft())
        version, compiled, _ = self._programs.get(program.uid, lambda: self._compiled(program))
        if version != program.version:
            self._programs.forget(program.uid)
            _, compiled, _ = self._programs.get(program.uid, lambda: self._compiled(program))
        return compiled

    def _compiled(self, program: Program) -> tuple[int, CompiledProgram, Any]:
        version, uid, gone = program.version, program.uid, self._gone
        compiled = CompiledProgram(program)
        compiled.bind(self._scope, self._place)
        return version, compiled, weakref.ref(program, lambda reference: gone.append(uid))
