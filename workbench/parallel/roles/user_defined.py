"""Role makers that are told everything by their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.parallel.roles.base import KnownRole, TrainerOnly
from workbench.parallel.roles.role import Role


class UserDefinedRoleMaker(KnownRole):
    """A trainer or a server, as the arguments say.

    Args:
        current_id: which trainer, or which server. role: `Role.WORKER` or `Role.SERVER`.
        worker_num: how many trainers there are. server_endpoints: `ip:port` of all servers.

    Raises:
        InvalidType, InvalidArgument: an argument of another type, an id of no server, no trainer, an endpoint twice.

    Example:
        >>> from workbench.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
        >>> role = UserDefinedRoleMaker(1, Role.WORKER, worker_num=2, server_endpoints=["127.0.0.1:6001"])
        >>> role.is_worker(), role.worker_index(), role.worker_num()
        (True, 1, 2)
    """

    def __init__(
        self,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        owner = "UserDefinedRoleMaker"
        endpoints = _checked_endpoints(owner, "server_endpoints", server_endpoints)
        if role not in tuple(Role) or isinstance(role, bool):
            raise InvalidType(f"{owner} takes Role.WORKER or Role.SERVER as role, got {role!r}")
        number = _checked_number(owner, "current_id", current_id)
        if role == Role.SERVER and number >= len(endpoints):
            raise InvalidArgument(f"{owner}: current_id={number} is no server; there are {len(endpoints)}: {endpoints}")
        if _checked_number(owner, "worker_num", worker_num, negative=True) <= 0:
            raise InvalidArgument(f"{owner} takes a worker_num above 0, got {worker_num}")
        self._role, self._current_id, self._worker_num = Role(role), number, worker_num
        self._server_endpoints = endpoints

    def worker_num(self) -> int:
        """How many trainers there are."""
        return self._worker_num


class UserDefinedCollectiveRoleMaker(TrainerOnly):
    """A trainer of a fleet without servers, as the arguments say.

    Args:
        current_id: which trainer. worker_endpoints: `ip:port` of all of them.

    Raises:
        InvalidType, InvalidArgument: an argument of another type, an id of no trainer, an endpoint twice.

    Example:
        >>> from workbench.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
        >>> UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6001", "127.0.0.1:6002"]).worker_num()
        2
    """

    def __init__(self, current_id: int = 0, worker_endpoints: Sequence[str] | None = None) -> None:
        super().__init__()
        owner = "UserDefinedCollectiveRoleMaker"
        endpoints = _checked_endpoints(owner, "worker_endpoints", worker_endpoints)
        number = _checked_number(owner, "current_id", current_id)
        if number >= len(endpoints):
            raise InvalidArgument(f"{owner}: current_id={number} is no trainer; there are {len(endpoints)}")
        self._current_id, self._worker_endpoints = number, endpoints


def _checked_endpoints(owner: str, what: str, given: Any) -> list[str]:
    if not isinstance(given, list):
        raise InvalidType(f"{owner} takes a list of 'ip:port' as {what}, got {given!r}")
    if not given:
        raise InvalidArgument(f"{owner} takes at least one 'ip:port' in {what}, got an empty list")
    if len(set(map(str, given))) != len(given):
        raise InvalidArgument(f"{owner}: an endpoint is listed twice in {what}: {given!r}")
    wrong = next((one for one in given if not isinstance(one, str)), None)
    if wrong is not None:
        raise InvalidType(f"{owner} takes strings 'ip:port' in {what}, got {wrong!r}")
    return list(given)


def _checked_number(owner: str, what: str, given: Any, negative: bool = False) -> int:
    if not isinstance(given, int):
        raise InvalidType(f"{owner} takes an int as {what}, got {given!r}")
    if given < 0 and not negative:
        raise InvalidArgument(f"{owner} takes a {what} of at least 0, got {given}")
    return int(given)
