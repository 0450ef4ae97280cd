"""Role makers of jobs that MPI has started."""

from __future__ import annotations

import random
from typing import Any

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.parallel.roles.base import AskedRole, KnownRole
from workbench.parallel.roles.general import local_ip
from workbench.parallel.roles.meeting import Meeting, ProcessMeeting, gather_values, reduce_arrays
from workbench.parallel.roles.role import Role
from workbench.runtime.comm.mpi.world import is_started_by_mpi, world

FIRST_PORT, LAST_PORT = 60001, 64000


class MPIRoleMaker(KnownRole):
    """What role makers of MPI jobs have in common: all processes meet, and know each other's addresses.

    A subclass says in `generate_role` who trains and who serves. mpi4py is needed, and mpiexec (or `workbench launch`)
    to start the processes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._everybody: Any = None
        self._kind: Meeting | None = None
        self._ips: list[str] = []

    def generate_role(self) -> None:
        """Say who trains and who serves: for subclasses."""
        raise self._unknown("generate_role")

    def _world(self) -> Any:
        if self._everybody is None:
            if not is_started_by_mpi():
                raise PreconditionNotMet(
                    f"{type(self).__name__} is for processes that MPI has started: workbench launch -n 2 script.py, or "
                    "mpiexec -n 2 python -m mpi4py script.py"
                )
            self._everybody = world()
        return self._everybody

    def _get_rank(self) -> int:
        return int(self._world().rank)

    def _get_size(self) -> int:
        return int(self._world().size)

    def _all_gather(self, obj: Any) -> list[Any]:
        return gather_values(ProcessMeeting(self._world()), obj, "all_gather")

    def _barrier_all(self) -> None:
        self._world().barrier().wait()

    def _get_ips(self) -> list[str]:
        """The addresses of all processes, in their order."""
        self._ips = self._ips or [str(ip) for ip in self._all_gather(self.get_local_ip())]
        return self._ips

    def get_local_ip(self) -> str:
        """The address of this machine."""
        return local_ip()

    def _among_its_kind(self, what: str) -> Meeting:
        self.generate_role()
        if self._kind is None:
            raise PreconditionNotMet(f"{what}: this process does not know its kind yet")
        return self._kind

    def _worker_gather(self, obj: Any) -> list[Any] | None:
        if not self.is_worker():
            return None
        return gather_values(self._among_its_kind("_worker_gather"), obj, "_worker_gather")

    def all_gather(self, input: Any) -> list[Any]:
        """The values of all processes, in their order: numbers, texts, lists, dicts."""
        return self._all_gather(input)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """The arrays of all trainers, joined element by element (`"sum"`, `"max"`, `"min"`), into `output`."""
        if self.is_worker():
            reduce_arrays(self._among_its_kind("all_reduce_worker"), input, output, mode)

    _all_reduce = all_reduce_worker

    def barrier_worker(self) -> None:
        """Return when all trainers are here; at once on servers."""
        if self.is_worker():
            self._among_its_kind("barrier_worker").gather(b"", "barrier_worker")

    def barrier_all(self) -> None:
        """Return when all processes are here."""
        self._barrier_all()

    def _barrier_server(self) -> None:
        if self.is_server():
            self._among_its_kind("_barrier_server").gather(b"", "_barrier_server")

    _barrier_worker = barrier_worker


class MPISymetricRoleMaker(AskedRole, MPIRoleMaker):
    """A server and a trainer for every two processes: even ranks serve, odd ranks train.

    Numbers are integers (in Paddle 1.8.5 under Python 3 they are floats). Servers listen on a port that is drawn by the
    number of servers, so that all processes know it; several on one machine take the following ones, too.

    Raises:
        PreconditionNotMet: MPI has not started the processes. InvalidArgument: an odd number of them.

    Example:
        >>> from workbench.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker
        >>> role = MPISymetricRoleMaker()
        >>> role.generate_role()  # doctest: +SKIP
        >>> role.is_server()      # doctest: +SKIP
        True
    """

    def generate_role(self) -> None:
        """Take a role by the rank, once; all processes do it together."""
        if self._role is not None:
            return
        everybody = self._world()
        if everybody.size % 2:
            raise InvalidArgument(
                "MPISymetricRoleMaker takes two processes a server and trainer\n"
                f"  expected: an even number, as in workbench launch -n {everybody.size + 1} script.py\n"
                f"  got:      {everybody.size}"
            )
        ips = self._get_ips()
        groups = [everybody.subgroup(list(range(first, everybody.size, 2))) for first in (0, 1)]
        own = groups[everybody.rank % 2]
        self._role = Role.WORKER if everybody.rank % 2 else Role.SERVER
        self._current_id, self._kind = everybody.rank // 2, ProcessMeeting(own)
        self._server_endpoints, self._worker_endpoints = _endpoints(ips[0::2]), ips[1::2]

    def worker_num(self) -> int:
        """How many trainers there are: half of the processes."""
        self.generate_role()
        return self._get_size() // 2

    def server_num(self) -> int:
        """How many servers there are: half of the processes."""
        self.generate_role()
        return self._get_size() // 2

    def _worker_num(self) -> int:
        return self.server_num()

    def _server_num(self) -> int:
        return self.server_num()

    def _finalize(self) -> None:
        """MPI itself ends with the process."""


def _endpoints(ips: list[str]) -> list[str]:
    """An endpoint for each: the port that follows from their number, and on one machine those after it."""
    first = random.Random(len(ips)).randint(FIRST_PORT, LAST_PORT)
    return [f"{ip}:{first + ips[:i].count(ip)}" for i, ip in enumerate(ips)]
