"""Unique names: one counter per key.

Also public as `workbench.utils.unique_name` and `fluid.unique_name`.
"""

from __future__ import annotations

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
        self.counters: dict[str, int] = {}

    def __call__(self, key: str) -> str:
        """The next `prefix + key + "_" + n`, n from 0 for every key."""
        if self.namespace and not key.startswith(self.namespace):
            key = self.namespace + key
        n = self.counters.get(key, 0)
        self.counters[key] = n + 1
        return f"{self.prefix}{key}_{n}"

    def copy(self) -> UniqueNameGenerator:
        """An independent generator that goes on where this one stands."""
        copied = UniqueNameGenerator(self.prefix, self.namespace)
        copied.counters = dict(self.counters)
        return copied


_current: Current[UniqueNameGenerator] = Current("workbench_names", UniqueNameGenerator())


def generate(key: str) -> str:
    """The next name for `key` from the current generator."""
    return _current.get()(key)


def current() -> UniqueNameGenerator:
    """The generator in force."""
    return _current.get()


def switch(generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Make `generator` (default: a fresh one) the current one; returns the one it replaces."""
    return _current.switch(generator if generator is not None else UniqueNameGenerator())


def guard(new_generator: str | UniqueNameGenerator | None = None) -> Replaced:
    """Use fresh counters (with a prefix, if a string is given) inside the `with` body, in this thread."""
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    return _current.replaced(new_generator if new_generator is not None else UniqueNameGenerator())
