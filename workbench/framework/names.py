"""Unique names: one counter per key.

Also public as `workbench.utils.unique_name` and `fluid.unique_name`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from operator import length_hint

from workbench.framework.current import Current, Replaced

GRAD_SUFFIX = "@GRAD"
EMPTY = "@EMPTY@"
CONTROL = "__control_var@"  # begins names of what only orders operators, and never has a value


def grad_name(name: str) -> str:
    """The name of the gradient of a variable."""
    return name + GRAD_SUFFIX


class UniqueNameGenerator:
    """Counts up separately for every key.

    Args:
        prefix: put before every generated name. Layer names and variable names are both generated, so the
            prefix shows twice in a parameter's name.
        namespace: put before a generated name unless it is there already, so it shows once.
    """

    def __init__(self, prefix: str = "", namespace: str = "") -> None:
        self.prefix, self.namespace = prefix, namespace
        self._numbers: dict[str, Iterator[int]] = {}

    def __call__(self, key: str) -> str:
        """The next `prefix + key + "_" + n`, n from 0 for every key; whichever thread asks, it comes once."""
        if self.namespace and not key.startswith(self.namespace):
            key = self.namespace + key
        numbers = self._numbers.get(key) or self._numbers.setdefault(key, _from(0))
        return f"{self.prefix}{key}_{next(numbers)}"

    def go_on_after(self, key: str, n: int) -> None:
        """Have the numbers of a key be larger than `n` from now on."""
        self._numbers[key] = _from(max(self._next(key), n + 1))

    def copy(self) -> UniqueNameGenerator:
        """An independent generator that goes on where this one stands."""
        copied = UniqueNameGenerator(self.prefix, self.namespace)
        copied._numbers = {key: _from(self._next(key)) for key in list(self._numbers)}
        return copied

    def _next(self, key: str) -> int:
        numbers = self._numbers.get(key)
        return 0 if numbers is None else sys.maxsize - length_hint(numbers)


def _from(n: int) -> Iterator[int]:
    """n, n + 1 …: `next` of it is one call of C code, and what is left of it tells where it stands.

    So neither another thread nor a signal handler gets a number twice, and there is no lock that a fork could keep.
    """
    return iter(range(n, sys.maxsize))


_current: Current[UniqueNameGenerator] = Current("workbench_names", UniqueNameGenerator())


def generate(key: str) -> str:
    """The next name for `key` from the current generator.

    Outside of every `guard` all threads share one generator, as in Paddle: no name comes twice, but which number a
    thread gets depends on the others. Inside of a guard it is that of the thread (and its context).

    Example:
        >>> with wb.utils.unique_name.guard():
        ...     [wb.utils.unique_name.generate("fc") for _ in range(2)]
        ['fc_0', 'fc_1']
    """
    return _current.get()(key)


def current() -> UniqueNameGenerator:
    """The generator in force."""
    return _current.get()


def switch(generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Make `generator` (default: a fresh one) the current one; returns the one it replaces."""
    return _current.switch(generator if generator is not None else UniqueNameGenerator())


def guard(new_generator: str | UniqueNameGenerator | None = None) -> Replaced:
    """Use fresh counters (with a prefix, if a string is given) inside the `with` body, in this thread.

    Other threads, those begun in the body too, go on with what they use: without a guard of their own, that is the one
    generator which all threads share. Threads that each build a program whose names are to be the same every time
    need a guard each.

    Example:
        >>> with wb.utils.unique_name.guard("left_"):
        ...     wb.utils.unique_name.generate("fc")
        'left_fc_0'
    """
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    return _current.replaced(new_generator if new_generator is not None else UniqueNameGenerator())
