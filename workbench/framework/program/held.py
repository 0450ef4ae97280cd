"""The values of persistable variables, which scopes hold: packages above read and write them, loaded when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from workbench.errors import Unavailable


class HeldValues(Protocol):
    """What reads and writes values, of Variables and Programs; a scope of None is the global one."""

    def get_value(self, variable: Any, scope: Any) -> Any: ...

    def set_value(self, variable: Any, value: Any, scope: Any) -> None: ...

    def state_dict(self, program: Any, mode: str, scope: Any) -> dict[str, Any]: ...

    def set_state_dict(self, program: Any, state: dict[str, Any], scope: Any) -> None: ...


_loaders: list[Callable[[], HeldValues]] = []


def load_on_demand(load: Callable[[], HeldValues]) -> None:
    """Have `load()` called when a value is asked for."""
    _loaders[:] = [load]


def held_values() -> HeldValues:
    """What reads and writes values.

    Raises:
        Unavailable: nothing does.
    """
    if not _loaders:
        raise Unavailable("no scopes hold values of variables: import workbench")
    return _loaders[0]()
