"""PaddleCloudRoleMaker: roles from the variables that launchers set."""

from __future__ import annotations

import os
from typing import Any

from workbench.errors import InvalidForm
from workbench.parallel.roles.base import RoleMakerBase
from workbench.parallel.roles.role import Role
from workbench.parallel.roles.variables import WITH_SERVERS, WITHOUT_SERVERS, MissingOption, RoleVariables

_SERVERS, _TRAINERS = "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS"


class PaddleCloudRoleMaker(RoleMakerBase):
    """Which process this is, by the variables of `workbench launch` and of Paddle's launchers.

    Unlike Paddle 1.8.5, whose collective form says False, a trainer of a fleet without servers is a worker, and the one
    with id 0 the first; and an id that is not among the endpoints is refused.

    Args:
        is_collective: a fleet without servers. Then `PADDLE_TRAINER_ENDPOINTS` is read, `PADDLE_TRAINER_ID` (0 unless
            set) and `PADDLE_TRAINING_ROLE`, which may only be TRAINER; otherwise `PADDLE_PSERVERS_IP_PORT_LIST`,
            `PADDLE_TRAINERS_NUM`, `TRAINING_ROLE` and, of a trainer, `PADDLE_TRAINER_ID`, of a server, `POD_IP` and
            `PADDLE_PORT`.

    Raises:
        MissingVariable (a KeyError): a variable is not set. MissingOption (an AssertionError): the endpoints of a
            collective fleet are not. InvalidArgument (a ValueError): a value that cannot be; all when asked first.

    Example:
        >>> from workbench.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
        >>> PaddleCloudRoleMaker(is_collective=True).worker_num()  # doctest: +SKIP
        2
    """

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self._is_collective, self._is_generated, self._trainers_num = bool(is_collective), False, 0

    def generate_role(self) -> None:
        """Read the variables, once."""
        if self._is_generated:
            return
        (self._read_collective if self._is_collective else self._read_with_servers)()
        self._is_generated = True

    def _read_collective(self) -> None:
        given = RoleVariables("PaddleCloudRoleMaker(is_collective=True)", WITHOUT_SERVERS)
        role = os.environ.get("PADDLE_TRAINING_ROLE", "TRAINER")
        if role != "TRAINER":
            raise InvalidForm(given.told("PADDLE_TRAINING_ROLE", "TRAINER, or not set", repr(role)))
        what = "ip:port of all trainers, with commas between"
        if _TRAINERS not in os.environ:
            raise MissingOption(given.told(_TRAINERS, what, "not set"))
        endpoints = given.endpoints(_TRAINERS, what)
        number = given.number("PADDLE_TRAINER_ID", f"a number below {len(endpoints)}, the trainers", default=0)
        if number >= len(endpoints):
            raise given.wrong("PADDLE_TRAINER_ID", f"a number below {len(endpoints)}, the trainers", str(number))
        self._role, self._current_id, self._worker_endpoints = Role.WORKER, number, endpoints
        self._trainers_num = len(endpoints)

    def _read_with_servers(self) -> None:
        given = RoleVariables("PaddleCloudRoleMaker", WITH_SERVERS)
        servers = given.endpoints(_SERVERS, "ip:port of all servers, with commas between")
        trainers = given.number("PADDLE_TRAINERS_NUM", "the number of trainers, from 1 on", least=1)
        role = given.word("TRAINING_ROLE", ("TRAINER", "PSERVER"))
        if role == "TRAINER":
            number = given.number("PADDLE_TRAINER_ID", "the number of this trainer, from 0 on")
        else:
            ip, port = given.text("POD_IP", "the ip of this server"), given.text("PADDLE_PORT", "the port of it")
            if f"{ip}:{port}" not in servers:
                raise given.wrong("POD_IP:PADDLE_PORT", f"one of {_SERVERS}: {','.join(servers)}", f"{ip}:{port}")
            number = servers.index(f"{ip}:{port}")
        self._role = Role.WORKER if role == "TRAINER" else Role.SERVER
        self._current_id, self._trainers_num, self._server_endpoints = number, trainers, servers

    def _known(self, name: str) -> Any:
        self.generate_role()
        return getattr(self, name)

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self._known("_role") is Role.WORKER

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        return self._known("_role") is Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        return self.is_worker() and self._current_id == 0

    def worker_index(self) -> int:
        """Which trainer this is; of a server, which server, as in Paddle."""
        return int(self._known("_current_id"))

    def server_index(self) -> int:
        """Which server this is; of a trainer, which trainer, as in Paddle."""
        return int(self._known("_current_id"))

    def worker_num(self) -> int:
        """How many trainers there are."""
        return int(self._known("_trainers_num"))

    def get_trainer_endpoints(self) -> list[str]:
        """`ip:port` of all trainers; [] in a fleet with servers."""
        return list(self._known("_worker_endpoints"))

    def get_pserver_endpoints(self) -> list[str]:
        """`ip:port` of all servers; [] in a fleet without."""
        return list(self._known("_server_endpoints"))
