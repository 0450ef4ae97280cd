"""Programs of which a part is done by other processes: parameter servers, and those that push to them.

How that is done is no business of programs or executors; whoever knows it is loaded when the first such program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from workbench.framework.program.program import Program

CLIENT, SERVER = "client", "server"
"""What operators need that exchange values with servers, and those that are one."""

Service = Callable[[Any, Program, Any], None]
"""Runs the program of a server, given an executor, the program and a scope, until nobody needs the server any more."""


class Remote(Protocol):
    """Who knows how such programs are run."""

    def runnable(self, program: Program) -> Program:
        """What is run of a program that exchanges values with servers."""

    def serve(self, executor: Any, program: Program, scope: Any) -> None:
        """Run the program of a server."""


_loaders: list[Callable[[], Remote]] = []


def load_on_demand(load: Callable[[], Remote]) -> None:
    """Have `load()` give who knows."""
    _loaders[:] = [load]


def runnable(program: Program) -> Program:
    """What an executor runs of a program: the program itself, unless it exchanges values with servers."""
    return _loaders[0]().runnable(program) if _loaders and _needs(program, CLIENT) else program


def service_of(program: Program) -> Service | None:
    """What runs a program that is a server's; None of all others."""
    return _loaders[0]().serve if _loaders and _needs(program, SERVER) else None


def _needs(program: Program, what: str) -> bool:
    return any(what in op.record.needs for op in program.global_block().ops)
