"""GeneralRoleMaker: roles from variables, and processes that meet."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unavailable, Unimplemented
from workbench.parallel.roles.base import AskedRole
from workbench.parallel.roles.meeting import (
    Meeting,
    ProcessMeeting,
    Store,
    StoreMeeting,
    gather_values,
    reduce_arrays,
)
from workbench.parallel.roles.role import Role
from workbench.parallel.roles.shared_folder import SharedFolder
from workbench.parallel.roles.store_server import RemoteStore, StoreServer
from workbench.parallel.roles.variables import WITH_SERVERS, RoleVariables, is_endpoint
from workbench.runtime.comm.mpi.world import is_started_by_mpi, world

_OPTIONS = ("hdfs_name", "hdfs_ugi", "path", "init_timeout_seconds", "run_timeout_seconds", "http_ip_port")
_LEAVING = 30.0  # seconds trainer 0 keeps its store for those that have not left yet
_GONE = 1.0  # seconds until a trainer 0 that does not answer a leaving process has gone
TOKEN = "WORKBENCH_FLEET_TOKEN"


class GeneralRoleMaker(AskedRole):
    """A trainer or a server by the variables of `workbench launch`, with groups of trainers, of servers and of all.

    The groups meet over MPI where `workbench launch` or mpiexec has started the processes; by `http_ip_port`, over a
    store that trainer 0 keeps there; by `path`, in a folder that all see. Paddle's HDFS is not served.

    Args:
        kwargs: `http_ip_port`, `ip:port` of trainer 0's store: beyond this machine only with a secret text in
            `WORKBENCH_FLEET_TOKEN`, the same in all processes. `path`: the folder. `init_timeout_seconds` (3600),
            `run_timeout_seconds` (9999999): how long the first meeting and later ones wait. `hdfs_name`, `hdfs_ugi`:
            refused unless empty. Variables: `PADDLE_PSERVERS_IP_PORT_LIST`, `PADDLE_TRAINER_ENDPOINTS`,
            `TRAINING_ROLE`, `PADDLE_TRAINER_ID` or `PADDLE_PSERVER_ID`; `PADDLE_IS_BARRIER_ALL_ROLE` ("1"): whether
            servers meet with all others; `SYS_JOB_ID`: the name of the job.

    Raises:
        Unimplemented: HDFS. InvalidArgument: an unknown option, a wrong value. MissingVariable: a variable is not set.
        PeerTimeout: processes did not come; names them.

    Example:
        >>> from workbench.fluid.incubate.fleet.base.role_maker import GeneralRoleMaker
        >>> role = GeneralRoleMaker(http_ip_port="127.0.0.1:36001")
        >>> role.generate_role()          # doctest: +SKIP
        >>> role.all_gather(role.worker_index())  # doctest: +SKIP
        [0, 1, 0]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        unknown = sorted(set(kwargs) - set(_OPTIONS))
        if unknown:
            raise InvalidArgument(f"GeneralRoleMaker has no option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
        if kwargs.get("hdfs_name"):
            raise Unimplemented(
                f"GeneralRoleMaker: hdfs_name={kwargs['hdfs_name']!r}: there is no client of HDFS here; path= takes a "
                "folder that all machines see, http_ip_port= the address of a store that trainer 0 keeps"
            )
        self._address, self._path = kwargs.get("http_ip_port") or "", str(kwargs.get("path") or "")
        self._first_patience = _seconds("init_timeout_seconds", kwargs.get("init_timeout_seconds", 3600))
        self._patience = _seconds("run_timeout_seconds", kwargs.get("run_timeout_seconds", 9999999))
        if self._address and not is_endpoint(self._address):
            raise InvalidArgument(f"GeneralRoleMaker takes 'ip:port' as http_ip_port, got {self._address!r}")
        self._store: Store | None = None
        self._server: StoreServer | None = None
        self._groups: dict[str, Meeting | None] = {}
        self._is_generated = False

    def generate_role(self) -> None:
        """Read the variables and meet the others, once."""
        if self._is_generated:
            return
        self._read()
        self._groups = self._met_over_mpi() if not (self._address or self._path) else self._met_in_store()
        self._is_generated = True

    def _read(self) -> None:
        given = RoleVariables("GeneralRoleMaker", WITH_SERVERS)
        many = "ip:port of all {}, with commas between"
        servers = given.endpoints("PADDLE_PSERVERS_IP_PORT_LIST", many.format("servers"))
        trainers = given.endpoints("PADDLE_TRAINER_ENDPOINTS", many.format("trainers"))
        is_trainer = given.word("TRAINING_ROLE", ("TRAINER", "PSERVER")) == "TRAINER"
        name, among = ("PADDLE_TRAINER_ID", trainers) if is_trainer else ("PADDLE_PSERVER_ID", servers)
        number = given.number(name, f"a number below {len(among)}")
        if number >= len(among):
            raise given.wrong(name, f"a number below {len(among)}", str(number))
        self._meets_all = os.environ.get("PADDLE_IS_BARRIER_ALL_ROLE", "1") == "1"
        self._role = Role.WORKER if is_trainer else Role.SERVER
        self._current_id, self._worker_endpoints, self._server_endpoints = number, trainers, servers
        self._rank = number if is_trainer else len(trainers) + number

    # Meeting

    def _members(self) -> dict[str, list[int]]:
        """The groups, by the numbers of their processes: trainers come first, then servers."""
        trainers = list(range(len(self._worker_endpoints)))
        everybody = list(range(len(trainers) + len(self._server_endpoints)))
        servers = everybody[len(trainers) :]
        return {"trainers": trainers, "servers": servers, "all": everybody if self._meets_all else trainers}

    def _met_over_mpi(self) -> dict[str, Meeting | None]:
        if not is_started_by_mpi():
            raise InvalidArgument(
                "GeneralRoleMaker: MPI has not started these processes, so they need a place to meet\n"
                "  expected: http_ip_port='ip:port' of trainer 0's store, or path= of a folder that all see\n"
                f"  got:      neither\n  `{WITH_SERVERS}` starts them by MPI"
            )
        whole = world()
        size = len(self._worker_endpoints) + len(self._server_endpoints)
        if (whole.rank, whole.size) != (self._rank, size):
            raise InvalidArgument(
                "the variables of this process do not fit how MPI has started it: trainers are the first ranks, "
                f"servers the last\n  expected: rank {self._rank} of {size}\n"
                f"  got:      rank {whole.rank} of {whole.size}"
            )
        groups: dict[str, Meeting | None] = {}
        for name, members in self._members().items():
            group = whole.subgroup(members, min(self._patience, 1e6))
            groups[name] = None if group is None else ProcessMeeting(group)
        return groups

    def _met_in_store(self) -> dict[str, Meeting | None]:
        self._store = SharedFolder(Path(self._path) / self._job) if self._path else self._remote_store()
        names = [f"trainer {i}" for i in range(len(self._worker_endpoints))]
        names += [f"server {i}" for i in range(len(self._server_endpoints))]
        groups: dict[str, Any] = {}
        for name, ranks in self._members().items():
            called = [names[rank] for rank in ranks]
            inside = self._rank in ranks
            key = f"{self._job}.{name}"
            groups[name] = (
                StoreMeeting(self._store, key, called, ranks.index(self._rank), self._patience) if inside else None
            )
        first = groups["all"]
        if first is not None:
            first.gather(b"", "GeneralRoleMaker", self._first_patience)
        return groups

    def _remote_store(self) -> Store:
        host, _, port = self._address.rpartition(":")
        token = os.environ.get(TOKEN, "")
        if self._rank == 0:
            self._server = StoreServer(host, int(port), token)
        return RemoteStore(host, int(port), token, self._first_patience)

    @property
    def _job(self) -> str:
        return "".join(c if c.isalnum() or c in "-_" else "_" for c in os.environ.get("SYS_JOB_ID", "job"))

    def _meeting(self, name: str, what: str) -> Meeting:
        self.generate_role()
        if not self._groups:
            raise PreconditionNotMet(f"{what}: this process has taken leave of the others")
        meeting = self._groups[name]
        if meeting is None:
            kind = "server" if self.is_server() else "trainer"
            raise InvalidArgument(f"{what} is for {name}, this process is {kind} {self._current_id}")
        return meeting

    # What is asked

    def worker_num(self) -> int:
        """How many trainers there are."""
        self.generate_role()
        return len(self._worker_endpoints)

    def server_num(self) -> int:
        """How many servers there are."""
        self.generate_role()
        return len(self._server_endpoints)

    def get_local_endpoint(self) -> str:
        """`ip:port` of this process."""
        self.generate_role()
        return (self._worker_endpoints if self.is_worker() else self._server_endpoints)[self._current_id]

    def get_local_ip(self) -> str:
        """The address of this machine."""
        return local_ip()

    def all_gather(self, input: Any) -> list[Any]:
        """The values of all processes, trainers first: numbers, texts, lists, dicts."""
        return gather_values(self._meeting("all", "all_gather"), input, "all_gather")

    def _all_gather(self, obj: Any) -> list[Any]:
        return self.all_gather(obj)

    def _worker_gather(self, obj: Any) -> list[Any] | None:
        if not self.is_worker():
            return None
        return gather_values(self._meeting("trainers", "_worker_gather"), obj, "_worker_gather")

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """The arrays of all trainers, joined element by element (`"sum"`, `"max"`, `"min"`), into `output`.

        Nothing happens on servers.
        """
        if self.is_worker():
            reduce_arrays(self._meeting("trainers", "all_reduce_worker"), input, output, mode)

    _all_reduce = all_reduce_worker

    def barrier_worker(self) -> None:
        """Return when all trainers are here; at once on servers."""
        if self.is_worker():
            self._meeting("trainers", "barrier_worker").gather(b"", "barrier_worker")

    def barrier_all(self) -> None:
        """Return when all processes are here."""
        self.generate_role()
        if not self._groups or self._groups["all"] is not None or self._meets_all:
            self._meeting("all", "barrier_all").gather(b"", "barrier_all")

    def _barrier_server(self) -> None:
        if self.is_server():
            self._meeting("servers", "_barrier_server").gather(b"", "_barrier_server")

    _barrier_worker, _barrier_all = barrier_worker, barrier_all

    def _get_rank(self) -> int:
        self.generate_role()
        return self._rank

    def _get_size(self) -> int:
        self.generate_role()
        return len(self._members()["all"])

    def _finalize(self) -> None:
        """Take leave; trainer 0 keeps its store until the others have, or do not come."""
        if self._store is None:
            return
        meeting, self._groups = self._groups.get("all"), {}
        store, self._store = self._store, None
        if meeting is None:
            return
        if self._server is None:
            _take_leave(store, f"{self._job}.left.{self._rank}")
        else:
            store.put(f"{self._job}.left.{self._rank}", b"1")
            self._wait_for_leaving(store, meeting.size)
            self._server.close()
            self._server = None

    def _wait_for_leaving(self, store: Store, size: int) -> None:
        end = time.monotonic() + _LEAVING
        while time.monotonic() < end and any(store.get(f"{self._job}.left.{r}") is None for r in range(size)):
            time.sleep(0.02)


def _take_leave(store: Store, key: str) -> None:
    """Tell trainer 0, which may have gone: then nobody waits to be told."""
    last = store.with_patience(_GONE) if isinstance(store, RemoteStore) else store
    with suppress(Unavailable):
        last.put(key, b"1")


def local_ip() -> str:
    """The address of this machine; 127.0.0.1 where it has no other."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _seconds(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidType(f"GeneralRoleMaker takes seconds as {name}, got {given!r}")
    if not given > 0:
        raise InvalidArgument(f"GeneralRoleMaker takes a positive {name}, got {given}")
    return float(given)
