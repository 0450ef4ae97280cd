"""The processes that mpiexec has begun on this machine, as the system knows them: before they tell of themselves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_RANK = b"PMIX_RANK="  # how Open MPI's mpiexec tells a process its rank


def begun_by(mpiexec: int) -> dict[int, int]:
    """Rank -> process id; {} where the system does not tell, or another MPI starts processes in its own way.

    Args:
        mpiexec: its process id.
    """
    begun = {}
    for listed in Path(f"/proc/{mpiexec}/task").glob("*/children"):
        with suppress(OSError):  # a thread has ended
            for pid in listed.read_text().split():
                rank = _rank_of(int(pid))
                if rank is not None:
                    begun[rank] = int(pid)
    return begun


def _rank_of(pid: int) -> int | None:
    """None of a process that is no rank, or has ended."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    told = next((one.removeprefix(_RANK) for one in variables if one.startswith(_RANK)), b"")
    return int(told) if told.isdigit() else None
