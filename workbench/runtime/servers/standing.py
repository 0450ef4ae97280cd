"""The one place of a process where operators find the way to parameter servers.

A program that was transpiled for servers names them. Before it runs, whoever knows how to reach them
(`parallel.servers`) prepares the exchange of its steps and leaves it here under a number, which the operator in the
program bears.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workbench.errors import PreconditionNotMet, located


class StepExchange(Protocol):
    """What one step gives to servers, and gets from them."""

    def exchange(self, values: Sequence[Any]) -> list[Any]:
        """Push gradients, and pull parameters.

        Args:
            values: arrays and `Rows`, in the order in which the operator reads them.

        Returns:
            an array for each variable that the operator writes.
        """


class RowExchange(Protocol):
    """What rows of a table come from that only servers have."""

    def pull_rows(self, numbers: Any) -> Any:
        """Rows of a table that only servers have: `[k]` int64 -> `[k, width]`."""


_exchanges: dict[int, StepExchange | RowExchange] = {}
_numbers = itertools.count(1)
_leaving: list[Callable[[], None]] = []


def keep(exchange: StepExchange | RowExchange) -> int:
    """Leave an exchange here; the number it is found by."""
    number = next(_numbers)
    _exchanges[number] = exchange
    return number


def exchange_of(number: int) -> StepExchange | RowExchange:
    """The exchange that was left under a number.

    Raises:
        PreconditionNotMet: it is gone, as this process has left its servers.
    """
    exchange = _exchanges.get(number)
    if exchange is None:
        raise located(
            PreconditionNotMet(
                "this process has left its parameter servers: an executor was closed; make another one and run again"
            )
        )
    return exchange


def when_leaving(leave: Callable[[], None]) -> None:
    """Have `leave()` called when this process tells its servers that it will not come again."""
    _leaving.append(leave)


def leave_servers() -> None:
    """Tell all servers of this process that it will not come again; nothing happens where there are none."""
    _exchanges.clear()
    while _leaving:
        _leaving.pop()()
