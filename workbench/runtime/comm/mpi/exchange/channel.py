"""Collectives of one group, in the order they were started in, over the window its processes share.

Nothing runs behind the caller's back: what has been started goes on whenever somebody waits, or asks whether it is
done. How far it has come is told by the words of the window alone, so a wait that is interrupted goes on later where
it was.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.errors import Aborted, PeerFailed, PeerTimeout, PreconditionNotMet, Unavailable
from workbench.runtime.comm.base import Handle
from workbench.runtime.comm.mpi.exchange.rounds import Rounds
from workbench.runtime.comm.mpi.exchange.threads import ThreadUse, two_threads
from workbench.runtime.comm.mpi.memory.peers import Pause
from workbench.runtime.comm.mpi.memory.window import Window, Word
from workbench.runtime.native.control import lines
from workbench.runtime.undisturbed import in_one_call
from workbench.runtime.words import window as words
from workbench.runtime.words.window import SLOTS

_LOOK = 0.02  # seconds between two looks at whether the others live
_GLANCES = 50  # polls before a wait is taken seriously
_NATIVE_SPINS = 1000  # looks of a kernel before others get the core: some 20 us
_EPOCH = 1 << 40  # rounds there may be between two resets


class Channel:
    """The way of collectives through a window.

    Args:
        names: what the processes are called, by rank.
        crowded: there are more of them than cores.

    Attributes:
        failure: why nothing goes on, None if all is well; the process that failed, if it is another one, in `culprits`.
        threads: those that use the group; a process is warned of two at once.
        is_deserted: a process is gone, or did not come in time and has not since.
        is_stopped: asked by every wait; when it is true, the wait ends.
        state: what kernels know of it, see `words.window`. They may begin collectives of a channel on which nothing
            has been started that is not over, and leave one in the middle: the same is to be started here then.
    """

    def __init__(self, window: Window, names: list[str], crowded: bool) -> None:
        self.window, self.names, self._crowded = window, names, crowded
        self.threads = ThreadUse(len(names))
        self.failure: str | None = None
        self.cause: BaseException | None = None
        self.culprits: tuple[int, ...] = ()
        self.is_deserted = False
        self.is_stopped: Callable[[], bool] = lambda: False
        self._lock = threading.RLock()
        self.state: np.ndarray = lines(words.SEGMENTS + len(window.segments))
        self._state = self.state.data
        self._state[words.SIZE], self._state[words.RANK] = len(window.segments), window.rank
        self._state[words.EPOCH], self._state[words.BEGIN], self._state[words.FREE] = 1, -1, SLOTS
        self._state[words.SPINS] = 0 if crowded else _NATIVE_SPINS
        self.state[words.SEGMENTS :] = [segment.address for segment in window.segments]
        self._unposted: deque[CollectiveRun] = deque()
        self._untaken: deque[CollectiveRun] = deque()
        self._looked = 0.0
        self._stopped: dict[int, float] = {}  # by rank: since when it is known to be stopped

    @property
    def _next(self) -> int:
        """Round of the next run."""
        if self._untaken:
            return self._untaken[-1].end
        begun = self._state[words.BEGIN]
        return self.window.own.words[Word.TAKEN] if begun < 0 else begun

    # Runs

    def start(self, rounds: Rounds, title: str) -> CollectiveRun:
        """Begin a collective; what of it finds room is handed to the others at once.

        Raises:
            Aborted: the group has given up. PreconditionNotMet: a thread of the same pool has one under way.
        """
        with self._lock:
            self.require_alive(title)
            self._require_one_of_pool(rounds)
            run = CollectiveRun(self, rounds, title, self._next)
            self._state[words.BEGIN] = -1
            # In one call: what is handed in and never taken out, the next collective would take for its own.
            in_one_call((partial(self._unposted.append, run), partial(self._untaken.append, run)))
            self._post()
        return run

    def _require_one_of_pool(self, rounds: Rounds) -> None:
        """Raises: PreconditionNotMet: a thread of the same pool has begun what is under way. The group gives up."""
        own = threading.get_ident()
        for look_again in (True, False):
            begun = [run for run in self._untaken if run.rounds.thread == rounds.thread != 0 and run.thread != own]
            if not begun:
                return
            if look_again:
                self.advance()  # it may be over, and nobody has asked since
        reason = two_threads(begun[0].rounds.described, rounds.described)
        error = PreconditionNotMet(reason)
        self.give_up(reason, error)
        raise error

    def exchange(self, rounds: Rounds, title: str, timeout: float | None) -> None:
        """Begin a collective and wait for it: `start` and `wait` in one, shorter where it has one round.

        A wait that ends early, for whatever reason, has to be followed by a `reset`.
        """
        window, now = self.window, self.window.own.words[Word.TAKEN]
        is_begun = window.own.words[Word.POSTED] > now or self._state[words.BEGIN] >= 0
        if rounds.count != 1 or self._untaken or now >= self._state[words.FREE] or is_begun or self.failure is not None:
            self.start(rounds, title).wait(timeout)
            return
        slot = now % SLOTS
        rounds.post(0, slot)
        window.publish(Word.POSTED, now + 1)
        for _ in range(_GLANCES):
            if window.all_reached(Word.POSTED, now + 1):
                break
        else:
            run = CollectiveRun(self, rounds, title, now)
            self._untaken.append(run)
            run.wait(timeout)
            return
        self._require_the_same(rounds, now)
        rounds.take(0, slot)
        window.publish(Word.TAKEN, now + 1)
        self.is_deserted = False

    def advance(self) -> bool:
        """Do what can be done now; whether there was anything."""
        with self._lock:
            before = self.window.own.words[Word.TAKEN]
            self._post()
            while self._take():
                self._post()
            return self.window.own.words[Word.TAKEN] != before

    def _post(self) -> None:
        """Put into the slots what there is room for."""
        window = self.window
        while self._unposted:
            run, now = self._unposted[0], window.own.words[Word.POSTED]
            if now >= run.end:
                self._unposted.popleft()
                continue
            if now >= self._state[words.FREE]:
                self._state[words.FREE] = SLOTS + min(s.words[Word.TAKEN] for s in window.segments)
                if now >= self._state[words.FREE]:
                    return
            run.rounds.post(now - run.begin, now % SLOTS)
            window.publish(Word.POSTED, now + 1)

    def _take(self) -> bool:
        """Take the next round that everybody has posted; whether there was one."""
        window = self.window
        while self._untaken:
            run, now = self._untaken[0], window.own.words[Word.TAKEN]
            if now >= run.end:
                self._end(run)
                continue
            if not window.all_reached(Word.POSTED, now + 1):
                return False
            self._require_the_same(run.rounds, now)
            self.is_deserted = False
            run.rounds.take(now - run.begin, now % SLOTS)
            window.publish(Word.TAKEN, now + 1)
            if now + 1 == run.end:
                self._end(run)
            return True
        return False

    def _end(self, run: CollectiveRun) -> None:
        """All rounds of the oldest run are taken. Ctrl-C may come anywhere here: what is not ended yet stays listed."""
        run.finish()
        self._untaken.popleft()

    def _require_the_same(self, rounds: Rounds, now: int) -> None:
        """All processes are at the same collective.

        Raises:
            PreconditionNotMet: they are not; names what each of them does. The group gives up.
        """
        slot, mark = now % SLOTS, rounds.mark
        segments, text = self.window.segments, "the processes are at different collectives"
        for segment in segments:
            if segment.mark(slot) != mark:
                break
        else:
            if not rounds.thread or not self._are_crossed(slot):
                return
            text = "threads of the processes are at collectives of one group in different orders"
        told = "\n".join(f"  {name}: {s.label(slot)}" for name, s in zip(self.names, segments))
        error = PreconditionNotMet(f"{text}:\n{told}")
        self.give_up(str(error), error)
        raise error

    def _are_crossed(self, slot: int) -> bool:
        """Whether threads meet that do not belong together, see `threads`."""
        marks = [segment.thread(slot) for segment in self.window.segments]
        return self.threads.meet(marks, self.window.rank) is not None

    # Waiting

    def wait(self, run: CollectiveRun, timeout: float | None) -> None:
        """See `Handle.wait`."""
        if not run.finished:
            self.until(lambda: run.finished, run.title, timeout, lambda: self._late(run))
        run.require_kept()

    def until(
        self, done: Callable[[], bool], title: str, timeout: float | None, late: Callable[[], Iterable[int]]
    ) -> None:
        """Go on with everything that has been started until something is so.

        Args:
            title: what is waited for. late: the ranks it lacks.

        Raises:
            PeerTimeout: it is not within `timeout` seconds. Aborted: the group has given up, or `is_stopped`.
        """
        begin = time.monotonic()
        end = None if timeout is None else begin + timeout
        pause = Pause(self._crowded)
        while not done():
            if self.advance():
                pause = Pause(self._crowded)
                continue
            if done():
                return
            self.look()
            self.require_alive(title)
            if self.is_stopped():
                raise Aborted(f"{title} was given up: this process has stopped")
            if end is not None and (pause.is_long or timeout == 0) and time.monotonic() >= end:
                raise self._timed_out(title, timeout, late())
            pause()
            if pause.is_long:
                self.look_whether_they_live()
                self._require_awake(title, late, begin)

    def _late(self, run: CollectiveRun) -> Iterable[int]:
        own = self.window.own.words
        if own[Word.POSTED] > own[Word.TAKEN]:
            return self.window.behind(Word.POSTED, own[Word.TAKEN] + 1)
        return self.window.behind(Word.TAKEN, own[Word.POSTED] - SLOTS + 1)

    def _timed_out(self, title: str, timeout: float | None, ranks: Iterable[int]) -> PeerTimeout:
        missing = list(ranks)
        self.is_deserted = True
        who = ", ".join(self._described(rank) for rank in missing)
        return PeerTimeout(f"{title}: not done within {timeout} s, waiting for {who}", missing)

    def _require_awake(self, title: str, late: Callable[[], Iterable[int]], begin: float) -> None:
        """Raises: PeerTimeout: a process that is stopped has been waited for since then, for long enough."""
        if not self._stopped:
            return
        patience, now = FLAG_VALUES["FLAGS_stopped_peer_timeout"], time.monotonic()
        if any(patience and now - max(begin, self._stopped.get(rank, now)) >= patience for rank in late()):
            raise self._timed_out(title, patience, late())

    def _described(self, rank: int) -> str:
        state = self.window.state_of(rank)
        return f"{self.names[rank]} ({state})" if state else self.names[rank]

    # Failure

    def look(self) -> None:
        """Whether another process has given up: then this one does, too."""
        if self.failure is not None:
            return
        for rank, segment in enumerate(self.window.segments):
            if segment.words[Word.GAVE_UP] == self._state[words.EPOCH] and segment is not self.window.own:
                self.window.barrier()
                culprit, reason = segment.words[Word.CULPRIT] - 1, segment.reason
                if culprit >= 0:
                    self._fail(reason, None, (culprit,))
                else:
                    self._fail(f"{self.names[rank]} failed: {reason}", None, (rank,))
                return

    def look_whether_they_live(self) -> None:
        """Now and then: whether a process of the group is gone."""
        now = time.monotonic()
        if now - self._looked < _LOOK or self.failure is not None:
            return
        self._looked = now
        states = [self.window.state_of(rank) for rank in range(len(self.names))]
        stopped = [rank for rank, state in enumerate(states) if state == "stopped"]
        self._stopped = {rank: self._stopped.get(rank, now) for rank in stopped}
        gone = [rank for rank, state in enumerate(states) if state == "gone"]
        if gone and not self.advance():  # what it did before it went counts
            self.look()  # it may have said why, or others have seen who was the first
            self._tell_of(gone[0])

    def _tell_of(self, rank: int) -> None:
        """A process is gone: the others hear that it was this one, not those who end because of it."""
        if self.failure is not None:
            return
        reason, self.is_deserted = f"{self.names[rank]}: the process is gone", True
        self.window.own.say(reason, rank)
        self.window.publish(Word.GAVE_UP, self._state[words.EPOCH])
        self._fail(reason, None, (rank,))

    def give_up(self, reason: str, cause: BaseException | None = None) -> None:
        """Make every wait of every process raise."""
        if self.failure is not None:
            return
        self.window.own.say(reason)
        self.window.publish(Word.GAVE_UP, self._state[words.EPOCH])
        self._fail(reason, cause, ())

    def pass_on(self) -> None:
        """Say what another process has said: a machine may have heard of this one only."""
        own, epoch = self.window.own.words, self._state[words.EPOCH]
        if self.failure is not None and own[Word.GAVE_UP] != epoch:
            self.window.own.say(self.failure, self.culprits[0] if self.culprits else None)
            self.window.publish(Word.GAVE_UP, epoch)

    def _fail(self, reason: str, cause: BaseException | None, culprits: tuple[int, ...]) -> None:
        if self.failure is None:
            self.culprits, self.cause, self.failure = culprits, cause, reason
        for run in self._untaken:
            run.give_up(self._refusal(run.title))

    def forget_cause(self) -> None:
        """Keep of a failure only what it says: what caused it is told to whom it concerns, and holds much."""
        self.cause = None

    def require_alive(self, title: str) -> None:
        """Raises: Aborted: the group has given up; PeerFailed if another process did."""
        if self.failure is not None:
            raise self._refusal(title) from self.cause

    def _refusal(self, title: str) -> Aborted:
        text = f"{title} was given up: {self.failure}"
        return PeerFailed(text, self.culprits) if self.culprits else Aborted(text)

    def reset(self, timeout: float) -> None:
        """Begin anew after a failure; every process does it.

        Raises:
            Unavailable: not all of them have within `timeout` seconds; the group stays as it is.
        """
        end = time.monotonic() + timeout
        epoch = self._state[words.EPOCH]
        with self._lock:
            for run in self._untaken:
                run.give_up(self._refusal(run.title))
            self._unposted.clear()
            self._untaken.clear()
        self.window.publish(Word.LEFT, epoch)
        self._meet(Word.LEFT, epoch, end, timeout)
        own, begin = self.window.own.words, epoch * _EPOCH  # nobody waits any more for what they count
        own[Word.POSTED] = own[Word.TAKEN] = begin
        own[Word.VOTE], own[Word.VERDICT] = begin, 2 * begin
        self._state[words.BEGIN], self._state[words.FREE] = -1, begin + SLOTS
        self.window.publish(Word.BEGUN, epoch + 1)
        self._meet(Word.BEGUN, epoch + 1, end, timeout)
        self._state[words.EPOCH] = epoch + 1
        self.failure, self.cause, self.culprits, self.is_deserted = None, None, (), False

    def _meet(self, word: Word, value: int, end: float, timeout: float) -> None:
        pause = Pause(self._crowded)
        while not self.window.all_reached(word, value):
            late = self.window.behind(word, value)
            gone = [rank for rank in late if self.window.state_of(rank) == "gone"]
            if gone or time.monotonic() >= end:
                why = "gone" if gone else f"not there within {timeout} s"
                who = ", ".join(self.names[rank] for rank in gone or late)
                raise Unavailable(f"the group cannot be reset: {why}: {who}")
            pause()


class CollectiveRun(Handle):
    """A collective under way; rounds `begin` to `end` of the channel are its own; `thread` began it."""

    def __init__(self, channel: Channel, rounds: Rounds, title: str, begin: int) -> None:
        self._channel, self.rounds, self.title = channel, rounds, title
        self.begin, self.end = begin, begin + rounds.count
        self.thread = threading.get_ident()
        self.finished = False
        self.whenever_done: Callable[[], Any] | None = None
        self._refused: Aborted | None = None

    def finish(self) -> None:
        """Its last round has been taken. Whoever was interrupted here asks again."""
        if self.finished:
            return
        if self.whenever_done is not None:
            self.whenever_done()
        self.finished = True

    def give_up(self, refusal: Aborted) -> None:
        """The group has given up before it was done."""
        if not self.finished and self._refused is None:
            self._refused = refusal

    def require_kept(self) -> None:
        """Raises: Aborted: it was given up, or the group has been since."""
        if self._refused is not None:
            raise self._refused from self._channel.cause
        self._channel.require_alive(self.title)

    @property
    def is_under_way(self) -> bool:
        """Whether it has been started and neither finished nor given up."""
        return not self.finished and self._refused is None

    @property
    def done(self) -> bool:
        if not self.finished and self._channel.failure is None:
            self._channel.advance()
        return self.finished and self._channel.failure is None

    def wait(self, timeout: float | None = None) -> None:
        if self._refused is not None:
            raise self._refused from self._channel.cause
        self._channel.wait(self, timeout)
