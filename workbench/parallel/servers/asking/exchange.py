"""The exchange of one program's steps with its servers: gradients pushed, parameters pulled, one message to each.

What servers apply is what trainers apply. A trainer that discards a step after servers have taken it - it was
interrupted, an operator behind the exchange failed - finds that in its next run: the step has the number it had,
servers give the parameters they have made of it, and what that run pushes counts as pushed. So a synchronous trainer
is back beside the others, an asynchronous one has one gradient at the servers for each of its steps, and geo-SGD takes
over what others have changed once. A NaN that a guard looks for is met before anything is pushed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import EnforceNotMet, located
from workbench.framework.values.rows import Rows
from workbench.parallel.servers.asking.links import asking, links_to
from workbench.parallel.servers.serving.blocks import ROW_NUMBERS, ROW_VALUES
from workbench.parallel.servers.serving.values import require_rows
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Reply

Arrays = dict[str, np.ndarray]
_PIECE = 1 << 26  # bytes at most of rows in one message


class Share(NamedTuple):
    """Rows `start` to `stop` of a variable, as a server knows them: by their own name. All of it if `stop` is None."""

    name: str
    endpoint: str
    start: int = 0
    stop: int | None = None


class Pulled(NamedTuple):
    """A variable that is put together from parts, one below the other."""

    parts: Sequence[Share]
    shape: tuple[int, ...]


def nothing_to_see() -> None:
    """Nobody looks at a step before it is pushed."""


class ServerExchange:
    """Of one program.

    Args:
        trainer: which one this is. endpoints: all servers. pushes: of each value, the parts that are pushed.
        pulls: what is pulled. begins: what is pulled will be asked for again.
        program: what the servers are to serve; "" takes any.

    Attributes:
        endpoints, pushes, pulls: as given.
        look: called before a step is pushed. is_applied: whether the last one that was pushed was applied here.
    """

    def __init__(
        self,
        trainer: int,
        endpoints: Sequence[str],
        pushes: Sequence[Sequence[Share]],
        pulls: Sequence[Pulled],
        begins: bool = False,
        program: str = "",
    ) -> None:
        self._begins, self._shared, self._program = begins, OncePerStep(), program
        self.look: Callable[[], None] = nothing_to_see
        self.is_applied = True
        self._numbers: dict[str, int] = {}  # of the last step, at each server
        self._trainer, self.endpoints, self.pushes, self.pulls = trainer, list(endpoints), pushes, pulls
        self._wanted = {
            endpoint: [part.name for pull in pulls for part in pull.parts if part.endpoint == endpoint]
            for endpoint in endpoints
        }

    def exchange(self, values: Sequence[Any], place: int = 0) -> list[np.ndarray]:
        """Push `values` and pull, once for all devices of a step; raises what `_exchange` does."""
        return self._shared.once(place, lambda: self._exchange(values))

    def _exchange(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Push `values` and pull.

        Raises:
            PeerFailed: a server is lost, or tells that another trainer is. PeerTimeout: one does not answer in time.
        """
        self.look()
        pushed: dict[str, Arrays] = {endpoint: {} for endpoint in self.endpoints}
        for parts, value in zip(self.pushes, values, strict=True):
            for part in parts:
                pushed[part.endpoint].update(pieces(part, value))
        with asking(self._trainer):
            links = links_to(self.endpoints, self._trainer, self._program)
            if self.is_applied:
                self._numbers = {endpoint: links[endpoint].next() for endpoint, arrays in pushed.items() if arrays}
                self.is_applied = False
            asked = {}
            for endpoint, link in links.items():
                arrays, names = pushed[endpoint], self._wanted[endpoint]
                if arrays:
                    asked[endpoint] = link.start("step", arrays, sequence=self._numbers[endpoint], pull=names)
                elif names or not self.pushes:
                    asked[endpoint] = link.start("pull", {}, pull=names)
            answers = answered(asked)
            for endpoint, number in self._numbers.items():
                links[endpoint].taken(number)
            for endpoint, answer in answers.items() if self._begins else ():
                links[endpoint].begun |= {name: np.array(array) for name, array in answer.arrays.items()}
                links[endpoint].begun_at = answer.number("round")
        return [self._joined(pull, answers) for pull in self.pulls]

    @staticmethod
    def _joined(pull: Pulled, answers: Mapping[str, Message]) -> np.ndarray:
        pieces = [answers[part.endpoint].arrays[part.name] for part in pull.parts]
        whole = pieces[0] if len(pieces) == 1 else np.concatenate([array.reshape(-1) for array in pieces])
        return np.asarray(whole.reshape(pull.shape))


