"""All processes have come: what goes before calls of MPI that wait for each other without an end."""

from __future__ import annotations

import time
from typing import Any

from workbench.errors import Unavailable

_TAG = 31773  # of these messages on a communicator that programs may use, too
_LOOK = 1e-3  # seconds


def assemble(comm: Any, patience: float) -> None:
    """Return when every process of a communicator of mpi4py is here; Ctrl-C is answered.

    Args:
        patience: seconds.

    Raises:
        Unavailable: some have not come; names them.
    """
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    sent = [comm.Isend([bytearray(), 0], rank, _TAG) for rank in others]
    heard = {rank: comm.Irecv([bytearray(), 0], rank, _TAG) for rank in others}
    end = time.monotonic() + patience
    try:
        while missing := [rank for rank, request in heard.items() if not request.Test()]:
            if time.monotonic() > end:
                raise Unavailable(
                    f"rank {comm.rank} of {comm.size} waits for {', '.join(f'rank {rank}' for rank in missing)}, not "
                    f"come within {patience:g} s; all processes begin together: call init_parallel_env, or run the "
                    "first step of several trainers, on every one of them"
                )
            time.sleep(_LOOK)
    except BaseException:
        for request in (*heard.values(), *sent):
            _give_up(request)
        raise
    for request in sent:
        request.Wait()  # they have been received, or are on their way to who is here


def _give_up(request: Any) -> None:
    """Let go of a message that may never come; one that has come is through already."""
    if request:
        request.Cancel()
        request.Free()
