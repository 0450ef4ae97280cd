"""Groups of processes: the world that `init_parallel_env` connects, and parts of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet
from workbench.layers.weighted.process_sums import sum_with
from workbench.parallel.groups.alone import Alone
from workbench.parallel.groups.process_sum import ProcessSum
from workbench.runtime.comm.base import peer_patience
from workbench.runtime.standing import Standing, require_agreement, standing

BACKENDS = ("auto", "gloo", "mpi")


class Group:
    """Some of the processes; `init_parallel_env` and `new_group` make groups.

    Attributes:
        id: its number; 0 is the world. ranks: its members, by their ranks in the world.
        rank: of this process in the group, -1 if it is no member. process_group: what carries out its collectives,
            None if this process is no member.
    """

    def __init__(self, number: int, ranks: Sequence[int], process_group: Any) -> None:
        self.id, self.ranks, self.process_group = number, list(ranks), process_group
        self.rank = -1 if process_group is None else int(process_group.rank)

    @property
    def nranks(self) -> int:
        """How many members it has."""
        return len(self.ranks)

    world_size = nranks

    @property
    def name(self) -> str:
        """As Paddle calls it."""
        return f"_default_pg{self.id}"

    def is_member(self) -> bool:
        """Whether this process belongs to it."""
        return self.process_group is not None

    def get_group_rank(self, rank: int) -> int:
        """The rank in the group of a process with `rank` in the world; -1 if it is no member."""
        return self.ranks.index(rank) if rank in self.ranks else -1

    def __repr__(self) -> str:
        return f"Group(rank {self.rank} of {self.nranks}, id {self.id}, ranks {self.ranks})"


_groups: dict[int, Group] = {}
_made = 0  # numbers are the same in all processes, since all of them call new_group


def init_parallel_env() -> Group | None:
    """Connect this process to the others it was started with; a notice, and nothing else, if there are none.

    Returns:
        the group of all processes, None if this one is alone.

    Raises:
        InvalidArgument: variables of two sources disagree about which process this is, with both values.
        Unavailable: they name several processes, but MPI did not start them, or there is no MPI.

    Example:
        >>> wb.distributed.init_parallel_env()                       # doctest: +SKIP
        Group(rank 0 of 2, id 0, ranks [0, 1])
    """
    if 0 in _groups:
        return _groups[0] if _groups[0].nranks > 1 else None
    own = standing()
    _require_backend(os.environ.get("PADDLE_DISTRI_BACKEND") or "auto")
    if own.size < 2:
        warnings.warn(
            "init_parallel_env: this process was started alone, so there is nobody to connect to; "
            "`workbench launch -n 2 script.py` or `distributed.spawn` start several",
            stacklevel=2,
        )
        _groups[0] = Group(0, [0], Alone(peer_patience()))
        return None
    from workbench.runtime.comm.mpi.world import world

    if os.environ.get("TRAINING_ROLE", "TRAINER") != "TRAINER" or os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST"):
        raise PreconditionNotMet("init_parallel_env is for jobs without parameter servers; those use fleet.init")
    everybody = world()
    of_mpi = Standing(everybody.rank, everybody.size, None, None, "MPI")
    if of_mpi.size == 1:
        raise InvalidArgument(
            f"according to {own.source} this is process {own.rank} of {own.size}, but MPI sees 1 process\n"
            f"  start them with `workbench launch -n {own.size} script.py` or mpiexec, or unset the variables"
        )
    require_agreement(own, of_mpi)
    _groups[0] = Group(0, range(everybody.size), everybody)
    sum_with(lambda tensor: ProcessSum.apply(tensor, everybody, "statistics of a layer"))
    return _groups[0]


def is_initialized() -> bool:
    """Whether `init_parallel_env` has been called."""
    return 0 in _groups


def require_world() -> Group:
    """The group of all processes.

    Raises:
        PreconditionNotMet: `init_parallel_env` has not been called.
    """
    if 0 not in _groups:
        raise PreconditionNotMet("call distributed.init_parallel_env() first; it connects the processes")
    return _groups[0]


def new_group(ranks: Sequence[int] | None = None, backend: str | None = None, timeout: Any = None) -> Group:
    """A group of some of the processes; all processes call it, in the same order, members or not.

    Args:
        ranks: in the world; all of them unless given.
        backend: "gloo", "mpi" or "auto"; on the CPU they are the same.
        timeout: `datetime.timedelta`, the longest time its collectives wait; that of the group of all
            processes unless given, `FLAGS_peer_timeout`.

    Raises:
        InvalidArgument: ranks that are not different ones of the world, or no positive time.
        PreconditionNotMet: `init_parallel_env` has not been called.

    Example:
        >>> wb.distributed.new_group([0, 1])                         # doctest: +SKIP
        Group(rank 0 of 2, id 1, ranks [0, 1])
    """
    global _made
    whole = require_world()
    _require_backend(backend or "auto")
    members = sorted(whole.ranks if ranks is None else ranks)
    unknown = next((rank for rank in members if rank not in whole.ranks), None)
    if unknown is not None or not members or len(set(members)) != len(members):
        raise InvalidArgument(f"new_group takes different ranks below {whole.nranks}, got {list(members)}")
    inner = whole.process_group.subgroup(members, _seconds(timeout))
    _made += 1
    _groups[_made] = Group(_made, members, inner)
    return _groups[_made]


def get_group(id: int = 0) -> Group:
    """The group with a number; 0 is that of all processes.

    Raises:
        NotFound: there is none.
    """
    if id not in _groups:
        raise NotFound(f"there is no group {id!r}; there are {sorted(_groups) or 'none'}")
    return _groups[id]


def destroy_process_group(group: Group | None = None) -> None:
    """Give up a group, or all of them; its members do it together.

    Raises:
        NotFound: it has been given up already.
    """
    going = sorted(_groups, reverse=True) if group is None or group.id == 0 else [group.id]
    if group is not None and group.id not in _groups:
        raise NotFound(f"group {group.id} has been destroyed already")
    if 0 in going:
        sum_with(None)
    for number in going:
        gone = _groups.pop(number)
        if number and gone.process_group is not None:
            gone.process_group.close()


def members_of(group: Group | None) -> Group | None:
    """The group of a collective, that of all processes if None was given; None, after a warning, for who is no member.

    Raises:
        InvalidType: no group. PreconditionNotMet: nobody is connected yet. NotFound: it was destroyed.
    """
    whole = require_world()
    if group is None:
        return whole
    if not isinstance(group, Group):
        raise InvalidType(f"a group comes from new_group, got {type(group).__name__} {group!r}")
    if _groups.get(group.id) is not group:
        raise NotFound(f"group {group.id} has been destroyed")
    if group.is_member():
        return group
    warnings.warn(
        f"rank {whole.rank} is not a member of group {group.id}, {group.ranks}: nothing is done", stacklevel=3
    )
    return None


def _require_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise InvalidArgument(f"backend {backend!r} is not for CPUs; there are {', '.join(map(repr, BACKENDS))}")


def _seconds(timeout: Any) -> float | None:
    if timeout is None:
        return None
    if not isinstance(timeout, timedelta):
        raise InvalidType(f"timeout is a datetime.timedelta, got {timeout!r}")
    if timeout <= timedelta(0):
        raise InvalidArgument(f"timeout is a positive time, got {timeout}")
    return timeout.total_seconds()
