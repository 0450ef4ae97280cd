"""What a Geo-SGD trainer tells a server whose answer is lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from workbench.errors import PeerTimeout
from workbench.parallel.servers.asking import links
from workbench.parallel.servers.asking.exchange import Share
from workbench.parallel.servers.asking.geo import GeoExchange
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Connection, Reply


class _Answer(Reply):
    def __init__(self, frame: Message, is_lost: bool) -> None:
        self._frame, self._is_lost = frame, is_lost

    def wait(self) -> Message:
        if self._is_lost:
            raise PeerTimeout("no answer")
        return self._frame


class _Server(Connection):
    """Adds up changes, each step once; the answers to those steps in `loses` are lost, once."""

    def __init__(self, name: str, w: float, loses: set[int]) -> None:
        self.endpoint, self.w, self.taken, self._loses = name, np.full(1, w, np.float32), 0, loses

    def start(self, frame: Message, seconds: float) -> Reply:
        step = frame.fields.get("sequence", -1)
        if step == self.taken:
            self.taken += 1
            self.w = self.w + frame.arrays[f"{self.endpoint}.w.delta"]
        is_lost = step in self._loses
        self._loses -= {step}
        told = {f"{self.endpoint}.w": self.w}
        return _Answer(Message("joined", {"session": 1, "sequence": 0, "server": 1}, told), is_lost)

    def close(self) -> None:
        """Nothing is open."""


def _linked(servers: Sequence[_Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainer 0 has begun with what the servers have."""
    held = {(0, one.endpoint): links.Link(one, 0) for one in servers}
    for one in servers:
        held[0, one.endpoint].begun[f"{one.endpoint}.w"] = one.w
    monkeypatch.setattr(links, "_links", held)


@pytest.mark.parametrize("every", [1, 2])
def test_a_change_whose_answer_was_lost_is_counted_once_at_every_server(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [_Server("a", 1, {0}), _Server("b", 1, set())]
    _linked(servers, monkeypatch)
    shares = [Share(f"{one.endpoint}.w", one.endpoint, row, row + 1) for row, one in enumerate(servers)]
    geo, w, lost = GeoExchange(0, 1, every, {"w": shares}), np.ones(2, np.float32), 0
    for _ in range(4 * every + 1):
        try:
            (w,) = geo.exchange([w + np.float32([1, 3])])
            geo.is_applied = True
        except PeerTimeout:
            lost += 1
    assert lost == 1
    assert np.array_equal(w, 1 + np.float32([1, 3]) * (4 * every))
    assert np.array_equal([one.w[0] for one in servers], w)


@pytest.mark.parametrize("every", [1, 2])
def test_a_step_that_was_discarded_behind_its_exchange_is_counted_once(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _Server("a", 1, set())
    _linked([server], monkeypatch)
    geo, w, step = GeoExchange(0, 1, every, {"w": [Share("a.w", "a", 0, 1)]}), np.ones(1, np.float32), np.float32(2)
    for run in range(4 * every + 2):
        (after,) = geo.exchange([w + step])
        if run in (every - 1, every):  # discarded twice: the parameter stays as it was
            continue
        w, geo.is_applied = after, True
    assert w == 1 + step * 4 * every == server.w
