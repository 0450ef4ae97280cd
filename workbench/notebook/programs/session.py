"""Session: the programs of one notebook, by the names the user gave them."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython

from workbench.errors import did_you_mean, one_of
from workbench.framework import names
from workbench.framework.names import UniqueNameGenerator
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import check_program
from workbench.framework.program.variable import Variable
from workbench.notebook.programs.cell import restored_on_error, run_cell
from workbench.notebook.programs.extend import Lineage, counterpart, counters_after
from workbench.notebook.programs.summary import Summary


@dataclass(frozen=True)
class Definition:
    """What `%%static_program` was asked for.

    Attributes:
        name: the main program is bound to this name, and names made inside begin with it.
        startup, test: names of the startup program and of the clone for testing (None: no clone).
        source: name of the program a copy of which is extended.
        seed: `random_seed` of both programs; None leaves it at 0, or as in the copy.
    """

    name: str
    startup: str
    test: str | None = None
    source: str | None = None
    seed: int | None = None

    @property
    def binds(self) -> list[str]:
        """The names bound to programs."""
        return [self.name, self.startup, *([self.test] if self.test else [])]


@dataclass(frozen=True)
class Built:
    """What came of a cell: its programs, and the value of its last line."""

    main: Program
    startup: Program
    test: Program | None
    value: Any

    @property
    def ends_in_minimize(self) -> bool:
        """Whether the last line's value is what `minimize` returns: operators, then (parameter, gradient) pairs."""
        parts = self.value if isinstance(self.value, tuple) else ()
        return len(parts) == 2 and isinstance(parts[0], list) and any(isinstance(p, Operator) for p in parts[0])

    @property
    def summary(self) -> Summary:
        return Summary.of(self.main, self.startup, self.test)


