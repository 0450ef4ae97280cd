"""One decision of all processes: yes if every one of them says so, else no, the same for all.

Every process says yes by a word of the window. The first process, when it sees all of them, writes down the verdict;
nobody else does, so there is one. Who has said yes and cannot wait for the others any more - its time is up, Ctrl-C,
another one has failed - gives up, and then looks whether the first process was about to decide: if it had not said yes
itself it will see that somebody gave up; if it had, its verdict is a moment away and is heard out.
"""

from __future__ import annotations

import time

from workbench.runtime.comm.mpi.exchange.channel import Channel
from workbench.runtime.comm.mpi.memory.window import Word
from workbench.runtime.words import window as words

_TITLE = "the vote on the step"
_HEARING = 10.0  # seconds for a verdict that is a moment away


class Ballot:
    """The votes of one group, one after the other."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._window = channel, channel.window
        self._first = channel.window.segments[0].words
        self._state = channel.state.data
        self._is_cut_off = False  # whether this process cannot learn what the first one has done

    @property
    def _number(self) -> int:
        """Of the vote on the step under way."""
        return self._state[words.NUMBER]

    def prepare(self) -> None:
        """The next vote is another one than the last."""
        self._state[words.NUMBER] = self._window.own.words[Word.VOTE] + 1
        self._is_cut_off = False

    @property
    def is_agreed(self) -> bool:
        """Whether the verdict of the vote that was prepared last is yes; also when the first process is further on."""
        return bool(self._first[Word.VERDICT] > 2 * self._number)

    def agree(self, timeout: float | None) -> None:
        """Say yes, and return when all have: the verdict is yes.

        Args:
            timeout: seconds.

        Raises:
            Aborted: another process gave up. PeerTimeout: one did not come in time. Whatever is raised, from outside
                too, `settle` is to be called then: the verdict may be yes all the same.
        """
        window, number = self._window, self._number
        window.publish(Word.VOTE, number)
        window.barrier()
        if window.rank == 0:
            self._channel.look()  # who gave up before this vote was there does not wait for a verdict
            self._channel.require_alive(_TITLE)
            self._channel.until(
                lambda: window.all_reached(Word.VOTE, number), _TITLE, timeout, lambda: window.behind(Word.VOTE, number)
            )
            window.publish(Word.VERDICT, 2 * number + 1)
            return
        self._channel.until(self._is_decided, _TITLE, timeout, lambda: window.behind(Word.VOTE, number) or [0])
        self._channel.look()
        if not self.is_agreed:
            self._channel.require_alive(_TITLE)

    def settle(self, error: BaseException) -> None:
        """See to it that there is a verdict, after `agree` has raised; called again, it changes nothing.

        Args:
            error: what it raised.
        """
        window, number = self._window, self._number
        if window.own.words[Word.VOTE] < number or self._is_decided():
            return  # nobody can have counted on this process; or there is a verdict
        self._channel.give_up(f"{_TITLE} ended with {type(error).__name__}: {error}", error)
        if window.rank == 0:
            window.publish(Word.VERDICT, 2 * number)  # who sees it sees why
            return
        if not window.nodes.is_one:
            self._channel.pass_on()
        self._is_cut_off = not window.fence(_HEARING)  # from here on the first process does not begin to decide for yes
        if self._first[Word.VOTE] >= number:
            self._hear_out()

    @property
    def is_open(self) -> bool:
        """Whether this process has said yes, and will not learn the verdict: the first one does not tell it."""
        has_voted = self._window.own.words[Word.VOTE] == self._number
        may_decide = self._is_cut_off or self._first[Word.VOTE] >= self._number
        return has_voted and may_decide and not self._is_decided()

    def _is_decided(self) -> bool:
        return bool(self._first[Word.VERDICT] >= 2 * self._number)

    def _hear_out(self) -> None:
        """Wait for a verdict that is about to come."""
        end = time.monotonic() + _HEARING
        while not self._is_decided() and time.monotonic() < end and self._window.state_of(0) != "gone":
            time.sleep(1e-4)
