"""A fresh pair of programs in static mode, and numerical derivatives to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import static
from workbench.framework.names import guard
from workbench.framework.program.guard import static_mode
from workbench.framework.program.reading.check import check_program


class Built:
    """`with Built() as p:` builds into `p.main` and `p.startup`."""

    def __enter__(self) -> Built:
        self.main, self.startup = static.Program(), static.Program()
        self.contexts = [static_mode(), guard(), static.program_guard(self.main, self.startup)]
        for context in self.contexts:
            context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)
        if error[0] is None:
            check_program(self.main)

    def run(self, feed: dict[str, Any], fetch: list[Any], scope: Any = None) -> list[np.ndarray]:
        scope = scope or static.Scope()
        if not scope.vars:
            static.Executor().run(self.startup, scope=scope) if self.startup.global_block().ops else None
        return static.Executor().run(self.main, feed=feed, fetch_list=fetch, scope=scope)


def number(value: float) -> np.ndarray:
    return np.array([value], np.float64)


def slope(f: Callable[[Any], Any], x: float, eps: float = 1e-6) -> float:
    """df/dx by central differences."""
    return float((f(x + eps) - f(x - eps)) / (2 * eps))
