"""Servers on threads of this process, and trainers beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.servers.job import free_endpoints
from workbench import static
from workbench.framework.program.program import Program
from workbench.runtime.servers.standing import leave_servers
from workbench.runtime.storage.scope import Scope

Programs = tuple[Program, Program]
__all__ = ["free_endpoints", "running"]


@contextmanager
def running(servers: Sequence[Programs]) -> Iterator[list[Scope]]:
    """Servers at work; when the body ends this process leaves them, and they end.

    Args:
        servers: main and startup program of each.

    Yields:
        what each holds.
    """
    scopes = [static.Scope() for _ in servers]
    threads = [
        threading.Thread(target=_serve, args=(main, startup, scope), daemon=True)
        for (main, startup), scope in zip(servers, scopes)
    ]
    for thread in threads:
        thread.start()
    try:
        yield scopes
    finally:
        leave_servers()
        for thread in threads:
            thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def _serve(main: Program, startup: Program, scope: Scope) -> None:
    executor = static.Executor()
    executor.run(startup, scope=scope)
    executor.run(main, scope=scope)
