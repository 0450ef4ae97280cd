"""The one place of a process where operators find the way to parameter servers.

A program that was transpiled for servers names them. Before it runs, whoever knows how to reach them
(`parallel.servers`) prepares the exchange of its steps and leaves it here under a number, which the operator in the
program bears.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from workbench.errors import PreconditionNotMet, located
from workbench.framework.program.program import Program


class StepExchange(Protocol):
    """What one step gives to servers, and gets from them.

    Attributes:
        look: called before a step is pushed; what it raises keeps the step from being pushed.
        is_applied: whether the last step that was exchanged was applied here, too: set by whoever applies it.
    """

    look: Callable[[], None]
    is_applied: bool

    def exchange(self, values: Sequence[Any], place: int = 0) -> list[Any]:
        """Push gradients, and pull parameters.

        Args:
            values: arrays and `Rows`, in the order in which the operator reads them.
            place: which device asks. All devices have the same values; what the first one gets is for all of them.

        Returns:
            an array for each variable that the operator writes.
        """


class Tables(Protocol):
    """What rows of tables come from that only servers have."""

    @property
    def pull_rows(self) -> Callable[..., Any]:
        """Gives rows by their numbers: integers of any shape -> `[*shape, width]`; attributes come by keyword."""


_exchanges: dict[int, StepExchange] = {}
_tables: list[Tables] = []
_numbers = itertools.count(1)
_leaving: list[Callable[[], None]] = []


def keep(exchange: StepExchange) -> int:
    """Leave an exchange here; the number it is found by."""
    number = next(_numbers)
    _exchanges[number] = exchange
    return number


def keep_tables(tables: Tables) -> None:
    """Leave the way to tables here."""
    _tables[:] = [tables]


def client_of(attrs: Mapping[str, Any]) -> StepExchange | Tables:
    """What carries out an operator with these attributes: the exchange it bears the number of, or the way to tables.

    Raises:
        PreconditionNotMet: it is gone, as this process has left its servers.
    """
    if "exchange" not in attrs:
        return _tables[0]
    exchange = _exchanges.get(attrs["exchange"])
    if exchange is None:
        raise located(
            PreconditionNotMet(
                "this process has left its parameter servers: an executor was closed; make another one and run again"
            )
        )
    return exchange


def exchange_of(number: int) -> StepExchange | None:
    """The exchange that was left here under a number; None once this process has left its servers."""
    return _exchanges.get(number)


def exchanges_of(program: Program) -> list[StepExchange]:
    """What the steps of a program exchange with servers; [] of programs that do not, and once they are left."""
    numbers = [op.attrs["exchange"] for op in program.global_block().ops if "exchange" in op.attrs]
    return [_exchanges[number] for number in numbers if number in _exchanges]


def applied(exchanges: Iterable[StepExchange]) -> list[Callable[[], Any]]:
    """C functions, called at the end of what applies a step."""
    return [partial(setattr, exchange, "is_applied", True) for exchange in exchanges]


def when_leaving(leave: Callable[[], None]) -> None:
    """Have `leave()` called when this process tells its servers that it will not come again."""
    _leaving.append(leave)


def stay(leave: Callable[[], None]) -> None:
    """Take back `when_leaving`."""
    with suppress(ValueError):
        _leaving.remove(leave)


def leave_servers() -> None:
    """Tell all servers of this process that it will not come again; nothing happens where there are none."""
    _exchanges.clear()
    while _leaving:
        _leaving.pop()()
