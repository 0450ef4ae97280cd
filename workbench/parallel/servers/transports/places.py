"""Where servers are: ranks of this MPI job, or processes that listen at a port."""

from __future__ import annotations

import os
from typing import Any

from workbench.config import environment
from workbench.errors import InvalidArgument
from workbench.parallel.servers.transports.grpc_transport import GrpcConnection, GrpcListener
from workbench.parallel.servers.transports.mpi_transport import MpiConnection, MpiListener
from workbench.runtime.comm.mpi.world import is_started_by_mpi
from workbench.runtime.servers.transport import Connection, Listener

_SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"


def connect(endpoint: str) -> Connection:
    """A trainer's way to the server with an endpoint.

    Raises:
        Unavailable: there is nothing that would carry messages.
    """
    rank = _rank_of(endpoint)
    if rank is None:
        return GrpcConnection(endpoint)
    comm = _world()
    return MpiConnection(comm, rank, endpoint, _is_crowded(comm))


def listen(endpoint: str, trainers: int) -> Listener:
    """What the server with an endpoint takes requests from.

    Raises:
        Unavailable: there is nothing that would carry messages, or the port is taken. InvalidArgument: another rank of
            the job is this server, or it would serve everybody who reaches it.
    """
    rank = _rank_of(endpoint)
    if rank is None:
        return GrpcListener(endpoint, askers=2 * trainers + 4)
    comm = _world()
    if comm.rank != rank:
        raise InvalidArgument(f"server {endpoint} is rank {rank} of the job, and this is rank {comm.rank}")
    return MpiListener(comm, _is_crowded(comm))


def _rank_of(endpoint: str) -> int | None:
    """The rank of a server in this job; None if MPI has not started it. The servers are the last ranks."""
    listed = [one.strip() for one in environment(_SERVERS).split(",")]
    if endpoint not in listed or not is_started_by_mpi():
        return None
    return int(_world().size) - len(listed) + listed.index(endpoint)


def _world() -> Any:
    from mpi4py import MPI

    return MPI.COMM_WORLD


def _is_crowded(comm: Any) -> bool:
    return int(comm.size) > len(os.sched_getaffinity(0))
