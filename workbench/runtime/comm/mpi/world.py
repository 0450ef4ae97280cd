"""The group of all processes: made at the first call, by all of them together; left when a process ends."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from workbench.errors import Unavailable
from workbench.runtime.comm.base import peer_patience
from workbench.runtime.comm.mpi.assembly import assemble
from workbench.runtime.comm.mpi.group import ProcessGroup, groups
from workbench.runtime.comm.mpi.memory.leftovers import remove_leftovers
from workbench.runtime.comm.mpi.memory.relay import end_relaying
from workbench.runtime.comm.mpi.memory.window import Word
from workbench.version import installing

_LAST_WORDS = 2.0  # seconds other machines have for hearing why the job ends
_STARTED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_worlds: list[ProcessGroup] = []


def world(patience: float | None = None) -> ProcessGroup:
    """The group of all processes that `mpiexec` has started; at the first call all of them make it together.

    Args:
        patience: seconds the others have for coming at that first call; `FLAGS_peer_timeout` unless given.

    Raises:
        Unavailable: there is no mpi4py, or the MPI behind it is not the one that started the processes; or some
            process does not come, which is named.
    """
    if not _worlds:
        _worlds.append(_make_world(peer_patience() if patience is None else patience))
    return _worlds[0]


def is_started_by_mpi() -> bool:
    """Whether this process is one of several that `mpiexec` has started; imports nothing."""
    return any(os.environ.get(name, "1") not in ("", "1") for name in _STARTED)


def _make_world(patience: float) -> ProcessGroup:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI
        raise Unavailable(
            f"several processes need mpi4py and an MPI, which cannot be loaded: {error}\n  {installing('processes')}"
        ) from error
    comm = MPI.COMM_WORLD
    told = max(int(os.environ.get(name) or 1) for name in _STARTED[:2])
    if comm.size == 1 and told > 1:
        library = MPI.Get_library_version().partition(",")[0].strip()
        raise Unavailable(
            f"mpiexec started {told} processes, but each is alone: mpi4py uses {library}, mpiexec is of another MPI\n"
            f"  expected: the mpiexec beside {sys.executable}"
        )
    assemble(comm, patience)
    if comm.rank == 0:
        remove_leftovers()
    group = ProcessGroup(comm.Dup(), range(comm.size))
    if comm.size > 1:
        atexit.register(_leave, comm, os.getpid())
    return group


def _leave(comm: Any, process: int) -> None:
    """At the end of the process: tell those who still wait for it; end the job if MPI would wait in vain.

    A forked child leaves nothing: the memory it would write to is its parent's.
    """
    if os.getpid() != process:
        return
    deserted = [group.channel.window for group in groups if group.channel.is_deserted]
    for window in deserted:
        window.fence(_LAST_WORDS)  # others learn why, before they are ended
    if deserted:
        comm.Abort(1)
    for group in groups:
        if group.channel.failure is None:
            group.end()
    window = _worlds[0].channel.window
    window.publish(Word.ENDED, 1)
    end_relaying(window)
