"""The exchange of one program's steps with its servers: gradients pushed, parameters pulled, one message to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import EnforceNotMet, located
from workbench.framework.values.rows import Rows
from workbench.parallel.servers.blocks import ROW_NUMBERS, ROW_VALUES
from workbench.parallel.servers.links import links_to
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Reply

Arrays = dict[str, np.ndarray]


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


class ServerExchange:
    """Of one program.

    Args:
        trainer: which one this is. endpoints: all servers. pushes: of each value, the parts that are pushed.
        pulls: what is pulled.
    """

    def __init__(
        self, trainer: int, endpoints: Sequence[str], pushes: Sequence[Sequence[Share]], pulls: Sequence[Pulled]
    ) -> None:
        self._trainer, self._endpoints, self._pushes, self._pulls = trainer, list(endpoints), pushes, pulls
        self._wanted = {
            endpoint: [part.name for pull in pulls for part in pull.parts if part.endpoint == endpoint]
            for endpoint in endpoints
        }

    def exchange(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Push `values` and pull.

        A step that fails is not counted: when it is run again, a server that had taken it knows so.

        Raises:
            PeerFailed: a server is lost, or tells that another trainer is. PeerTimeout: one does not answer in time.
        """
        links = links_to(self._endpoints, self._trainer)
        pushed: dict[str, Arrays] = {endpoint: {} for endpoint in self._endpoints}
        for parts, value in zip(self._pushes, values, strict=True):
            for part in parts:
                pushed[part.endpoint].update(_pieces(part, value))
        asked = {}
        for endpoint, link in links.items():
            arrays, names = pushed[endpoint], self._wanted[endpoint]
            if arrays:
                link.join()
                asked[endpoint] = link.start("step", arrays, sequence=link.sequence, pull=names)
            elif names or not self._pushes:
                asked[endpoint] = link.start("pull", {}, pull=names)
        answers = answered(asked)
        for endpoint, arrays in pushed.items():
            links[endpoint].sequence += bool(arrays)
        return [self._joined(pull, answers) for pull in self._pulls]

    @staticmethod
    def _joined(pull: Pulled, answers: Mapping[str, Message]) -> np.ndarray:
        found = [answers[part.endpoint].arrays[part.name] for part in pull.parts]
        whole = found[0] if len(found) == 1 else np.concatenate([array.reshape(-1) for array in found])
        return np.asarray(whole.reshape(pull.shape))


def answered(asked: Mapping[str, Reply]) -> dict[str, Message]:
    """All answers, each by the endpoint it comes from.

    Raises:
        EnforceNotMet: the first that is none; it names its server, and that is where it happened.
    """
    try:
        return {endpoint: reply.wait() for endpoint, reply in asked.items()}
    except EnforceNotMet as error:
        raise located(error) from None


def _pieces(part: Share, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays in which a part of a gradient travels."""
    if not isinstance(value, Rows):
        yield part.name, value if part.stop is None else value[part.start : part.stop]
        return
    rows, values = value.rows, value.values
    if part.stop is not None:
        inside = np.flatnonzero((rows >= part.start) & (rows < part.stop))
        rows, values = rows[inside] - part.start, values[inside]
    yield part.name + ROW_NUMBERS, rows
    yield part.name + ROW_VALUES, values


class RowPull:
    """The rows of a table that only servers have.

    Args:
        parts: of the table, in the order of its rows. width: of a row.
    """

    def __init__(self, trainer: int, parts: Sequence[Share], width: int, dtype: np.dtype[Any]) -> None:
        self._trainer, self._parts, self._width, self._dtype = trainer, list(parts), width, dtype

    def pull_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Rows by their numbers in the whole table: `[k]` int64 -> `[k, width]`; every row travels once."""
        distinct, where = np.unique(numbers, return_inverse=True)
        links = links_to(dict.fromkeys(part.endpoint for part in self._parts), self._trainer)
        asked = []
        for part in self._parts:
            assert part.stop is not None
            first, last = np.searchsorted(distinct, [part.start, part.stop])
            if first < last:
                own = {part.name: distinct[first:last] - part.start}
                asked.append((first, last, part, links[part.endpoint].start("rows", own)))
        found = np.empty((len(distinct), self._width), self._dtype)
        for first, last, part, reply in asked:
            found[first:last] = reply.wait().arrays[part.name + ROW_VALUES]
        return found[where]
