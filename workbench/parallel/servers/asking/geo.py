"""Geo-SGD: trainers update for themselves, and every so many steps tell the servers what they have changed (F-10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.framework.values.rows import Rows
from workbench.parallel.servers.asking.exchange import OncePerStep, Share, answered, nothing_to_see, pieces
from workbench.parallel.servers.asking.links import Link, asking, links_to
from workbench.parallel.servers.serving.blocks import ROW_NUMBERS, ROW_VALUES
from workbench.runtime.servers.messages import Message

_DELTA = ".delta"


class GeoProgress(NamedTuple):
    """How far a trainer and its servers are.

    Attributes:
        known: what the trainer knows of the servers' parameters. steps: of the trainer.
        changes: what was pushed last, until it is known that the servers have taken it.
        rounds: of servers with tables, the step up to which the trainer knows their rows.
    """

    known: dict[str, np.ndarray]
    steps: int
    changes: dict[str, np.ndarray | Rows]
    rounds: dict[str, int]


class GeoExchange:
    """Of one program.

    A trainer pushes its change since the last time, divided by the number of trainers; servers add up the changes of
    all. It then takes over what the others have changed: the server's value minus what it knew of it. Of tables with
    sparse gradients only the rows travel that have changed, here and there.

    Args:
        trainer, trainers: which one this is, and of how many. every: steps between two exchanges.
        parameters: where the rows of each lie. program: what the servers are to serve; "" takes any.
        sparse: the parameters that are such tables.

    Attributes:
        every, parameters, sparse: as given.
        look: called before a step is pushed. is_applied: whether the last one was applied here.
    """

    def __init__(
        self,
        trainer: int,
        trainers: int,
        every: int,
        parameters: Mapping[str, Sequence[Share]],
        program: str = "",
        sparse: Collection[str] = (),
    ) -> None:
        self._trainer, self._trainers, self.every, self._program = trainer, trainers, every, program
        self.parameters, self.sparse = dict(parameters), frozenset(sparse)
        self._endpoints = list(dict.fromkeys(s.endpoint for shares in parameters.values() for s in shares))
        self._before = self._now = GeoProgress({}, 0, {}, {})
        self._numbers: dict[str, int] = {}  # of the last push, at each server
        self._shared = OncePerStep()
        self.look: Callable[[], None] = nothing_to_see
        self.is_applied = True

    def exchange(self, values: Sequence[Any], place: int = 0) -> list[np.ndarray]:
        """The parameters after a step, with what others have changed if it is time for that."""
        return self._shared.once(place, lambda: self._asked(values))

    def _asked(self, values: Sequence[Any]) -> list[np.ndarray]:
        self.look()
        with asking(self._trainer):
            return self._exchange(values)

    def _exchange(self, values: Sequence[Any]) -> list[np.ndarray]:
        links = links_to(self._endpoints, self._trainer, self._program)
        if self.is_applied:
            self._before, self.is_applied = self._now, False
        known, steps, changes, rounds = self._before
        if not known:
            known = {name: self._begun(shares, links, value) for (name, shares), value in self._with(values)}
            rounds = self._begun_at(links)
        steps += 1
        if steps % self.every:
            self._now = GeoProgress(known, steps, {}, rounds)
            return [np.array(value) for value in values]
        if not changes:
            self._numbers = {endpoint: link.next() for endpoint, link in links.items()}
            changes = {name: self._change(name, value, known[name]) for (name, _), value in self._with(values)}
            # a server may have taken those: it never gets others
            self._before = GeoProgress(known, steps - 1, changes, rounds)
        answers = self._pushed(changes, rounds, links)
        both = [
            self._with_others(name, value, known[name], changes[name], answers)
            for (name, _), value in self._with(values)
        ]
        known = {name: server for name, (server, _) in zip(self.parameters, both)}
        rounds = {endpoint: answers[endpoint].number("round") for endpoint in self._servers_of_tables()}
        self._now = GeoProgress(known, steps, {}, rounds)
        return [value for _, value in both]

    def _change(self, name: str, value: np.ndarray, known: np.ndarray) -> np.ndarray | Rows:
        """What a trainer pushes of a parameter."""
        if name not in self.sparse:
            return ((value - known) / self._trainers).astype(value.dtype)
        rows = np.flatnonzero((value != known).reshape(len(value), -1).any(axis=1))
        return Rows(rows, ((value[rows] - known[rows]) / self._trainers).astype(value.dtype), len(value))

    def _pushed(
        self, changes: Mapping[str, np.ndarray | Rows], rounds: Mapping[str, int], links: Mapping[str, Link]
    ) -> Mapping[str, Message]:
        """What the servers answer to the changes."""
        asked = {}
        for endpoint, link in links.items():
            arrays: dict[str, np.ndarray] = {}
            whole: list[str] = []
            tables: list[str] = []
            for name, share in self._shares_at(endpoint):
                arrays.update(pieces(share._replace(name=share.name + _DELTA), changes[name]))
                (tables if name in self.sparse and endpoint in rounds else whole).append(share.name)
            since = {"tables": tables, "since": rounds[endpoint]} if tables else {}
            asked[endpoint] = link.start("step", arrays, sequence=self._numbers[endpoint], pull=whole, **since)
        answers = answered(asked)
        for endpoint, link in links.items():
            link.taken(self._numbers[endpoint])
        return answers

    def _shares_at(self, endpoint: str) -> list[tuple[str, Share]]:
        """What a server has, each with the parameter it is of."""
        every = [(name, share) for name, shares in self.parameters.items() for share in shares]
        return [(name, share) for name, share in every if share.endpoint == endpoint]

    def _servers_of_tables(self) -> dict[str, None]:
        return dict.fromkeys(share.endpoint for name in self.sparse for share in self.parameters[name])

    def _begun_at(self, links: Mapping[str, Link]) -> dict[str, int]:
        """Where servers were when the startup program ran; {} if it has not got all tables."""
        shares = [share for name in self.sparse for share in self.parameters[name]]
        if not all(share.name in links[share.endpoint].begun for share in shares):
            return {}
        return {share.endpoint: links[share.endpoint].begun_at for share in shares}

    @staticmethod
    def _begun(shares: Sequence[Share], links: Mapping[str, Link], value: np.ndarray) -> np.ndarray:
        """What the startup program has got of a parameter; its value, if no startup program has run."""
        parts = [links[share.endpoint].begun.get(share.name) for share in shares]
        known = [part for part in parts if part is not None]
        return np.concatenate(known).reshape(value.shape) if len(known) == len(parts) else np.array(value)

    def _with(self, values: Sequence[Any]) -> Any:
        return zip(self.parameters.items(), values, strict=True)

    def _with_others(
        self,
        name: str,
        value: np.ndarray,
        known: np.ndarray,
        change: np.ndarray | Rows,
        answers: Mapping[str, Message],
    ) -> tuple[np.ndarray, np.ndarray]:
        """A parameter as the servers have it now; and as the trainer does, with what others have changed."""
        if isinstance(change, Rows):
            return _with_rows_of_others(self.parameters[name], value, known, change, answers)
        parts = [answers[share.endpoint].arrays[share.name] for share in self.parameters[name]]
        server = np.concatenate(parts).reshape(value.shape)
        return server, np.asarray(value + (server - (known + change)))


def _with_rows_of_others(
    shares: Sequence[Share], value: np.ndarray, known: np.ndarray, change: Rows, answers: Mapping[str, Message]
) -> tuple[np.ndarray, np.ndarray]:
    """The same of a table, in the rows that servers have given."""
    parts = [_rows_of(share, answers[share.endpoint].arrays) for share in shares]
    rows, given = (np.concatenate(column) for column in zip(*parts, strict=True))
    expected = known[rows]
    _, here, there = np.intersect1d(rows, change.rows, assume_unique=True, return_indices=True)
    expected[here] += change.values[there]
    server, own = np.array(known), np.array(value)
    server[rows] = given
    own[rows] += given - expected
    return server, own


def _rows_of(share: Share, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, in the whole table, and values of the rows that a server has given of its part."""
    if share.name in arrays:
        return np.arange(share.start, share.start + len(arrays[share.name])), arrays[share.name]
    return arrays[share.name + ROW_NUMBERS] + share.start, arrays[share.name + ROW_VALUES]
