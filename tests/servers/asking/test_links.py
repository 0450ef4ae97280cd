"""The threads of one trainer, and its links."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from workbench.errors import PeerTimeout
from workbench.parallel.servers.asking import links
from workbench.parallel.servers.asking.exchange import Pulled, ServerExchange, ServerTables, Share
from workbench.parallel.servers.asking.geo import GeoExchange
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Connection, Reply


class _Late(Reply):
    def __init__(self, connection: _Alone, frame: Message) -> None:
        self._connection, self._frame = connection, frame

    def wait(self) -> Message:
        time.sleep(0.02)
        self._connection.under_way -= 1
        rows = {f"{name}@VALUES": np.ones((1, 1), np.float32) for name in self._frame.arrays}
        return Message("joined", {"session": 1, "sequence": 0, "server": 1}, {"w": np.ones(1, np.float32), **rows})


class _Alone(Connection):
    """Counts the questions that are under way at the same time, and keeps the numbers of steps."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.steps: list[object] = []

    def start(self, frame: Message, seconds: float) -> Reply:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.steps += [frame.fields["sequence"]] if frame.kind == "step" else []
        return _Late(self, frame)

    def close(self) -> None:
        """Nothing is open."""


def test_threads_of_a_trainer_ask_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, share, one = _Alone(), Share("w", "here"), np.ones(1, np.float32)
    monkeypatch.setattr(links, "_links", {(0, "here"): links.Link(connection, 0)})
    dense = [ServerExchange(0, ["here"], [[share]], [Pulled([share], (1,))]) for _ in range(2)]
    geo = GeoExchange(0, 1, 1, {"w": [share]})
    calls = [
        *(lambda one_of=one_of: one_of.exchange([one]) for one_of in dense),
        lambda: geo.exchange([one]),
        lambda: ServerTables().pull_rows(np.zeros(1, np.int64), ["w"], [1], ["here"], 0, 1),
        links.checkpoint_servers,
    ]
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert connection.most == 1 and connection.steps == [0, 1, 2]


class _Taken(Connection):
    """A server of another program, which ends after two questions."""

    def __init__(self) -> None:
        self.asked = 0

    def start(self, frame: Message, seconds: float) -> Reply:
        self.asked += 1
        if self.asked < 3:
            return _Told(Message("between", {"why": "it serves another program"}))
        return _Told(Message("joined", {"session": 1, "sequence": 4, "server": 1}))

    def close(self) -> None:
        """Nothing is open."""


class _Told(Reply):
    def __init__(self, message: Message) -> None:
        self._message = message

    def wait(self) -> Message:
        return self._message


def test_a_trainer_that_is_ahead_waits_for_its_server() -> None:
    link = links.Link(_Taken(), 0)
    assert link.next() == 4


def test_a_trainer_whose_server_never_comes_says_how_long_it_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "deadline", lambda: -1.0)
    with pytest.raises(PeerTimeout, match="trainer 3 has waited 0 s for another server: it serves another program"):
        links.Link(_Taken(), 3).join()
