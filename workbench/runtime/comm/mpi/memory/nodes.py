"""Which processes of a group share a machine, as seen by one of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from workbench.config import get_flag
from workbench.errors import InvalidArgument
from workbench.runtime.devices import processors

_MOST_PROCESSORS = 4096  # of a machine that are told apart


class NodeLayout:
    """The machines of a group; all of its processes find them out together.

    The process of a machine that has the lowest rank is the machine's leader: it exchanges with the other leaders.

    Args:
        comm: of mpi4py.

    Attributes:
        here: a communicator of the processes on this machine, in the order of their ranks.
        leaders: one of the leaders; None on other processes.
        leader_of: by rank, the leader of its machine.
        processors: on which those of this machine may run, all of them together.
    """

    def __init__(self, comm: Any) -> None:
        self.here = _sharing_memory(comm)
        self.processors = _processors_of_all(self.here)
        own = np.array([comm.rank], np.int64)
        self.here.Bcast(own, 0)
        leaders = np.empty(comm.size, np.int64)
        comm.Allgather(own, leaders)
        self.leader_of = [int(leader) for leader in leaders]
        self.rank: int = comm.rank
        self.leaders: Any = None if self.is_one else self._between(comm)

    @property
    def is_one(self) -> bool:
        """Whether all processes are on one machine."""
        return len(set(self.leader_of)) == 1

    @property
    def is_led(self) -> bool:
        """Whether this process is a leader."""
        return self.leader_of[self.rank] == self.rank

    def beside(self, rank: int) -> list[int]:
        """The ranks on the machine of this one, ascending."""
        return [other for other, leader in enumerate(self.leader_of) if leader == self.leader_of[rank]]

    @property
    def elsewhere(self) -> list[int]:
        """The ranks on other machines, ascending."""
        return [rank for rank, leader in enumerate(self.leader_of) if leader != self.leader_of[self.rank]]

    @property
    def other_leaders(self) -> list[int]:
        """Of the other machines, ascending."""
        return sorted({self.leader_of[rank] for rank in self.elsewhere})

    def number(self, leader: int) -> int:
        """A leader's rank in `leaders`."""
        return sorted(set(self.leader_of)).index(leader)

    def _between(self, comm: Any) -> Any:
        between = comm.Split(0 if self.is_led else 1, comm.rank)
        if self.is_led:
            return between
        between.Free()
        return None

    def free(self) -> None:
        """Give the communicators back; all processes do it together."""
        self.here.Free()
        if self.leaders is not None:
            self.leaders.Free()


def _processors_of_all(comm: Any) -> int:
    """Of the processes on a machine; processes that are bound may each have others."""
    from mpi4py import MPI

    if not hasattr(os, "sched_getaffinity"):
        return processors()
    own = np.zeros(_MOST_PROCESSORS, np.uint8)
    own[[number for number in os.sched_getaffinity(0) if number < _MOST_PROCESSORS]] = 1
    every = np.zeros_like(own)
    comm.Allreduce(own, every, MPI.MAX)
    return max(1, int(every.sum()))


def _sharing_memory(comm: Any) -> Any:
    """A communicator of the processes that share memory with this one, or would on the machines that a flag names.

    Raises:
        InvalidArgument: the flag does not name one for every process.
    """
    from mpi4py import MPI

    here = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank)
    named = [name.strip() for name in get_flag("FLAGS_nodes_of_ranks").split(",") if name.strip()]
    if not named:
        return here
    world = MPI.COMM_WORLD
    if len(named) != world.size:
        raise InvalidArgument(
            "FLAGS_nodes_of_ranks names the machine of every process\n"
            f"  expected: {world.size} names with commas\n  got:      {get_flag('FLAGS_nodes_of_ranks')!r}"
        )
    divided = here.Split(named.index(named[world.rank]), comm.rank)
    here.Free()
    return divided
