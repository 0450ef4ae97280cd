"""Collectives as operators of a program, as transpilers of collective modes write them (T-30 … T-32).

A *ring* is a communicator by its number; the startup program makes it (`groups.py`). In a graph over devices these
operators become its collectives; a body runs only where a program is run in order, op by op.
"""

from __future__ import annotations

from typing import Any, Protocol

from workbench.framework.op.declare import op


class RingMember(Protocol):
    """Carries out the collectives of one ring, for a program that is run in order."""

    def all_reduce(self, x: Any) -> Any:
        """The sum over all members, in the order of their ranks."""

    def broadcast(self, x: Any, root: int) -> Any:
        """What member `root` has."""


def _of_ring(x: Any, **attrs: Any) -> Any:
    return x


@op(
    "c_allreduce_sum",
    "X -> Out",
    attrs={"ring_id": 0, "use_calc_stream": False},
    infer=_of_ring,
    needs="rings",
    replicated="Out",
)
def C_ALLREDUCE_SUM(xp: Any, x: Any, rings: Any, ring_id: int, use_calc_stream: bool) -> Any:
    """The sum of X over all members of a ring."""
    return rings(ring_id).all_reduce(x)


@op(
    "c_broadcast",
    "X -> Out",
    attrs={"ring_id": 0, "root": 0, "use_calc_stream": False},
    infer=_of_ring,
    needs="rings",
    replicated="Out",
)
def C_BROADCAST(xp: Any, x: Any, rings: Any, ring_id: int, root: int, use_calc_stream: bool) -> Any:
    """What member `root` of a ring has in X."""
    return rings(ring_id).broadcast(x, root)


@op("c_sync_calc_stream", "X -> Out", infer=_of_ring)
def C_SYNC_CALC_STREAM(xp: Any, x: Any) -> Any:
    """X, once the stream of computations has come so far: an order between streams, on a CPU there already."""
    return x


@op("c_sync_comm_stream", "X -> Out", attrs={"ring_id": 0}, infer=_of_ring)
def C_SYNC_COMM_STREAM(xp: Any, x: Any, ring_id: int) -> Any:
    """X, once the collectives of a ring have come so far: an order between streams, on a CPU there already."""
    return x
