"""Groups of all processes, lent to those who need collectives and failures of their own.

Memory that processes share is given back by all of them together (`ProcessGroup.close`), which those cannot do who end
at different times, or by an error. So a group that is not needed any more is kept, and lent again as soon as it lies
idle on all processes.
"""

from __future__ import annotations

import weakref

import numpy as np

from workbench.errors import Aborted, PreconditionNotMet
from workbench.runtime.comm.mpi.group import GroupWork, ProcessGroup


class LentGroups:
    """Those of one world. Every process borrows as often as the others, in the same order.

    Args:
        world: all processes.
    """

    def __init__(self, world: ProcessGroup) -> None:
        self._world = world
        self._all: list[ProcessGroup] = []  # in the order they were made in, the same on all processes
        self._idle: set[int] = set()
        self._asked: GroupWork | None = None  # which groups lie idle, until the one that follows from it is there

    def borrow(self, timeout: float) -> ProcessGroup:
        """A group of all processes that nobody else uses; all of them call it.

        Who has waited for the others in vain and calls again goes on waiting where it was.

        Args:
            timeout: seconds the others have for coming; from here on the deadline of the group.

        Raises:
            PeerTimeout, PeerFailed: not all have come. Unavailable: they have not all begun anew with it.
        """
        try:
            number = self._idle_everywhere(timeout)
            group = self._another(timeout) if number is None else self._again(number, timeout)
        except (Aborted, PreconditionNotMet):  # the world has given up: it begins anew, or ends
            self._asked = None
            raise
        self._asked = None
        return group

    def give_back(self, group: ProcessGroup) -> None:
        """This process needs a group no more; nothing happens a second time. For any thread."""
        group.channel.is_stopped = _never
        self._idle.add(self._all.index(group))

    def _idle_everywhere(self, timeout: float) -> int | None:
        """The first group that no process uses."""
        if self._asked is None:
            mine = np.array([number in self._idle for number in range(len(self._all))] + [False])
            self._asked = self._world.all_gather(mine, names=["groups that lie idle"])
        told = self._asked.wait(timeout)
        assert told is not None
        return next(iter(np.flatnonzero(told.all(0)).tolist()), None)

    def _another(self, timeout: float) -> ProcessGroup:
        self._all.append(self._world.own(timeout))
        return self._all[-1]

    def _again(self, number: int, timeout: float) -> ProcessGroup:
        group = self._all[number]
        group.channel.reset(timeout)
        group.timeout = timeout
        self._idle.discard(number)
        return group


_lent: weakref.WeakKeyDictionary[ProcessGroup, LentGroups] = weakref.WeakKeyDictionary()


def lent_groups(world: ProcessGroup) -> LentGroups:
    """The groups that are lent to processes of a world."""
    if world not in _lent:
        _lent[world] = LentGroups(world)
    return _lent[world]


def _never() -> bool:
    return False