class OncePerStep:
    """What the first device of a step does, for all devices of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._result: list[np.ndarray] = []
        self._served: set[int] | None = None

    def once(self, place: int, call: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
        """The result of `call()`, or of the call of another device in this step."""
        with self._lock:
            if self._served is None or place in self._served:
                self._served = None
                self._result, self._served = call(), set()
            self._served.add(place)
            return self._result


def answered(asked: Mapping[str, Reply]) -> dict[str, Message]:
    """All answers, each by the endpoint it comes from.

    Raises:
        EnforceNotMet: the first that is none; it names its server, and that is where it happened.
    """
    try:
        return {endpoint: reply.wait() for endpoint, reply in asked.items()}
    except EnforceNotMet as error:
        raise located(error) from None


def pieces(part: Share, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays in which a part of a gradient, or of what has changed, travels."""
    if not isinstance(value, Rows):
        yield part.name, value if part.stop is None else value[part.start : part.stop]
        return
    rows, values = value.rows, value.values
    if part.stop is not None:
        inside = np.flatnonzero((rows >= part.start) & (rows < part.stop))
        rows, values = rows[inside] - part.start, values[inside]
    yield part.name + ROW_NUMBERS, rows
    yield part.name + ROW_VALUES, values


class ServerTables:
    """Tables that only servers have, cut into blocks of rows."""

    def pull_rows(
        self,
        ids: np.ndarray,
        table_names: Sequence[str],
        height_sections: Sequence[int],
        endpoints: Sequence[str],
        trainer_id: int,
        width: int,
        **attrs: Any,
    ) -> np.ndarray:
        """Rows by their numbers in the whole table; every row travels once.

        Raises:
            InvalidArgument: the table has no such row.
        """
        distinct, where = np.unique(ids.astype(np.int64).reshape(-1), return_inverse=True)
        stops = np.cumsum(height_sections)
        require_rows(table_names[0].rpartition(".block")[0] or table_names[0], distinct, int(stops[-1]))
        cuts, rows = np.searchsorted(distinct, [0, *stops]), np.empty((len(distinct), width), np.float32)
        begun, left = [], list(zip(table_names, endpoints, [0, *stops], cuts, cuts[1:], strict=False))
        with asking(trainer_id):
            links = links_to(dict.fromkeys(endpoints), trainer_id)
            for name, endpoint, start, first, last in left:
                if first < last:
                    reply = links[endpoint].start("rows", {name: distinct[first:last] - start})
                    begun.append((first, last, name, reply))
            for first, last, name, reply in begun:
                rows[first:last] = answered({name: reply})[name].arrays[name + ROW_VALUES]
        return rows[where.reshape(-1)].reshape(*ids.shape, width)

    def pull_whole(self, shares: Sequence[Share], shape: Sequence[int], trainer: int) -> np.ndarray:
        """All rows of a table, in messages of bounded length.

        Args:
            shares: the blocks of the table, which together have `shape`.

        Raises:
            PeerFailed: a server is lost. PeerTimeout: one does not answer in time.
        """
        whole, width = np.empty(0, np.float32), prod(shape[1:])
        with asking(trainer):
            links = links_to(dict.fromkeys(share.endpoint for share in shares), trainer)
            for share in shares:
                stop = shape[0] if share.stop is None else share.stop
                for first in range(share.start, stop, most := max(1, _PIECE // max(1, 8 * width))):
                    last = min(first + most, stop)
                    asked = {share.name: np.arange(first - share.start, last - share.start)}
                    reply = links[share.endpoint].start("rows", asked)
                    rows = answered({share.endpoint: reply})[share.endpoint].arrays[share.name + ROW_VALUES]
                    whole = whole if whole.size else np.empty(shape, rows.dtype)
                    whole[first:last] = rows
        return whole
