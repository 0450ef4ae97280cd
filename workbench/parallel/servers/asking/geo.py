"""Geo-SGD: trainers update for themselves, and every so many steps tell the servers what they have changed (F-10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.parallel.servers.asking.exchange import OncePerStep, Share, answered, nothing_to_see
from workbench.parallel.servers.asking.links import Link, asking, links_to

_DELTA = ".delta"


class GeoProgress(NamedTuple):
    """How far a trainer and its servers are.

    Attributes:
        known: what the trainer knows of the servers' parameters. steps: of the trainer.
        changes: what was pushed last, until it is known that the servers have taken it.
    """

    known: dict[str, np.ndarray]
    steps: int
    changes: dict[str, np.ndarray]


class GeoExchange:
    """Of one program.

    A trainer pushes its change since the last time, divided by the number of trainers; servers add up the changes of
    all. It then takes over what the others have changed: the server's value minus what it knew of it.

    Args:
        trainer, trainers: which one this is, and of how many. every: steps between two exchanges.
        parameters: where the rows of each lie. program: what the servers are to serve; "" takes any.

    Attributes:
        every, parameters: as given.
        look: called before a step is pushed. is_applied: whether the last one was applied here.
    """

    def __init__(
        self, trainer: int, trainers: int, every: int, parameters: Mapping[str, Sequence[Share]], program: str = ""
    ) -> None:
        self._trainer, self._trainers, self.every, self._program = trainer, trainers, every, program
        self.parameters = dict(parameters)
        self._endpoints = list(dict.fromkeys(s.endpoint for shares in parameters.values() for s in shares))
        self._before = self._now = GeoProgress({}, 0, {})
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
        known, steps, changes = self._before
        if not known:
            known = {name: self._begun(shares, links, value) for (name, shares), value in self._with(values)}
        steps += 1
        if steps % self.every:
            self._now = GeoProgress(known, steps, {})
            return [np.array(value) for value in values]
        if not changes:
            self._numbers = {endpoint: link.next() for endpoint, link in links.items()}
            changes = {
                name: ((value - known[name]) / self._trainers).astype(value.dtype)
                for (name, _), value in self._with(values)
            }
            self._before = GeoProgress(known, steps - 1, changes)  # a server may have taken those: it never gets others
        answers = self._pushed(changes, links)
        both = [
            self._with_others(name, value, known[name], changes[name], answers)
            for (name, _), value in self._with(values)
        ]
        self._now = GeoProgress({name: server for name, (server, _) in zip(self.parameters, both)}, steps, {})
        return [value for _, value in both]

    def _pushed(self, changes: Mapping[str, np.ndarray], links: Mapping[str, Link]) -> Mapping[str, Any]:
        """What the servers answer to the changes."""
        asked = {}
        for endpoint, link in links.items():
            shares = [(n, s) for n, listed in self.parameters.items() for s in listed if s.endpoint == endpoint]
            arrays = {s.name + _DELTA: changes[n][s.start : s.stop] for n, s in shares}
            pull = [s.name for _, s in shares]
            asked[endpoint] = link.start("step", arrays, sequence=self._numbers[endpoint], pull=pull)
        answers = answered(asked)
        for endpoint, link in links.items():
            link.taken(self._numbers[endpoint])
        return answers

    @staticmethod
    def _begun(shares: Sequence[Share], links: Mapping[str, Link], value: np.ndarray) -> np.ndarray:
        """What the startup program has got of a parameter; its value, if no startup program has run."""
        parts = [links[share.endpoint].begun.get(share.name) for share in shares]
        known = [part for part in parts if part is not None]
        return np.concatenate(known).reshape(value.shape) if len(known) == len(parts) else np.array(value)

    def _with(self, values: Sequence[Any]) -> Any:
        return zip(self.parameters.items(), values, strict=True)

    def _with_others(
        self, name: str, value: np.ndarray, known: np.ndarray, change: np.ndarray, answers: Mapping[str, Any]
    ) -> tuple[np.ndarray, np.ndarray]:
        """A parameter as the servers have it now; and as the trainer does, with what others have changed."""
        parts = [answers[share.endpoint].arrays[share.name] for share in self.parameters[name]]
        server = np.concatenate(parts).reshape(value.shape)
        return server, np.asarray(value + (server - (known + change)))
