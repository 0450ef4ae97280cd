"""Communicators by their numbers, as transpiled programs name them; the one place of a process where they are kept.

A startup program enters rings (`c_comm_init`, `c_comm_init_all`), the program goes round them. Ranks of an MPI job are
a group already, so entering compares what the program says with who they are; all rings of a process are that group,
and several of them, which on GPUs let collectives run side by side, make no difference to what is computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.framework.notice import tell
from workbench.runtime.comm.mpi.world import is_started_by_mpi, world


class EnteredRing(NamedTuple):
    """A communicator.

    Attributes:
        size, rank: how many processes, and which one this is. of_devices: it joins the devices of one process.
    """

    size: int
    rank: int
    of_devices: bool = False


class Rings:
    """The rings of this process."""

    def __init__(self) -> None:
        self._entered: dict[int, EnteredRing] = {}
        self._has_told = False

    def identity(self, endpoints: Sequence[str], rank: int, nbytes: int) -> np.ndarray:
        """What a group of these processes is known by: `[nbytes]` uint8, the same for all of them.

        Raises:
            PreconditionNotMet: they were not started together. InvalidArgument: there are others.
        """
        self._require_group(len(endpoints), rank, "the processes with addresses " + ", ".join(endpoints))
        digest = hashlib.sha256(",".join(endpoints).encode()).digest()
        return np.frombuffer((digest * (nbytes // len(digest) + 1))[:nbytes], np.uint8).copy()

    def enter(self, ring_id: int, nranks: int, rank: int) -> None:
        """Take part in a ring.

        Raises:
            PreconditionNotMet: its processes were not started together. InvalidArgument: there are others.
        """
        self._require_group(nranks, rank, f"ring {ring_id}")
        self._entered[ring_id] = EnteredRing(nranks, rank)

    def enter_all(self, ring_id: int, devices: Sequence[int]) -> None:
        """Make a ring of the devices of this process."""
        self._entered[ring_id] = EnteredRing(1, 0, of_devices=True)

    def ring(self, ring_id: int) -> EnteredRing:
        """A ring that was entered.

        Raises:
            PreconditionNotMet: it was not.
        """
        entered = self._entered.get(ring_id)
        if entered is None:
            raise PreconditionNotMet(
                f"ring {ring_id} is not there: run the startup program that was transpiled with this program first"
            )
        return entered

    def leave_all(self) -> None:
        """Forget all rings."""
        self._entered.clear()

    def __call__(self, ring_id: int) -> RingCollectives:
        """The collectives of a ring, for a program that is run op by op."""
        return RingCollectives(self.ring(ring_id))

    def _require_group(self, size: int, rank: int, what: str) -> None:
        if size == 1:
            return
        if not is_started_by_mpi():
            raise PreconditionNotMet(
                f"{what}: {size} processes exchange values, and this one was started alone; start them together: "
                f"workbench launch -n {size} script.py"
            )
        group = world()
        if (size, rank) != (group.size, group.rank):
            raise InvalidArgument(
                f"{what}: the program is one for other processes than those that were started\n"
                f"  expected: rank {group.rank} of {group.size}, as mpiexec has started them\n"
                f"  got:      rank {rank} of {size}"
            )
        if not self._has_told:
            self._has_told = True
            tell("collectives between CPU devices of several processes go through their MPI group, not through NCCL")


class RingCollectives:
    """Collectives of one ring, one after the other."""

    def __init__(self, ring: EnteredRing) -> None:
        self._ring = ring

    def all_reduce(self, x: Any) -> Any:
        """The sum over all members, in the order of their ranks."""
        return x if self._ring.size == 1 else world().all_reduce(np.ascontiguousarray(x)).wait()

    def broadcast(self, x: Any, root: int) -> Any:
        """What member `root` has."""
        if self._ring.size == 1:
            return x
        value = np.array(x, order="C")
        world().broadcast(value, root).wait()
        return value


RINGS = Rings()
"""Those of this process."""