class Session:
    """Builds programs from cells and finds them again. One per shell.

    Attributes:
        shell: the IPython shell; its `user_ns` is where names are bound.
        lineage: which programs are copies of which.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.lineage = Lineage()

    @property
    def namespace(self) -> dict[str, Any]:
        return self.shell.user_ns

    def programs(self) -> dict[str, Program]:
        """The programs bound to a name of the user's, in the order of binding."""
        bound = list(self.namespace.items())
        return {n: v for n, v in bound if isinstance(v, Program) and not n.startswith("_")}

    def program(self, name: str) -> Program:
        """The program of that name.

        Raises:
            UsageError: there is none; the message has the closest name.
        """
        known = self.programs()
        if name in known:
            return known[name]
        if not known:
            raise UsageError(f"there is no program {name!r}; build one with %%static_program")
        what = f"there is no program {name!r}"
        if name in self.namespace:
            what = f"{name!r} is {_kind(self.namespace[name])}, not a program"
        raise UsageError(f"{what}.{did_you_mean(name, known) or f' Programs: {one_of(known)}'}")

    def loaders(self) -> list[str]:
        """Names of the user's for what can be iterated over, text and Variables left out."""
        return [n for n, v in self.own().items() if _gives_batches(v)]

    def own(self) -> dict[str, Any]:
        """The user's names, without those that begin with `_` and those IPython brings."""
        bound = list(self.namespace.items())
        return {n: v for n, v in bound if not n.startswith("_") and n not in self.shell.user_ns_hidden}

    def startup_of(self, name: str) -> Program:
        """The startup program of a main program: of the same cell, else the one called `<name>_startup`.

        Raises:
            UsageError: there is none.
        """
        startup = self.startup_known(self.program(name), name)
        if startup is not None:
            return startup
        raise UsageError(
            f"the startup program of {name!r} is not known: it was not built by %%static_program, "
            f"and no program is called {name}_startup"
        )

    def startup_known(self, program: Program, name: str) -> Program | None:
        """The startup program that a program called `name` was built with, or one called `<name>_startup`."""
        startup = program.startup or self.namespace.get(f"{name}_startup")
        return startup if isinstance(startup, Program) else None

    def check(self, definition: Definition) -> None:
        """Refuse what could not be done, before anything is done.

        Raises:
            UsageError: a name that cannot be bound, a repeated name, an unknown `source`.
        """
        for name in definition.binds:
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise UsageError(f"{name!r} cannot be the name of a program; use a Python name such as 'net'")
            taken = self.namespace.get(name)
            if taken is not None and not isinstance(taken, Program):
                raise UsageError(f"{name!r} is {_kind(taken)} in this notebook; name the program otherwise")
        if len(set(definition.binds)) < len(definition.binds):
            raise UsageError(f"the programs need different names, got {' and '.join(definition.binds)}")
        if definition.source is None:
            return
        self.program(definition.source)
        self.startup_of(definition.source)
        if definition.source in definition.binds:
            raise UsageError(
                f"--from {definition.source} needs a new name for the extended copy; "
                "under the same name, running the cell twice would extend it twice"
            )

    def build(self, definition: Definition, magic: str, text: str) -> Built:
        """Run a cell that builds a program, and bind its names.

        If it raises, the user's names and the default programs are what they were before.

        Args:
            magic: the first line of the cell; text: the lines below it.
        """
        __tracebackhide__ = True
        with restored_on_error(self.namespace):
            main, startup, generator = self._begin(definition)
            before = dict(self.namespace)
            with static_mode(), program_guard(main, startup), names.guard(generator):
                value = run_cell(self.shell, magic, text)
            for program in (main, startup):
                check_program(program)
            self._refuse_rebound(definition, before)
            test = main.clone(for_test=True) if definition.test else None
            if test is not None and definition.test:
                test.name = definition.test
                self.shell.push({definition.test: test})
        return Built(main, startup, test, value)

    def _begin(self, definition: Definition) -> tuple[Program, Program, UniqueNameGenerator]:
        """The programs the cell appends to, bound to their names, and the generator of names inside."""
        prefix = definition.name + "."
        if definition.source is None:
            main, startup = Program(), Program()
            generator = UniqueNameGenerator(namespace=prefix)
        else:
            original = self.program(definition.source)
            main, startup = original.clone(), self.startup_of(definition.source).clone()
            generator = counters_after(prefix, (main, startup))
            self.lineage.add(main, original)
            self._rebind(main)
        main.name, startup.name = definition.name, definition.startup
        if definition.seed is not None:
            main.random_seed = startup.random_seed = definition.seed
        main.belongs_to(startup)
        self.shell.push({definition.name: main, definition.startup: startup})
        return main, startup, generator

    def _rebind(self, copy: Program) -> None:
        """Point the user's names for Variables of the original, or of other copies of it, into `copy`."""
        for name, value in list(self.namespace.items()):
            if name.startswith("_") or name in self.shell.user_ns_hidden:
                continue
            new = counterpart(value, copy, lambda program: self.lineage.related(program, copy))
            if new is not value:
                self.namespace[name] = new

    def _refuse_rebound(self, definition: Definition, before: dict[str, Any]) -> None:
        for name in definition.binds:
            if self.namespace.get(name) is not before.get(name):
                raise UsageError(f"the cell itself binds {name!r}, the program's name; nothing was kept, rename one")


_sessions: WeakKeyDictionary[Any, Session] = WeakKeyDictionary()


def session_of(shell: Any) -> Session:
    """The session of a shell; it stays when the magics go, as the user's programs do."""
    return _sessions.setdefault(shell, Session(shell))


def current_session() -> Session | None:
    """The session of the shell this runs in; None in a script."""
    shell = get_ipython()
    return None if shell is None else session_of(shell)


def running_cell() -> str | None:
    """What the cell that runs is called, and its last line: `In [6]: wb.dashboard(net)`; None in a script."""
    shell = get_ipython()
    history = getattr(shell, "history_manager", None)
    cells = [] if history is None else history.input_hist_raw
    lines = cells[-1].strip().splitlines() if cells else []
    return f"In [{len(cells) - 1}]: {lines[-1]}" if lines else None


def _gives_batches(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes, type, Variable))


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
