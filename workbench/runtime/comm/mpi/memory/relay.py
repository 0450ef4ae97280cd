"""Between machines: the segments of this machine's processes kept up on the others, and theirs here, by the leaders.

A leader has a link to the leader of every other machine. An update that goes over it says of every process here how
far it has come, after what its newest slots hold; there it is put into the copies in that order. Slots go straight from
shared memory into shared memory. What travels are the contributions themselves and no sums of some of them, which
would make bits depend on how ranks lie on machines.

A thread of the leader does it, whatever its process is at: it computes in kernels, waits, or is interrupted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np

from workbench.errors import Unavailable
from workbench.runtime.comm.mpi.memory.peers import STATES
from workbench.runtime.comm.mpi.memory.window import Window, Word
from workbench.runtime.words.window import LABEL_BYTES, REASON_BYTES, SLOTS

_TAG = 1
_SHORTEST, _LONGEST = 5e-5, 1e-3  # seconds between two looks at what is to be done
_LAST = 5.0  # seconds that a process which ends goes on for others, who may have failed, or never end
_ALIVE = 0.02  # seconds between two looks at whether the processes here live
_REASON = -1  # in place of a slot's number: why the process gives up
_NUMBERS = 4  # of an update: which one it is, the last one of the other side, entries, whether it is the last
_ENTRY = 3 + LABEL_BYTES // 8  # process, slot, bytes, label
# A word is written after those it speaks of: what has been posted first, a verdict last
_ORDER = (
    Word.POSTED, Word.TAKEN, Word.REASON, Word.CULPRIT, Word.VOTE, Word.LEFT, Word.GAVE_UP, Word.BEGUN, Word.ENDED,
    Word.VERDICT, Word.STATE_THERE,
)  # fmt: skip


class LeaderLink:
    """From one leader to another.

    Args:
        window: of the group. other: the leader there.
    """

    def __init__(self, window: Window, other: int) -> None:
        nodes = window.nodes
        self._comm = nodes.leaders
        self._peer = nodes.number(other)
        self._window, self._ranks = window, nodes.beside(window.rank)
        self._here = [window.segments[rank] for rank in self._ranks]
        self._there = [window.segments[rank] for rank in nodes.beside(other)]
        self._states = np.zeros(len(self._here), np.int64)
        self._told = np.zeros((len(self._here), len(Word)), np.int64)
        self._posted = [0] * len(self._here)
        self._number, self._applied, self._owes = 0, 0, False
        self._fences: deque[tuple[int, list[int]]] = deque()
        self.passed = [0] * len(self._here)
        self._sending: list[tuple[Any, Any]] = []
        self._came = np.zeros(_NUMBERS + len(self._there) * (len(Word) + (SLOTS + 1) * _ENTRY), np.int64)
        self._head: Any = self._comm.Irecv(self._came, self._peer, _TAG)
        self._payload: list[Any] = []
        self._is_last_sent = self.is_over = False

    def pump(self, states: np.ndarray, is_closing: bool) -> bool:
        """Do what can be done now; whether there was anything."""
        self._states = states
        has_come = self._receive()
        return self._send(is_closing) or has_come

    # What goes out

    def _seen(self) -> np.ndarray:
        """The words of the processes here."""
        told = np.stack([segment.snapshot() for segment in self._here])
        told[:, Word.STATE_THERE] = self._states
        return told

    def _send(self, is_closing: bool) -> bool:
        while self._sending and self._sending[0][0].Test():
            del self._sending[0]
        if self._sending or self._is_last_sent:
            return False
        self._window.barrier()  # what came is seen here before words are read that are to tell of it
        fences = [segment.words[Word.FENCE] for segment in self._here]  # before the words that they make seen
        words = self._seen()
        words[:, Word.FENCE] = fences  # one that has come since goes with the next update
        if np.array_equal(words, self._told) and not self._owes and not is_closing:
            return False
        self._window.barrier()
        entries = list(self._entries(words))
        self._number += 1
        self._fences.append((self._number, fences))
        head = [self._number, self._applied, len(entries), int(is_closing)]
        update = np.concatenate([np.array(head, np.int64), words.reshape(-1), *(entry for entry, _ in entries)])
        self._put(update)
        for _, data in entries:
            self._put(data)
        self._told, self._owes, self._is_last_sent = words, False, is_closing
        return True

    def _entries(self, words: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """What has been written since the last update: where it belongs, and the bytes."""
        for number, (segment, own) in enumerate(zip(self._here, words)):
            if own[Word.GAVE_UP] != self._told[number][Word.GAVE_UP]:
                yield _entry(number, _REASON, REASON_BYTES), segment.saying[:REASON_BYTES]
            end = int(own[Word.POSTED])
            for turn in range(max(self._posted[number], end - SLOTS), end):
                slot = turn % SLOTS
                nbytes = segment.given(slot)
                yield _entry(number, slot, nbytes, segment.labels[slot]), segment.slots[slot][:nbytes]
            self._posted[number] = end

    def _put(self, data: np.ndarray) -> None:
        if data.size:
            self._sending.append((self._comm.Isend(data, self._peer, _TAG), data))

    # What comes in

    def _receive(self) -> bool:
        has_come = False
        while not self.is_over:
            if self._head is not None:
                if not self._head.Test():
                    return has_come
                self._head, self._payload = None, list(self._expected())
            while self._payload:
                if not self._payload[0].Test():
                    return has_come
                del self._payload[0]
            self._apply()
            has_come = True
            if not self.is_over:
                self._head = self._comm.Irecv(self._came, self._peer, _TAG)
        return has_come

    def _expected(self) -> Iterator[Any]:
        """Requests for what the update speaks of, into the copies."""
        at = _NUMBERS + len(self._there) * len(Word)
        for entry in self._came[at : at + int(self._came[2]) * _ENTRY].reshape(-1, _ENTRY):
            segment, slot, nbytes = self._there[int(entry[0])], int(entry[1]), int(entry[2])
            if slot != _REASON:
                segment.labels[slot][...] = entry[3:].view(np.uint8)
            into = segment.saying if slot == _REASON else segment.slots[slot]
            if nbytes:
                yield self._comm.Irecv(into[:nbytes], self._peer, _TAG)

    def _apply(self) -> None:
        """Publish the words of an update, now that what they speak of is there."""
        number, applied, _, is_last = (int(one) for one in self._came[:_NUMBERS])
        words = self._came[_NUMBERS : _NUMBERS + len(self._there) * len(Word)].reshape(len(self._there), -1)
        self._window.barrier()
        for segment, own in zip(self._there, words):
            self._owes |= segment.words[Word.FENCE] != own[Word.FENCE]
            segment.words[Word.FENCE] = int(own[Word.FENCE])
            for word in _ORDER:
                segment.words[word] = int(own[word])
        self._applied = number
        while self._fences and self._fences[0][0] <= applied:
            self.passed = self._fences.popleft()[1]
        self.is_over = bool(is_last)

    @property
    def is_through(self) -> bool:
        """Whether nothing goes over it any more."""
        return self._is_last_sent and not self._sending and self.is_over

    def __repr__(self) -> str:
        return f"LeaderLink(to leader {self._peer}, update {self._number}, applied {self._applied})"


def _entry(number: int, slot: int, nbytes: int, label: np.ndarray | None = None) -> np.ndarray:
    entry = np.zeros(_ENTRY, np.int64)
    entry[:3] = number, slot, nbytes
    if label is not None:
        entry[3:] = label.view(np.int64)
    return entry


class Relay:
    """The links of a machine's leader, for one group.

    Args:
        fail: told why, when it cannot go on.
    """

    def __init__(self, window: Window, fail: Callable[[str], None]) -> None:
        self._window, self._fail = window, fail
        self._ranks = window.nodes.beside(window.rank)
        self._links = [LeaderLink(window, other) for other in window.nodes.other_leaders]
        self._states, self._looked = np.zeros(len(self._ranks), np.int64), 0.0
        self._is_closing = False
        self.is_over = threading.Event()

    def pump(self) -> bool:
        """Do what can be done now; whether there was anything. For the thread alone."""
        self._look_whether_they_live()
        moved = [link.pump(self._states, self._is_closing) for link in self._links]
        for at, rank in enumerate(self._ranks):
            self._window.let_pass(rank, min(link.passed[at] for link in self._links))
        if all(link.is_through for link in self._links):
            self.is_over.set()
        return any(moved)

    def _look_whether_they_live(self) -> None:
        now = time.monotonic()
        if now - self._looked > _ALIVE:
            self._looked = now
            self._states = np.array([STATES.index(self._window.state_of(rank)) for rank in self._ranks], np.int64)

    def give_up(self, error: BaseException) -> None:
        """It cannot go on."""
        self.is_over.set()
        self._fail(f"the way to other machines: {type(error).__name__}: {error}")

    def close(self, patience: float = inf) -> None:
        """Return when what happened here is known there, and the other way round; all leaders do it together.

        Args:
            patience: seconds the others have for coming.
        """
        self._is_closing = True
        end = time.monotonic() + patience
        while not self.is_over.wait(_LONGEST) and time.monotonic() < end:
            pass
        self.is_over.set()


class _Relaying(threading.Thread):
    """The thread that keeps all relays of this process going."""

    def __init__(self) -> None:
        super().__init__(name="workbench-relay", daemon=True)
        self.relays: list[Relay] = []

    def run(self) -> None:
        seconds = _SHORTEST
        while self.relays:
            moved = False
            for relay in tuple(self.relays):
                try:
                    moved |= relay.pump()
                except Exception as error:
                    relay.give_up(error)
                if relay.is_over.is_set():
                    self.relays.remove(relay)
            seconds = _SHORTEST if moved else min(_LONGEST, seconds * 1.1)
            time.sleep(seconds)


_lock = threading.Lock()
_relaying: list[_Relaying] = []


def begin_relaying(window: Window, fail: Callable[[str], None]) -> Relay | None:
    """Keep the segments of a window up between machines, where this process leads one of several.

    Args:
        fail: told why, when that cannot go on.

    Raises:
        Unavailable: this MPI may be called by one thread only.
    """
    if window.nodes.leaders is None:
        return None
    from mpi4py import MPI

    if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
        raise Unavailable("processes on several machines need an MPI that several threads may call")
    relay = Relay(window, fail)
    with _lock:
        if _relaying and _relaying[-1].is_alive() and _relaying[-1].relays:
            _relaying[-1].relays.append(relay)
        else:
            thread = _Relaying()
            thread.relays.append(relay)
            _relaying[:] = [thread]
            thread.start()
    return relay


def end_relaying(window: Window) -> None:
    """At the end of the process: go on for a while, until those of this machine have ended, too, which rely on it.

    Args:
        window: of all processes.
    """
    for thread in tuple(_relaying):
        relays = tuple(thread.relays)
        if relays:
            beside, end = window.nodes.beside(window.rank), time.monotonic() + _LAST
            while not all(_has_ended(window, rank) for rank in beside) and time.monotonic() < end:
                time.sleep(_LONGEST)
        for relay in relays:
            relay.close(_LAST)
        thread.join(_LAST)


def _has_ended(window: Window, rank: int) -> bool:
    return bool(window.segments[rank].words[Word.ENDED]) or window.state_of(rank) == "gone"
