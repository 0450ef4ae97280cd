"""Geo-SGD: trainers update for themselves, and every so many steps tell the servers what they have changed (F-10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.parallel.servers.exchange import OncePerStep, Share, answered
from workbench.parallel.servers.links import Link, asking, links_to

_DELTA = ".delta"


class GeoExchange:
    """Of one program.

    A trainer pushes its change since the last time, divided by the number of trainers; servers add up the changes of
    all. It then takes over what the others have changed: the server's value minus what it knew of it.

    Args:
        trainer, trainers: which one this is, and of how many. every: steps between two exchanges.
        parameters: where the rows of each lie.
    """

    def __init__(self, trainer: int, trainers: int, every: int, parameters: Mapping[str, Sequence[Share]]) -> None:
        self._trainer, self._trainers, self._every = trainer, trainers, every
        self._parameters = dict(parameters)
        self._endpoints = list(dict.fromkeys(s.endpoint for shares in parameters.values() for s in shares))
        self._known: dict[str, np.ndarray] = {}
        self._unconfirmed: dict[str, np.ndarray] = {}
        self._steps = 0
        self._shared = OncePerStep()

    def exchange(self, values: Sequence[Any], place: int = 0) -> list[np.ndarray]:
        """The parameters after a step, with what others have changed if it is time for that."""
        return self._shared.once(place, lambda: self._asked(values))

    def _asked(self, values: Sequence[Any]) -> list[np.ndarray]:
        with asking(self._trainer):
            return self._exchange(values)

    def _exchange(self, values: Sequence[Any]) -> list[np.ndarray]:
        links = links_to(self._endpoints, self._trainer)
        if not self._known:
            self._known = {name: self._begun(shares, links, value) for (name, shares), value in self._with(values)}
        self._steps += 1
        if self._steps % self._every and not self._unconfirmed:
            return [np.array(value) for value in values]
        changes = self._unconfirmed = self._unconfirmed or {  # a server may have taken those: it must not get others
            name: ((value - self._known[name]) / self._trainers).astype(value.dtype)
            for (name, _), value in self._with(values)
        }
        asked = {}
        for endpoint, link in links.items():
            shares = [(n, s) for n, listed in self._parameters.items() for s in listed if s.endpoint == endpoint]
            arrays = {s.name + _DELTA: changes[n][s.start : s.stop] for n, s in shares}
            link.join()
            asked[endpoint] = link.start("step", arrays, sequence=link.sequence, pull=[s.name for _, s in shares])
        answers = answered(asked)
        for link in links.values():
            link.sequence += 1
        self._unconfirmed = {}
        return [self._taken_over(name, value, changes[name], answers) for (name, _), value in self._with(values)]

    @staticmethod
    def _begun(shares: Sequence[Share], links: Mapping[str, Link], value: np.ndarray) -> np.ndarray:
        """What the startup program has got of a parameter; its value, if no startup program has run."""
        parts = [links[share.endpoint].begun.get(share.name) for share in shares]
        known = [part for part in parts if part is not None]
        return np.concatenate(known).reshape(value.shape) if len(known) == len(parts) else np.array(value)

    def _with(self, values: Sequence[Any]) -> Any:
        return zip(self._parameters.items(), values, strict=True)

    def _taken_over(self, name: str, value: np.ndarray, change: np.ndarray, answers: Mapping[str, Any]) -> np.ndarray:
        parts = [answers[share.endpoint].arrays[share.name] for share in self._parameters[name]]
        server = np.concatenate(parts).reshape(value.shape)
        others = server - (self._known[name] + change)
        self._known[name] = server
        return np.asarray(value + others)
