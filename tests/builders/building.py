"""Building and running small programs in tests: fresh names, own programs, own scope."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from workbench.executors.api.executor import Executor
from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import Scope


@contextmanager
def program(seed: int = 0) -> Iterator[tuple[Program, Program]]:
    """(main, startup), the default programs of static mode inside the `with` body."""
    main, startup = Program(), Program()
    startup.random_seed = seed
    with names.guard(), program_guard(main, startup), static_mode():
        yield main, startup


def types(of: Program) -> list[str]:
    return [op.type for op in of.global_block().ops]


def outputs(of: Program) -> list[str]:
    """Names written, in order."""
    return [name for op in of.global_block().ops for name in op.output_arg_names]


class Session:
    """A scope in which the startup program has run."""

    def __init__(self, main: Program, startup: Program) -> None:
        self.main, self.startup, self.scope, self.executor = main, startup, Scope(), Executor()
        self.restart()

    def restart(self) -> None:
        if self.startup.global_block().ops:  # an empty program is run with a warning
            self.executor.run(self.startup, scope=self.scope)

    def run(self, fetch: Sequence[Any], **feed: Any) -> list[np.ndarray]:
        return self.executor.run(self.main, feed=feed, fetch_list=list(fetch), scope=self.scope)

    def value(self, name: str) -> np.ndarray:
        variable = self.scope.find_var(name)
        assert variable is not None, name
        return np.array(variable.get_tensor())


def initialised(seed: int, build: Any) -> dict[str, np.ndarray]:
    """The values of every parameter `build()` makes, after its startup program has run."""
    with program(seed) as (main, startup):
        build()
    session = Session(main, startup)
    return {p.name: session.value(p.name) for p in main.all_parameters()}
