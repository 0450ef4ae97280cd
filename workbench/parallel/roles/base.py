"""RoleMakerBase: what is asked of every role maker."""

from __future__ import annotations

import warnings
from typing import Any

from workbench.errors import Unimplemented
from workbench.parallel.roles.role import Role


class RoleMakerBase:
    """Which process of a fleet this is. A subclass says how that is known.

    Alone it answers nothing but endpoints (none) and collectives (nothing, with a warning), as in Paddle.

    Example:
        >>> from workbench.fluid.incubate.fleet.base.role_maker import RoleMakerBase
        >>> RoleMakerBase().get_trainer_endpoints()
        []
    """

    def __init__(self) -> None:
        self._role: Role | None = None
        self._current_id = -1
        self._worker_endpoints: list[str] = []
        self._server_endpoints: list[str] = []

    def generate_role(self) -> None:
        """Find out; `fleet.init` calls it."""

    def is_worker(self) -> bool:
        """Whether this process trains."""
        raise self._unknown("is_worker")

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        raise self._unknown("is_server")

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        raise self._unknown("is_first_worker")

    def worker_num(self) -> int:
        """How many trainers there are."""
        raise self._unknown("worker_num")

    def worker_index(self) -> int:
        """Which trainer this is."""
        raise self._unknown("worker_index")

    def server_index(self) -> int:
        """Which server this is."""
        raise self._unknown("server_index")

    def server_num(self) -> int:
        """How many servers there are."""
        return len(self.get_pserver_endpoints())

    def get_trainer_endpoints(self) -> list[str]:
        """`ip:port` of all trainers; [] where nobody says."""
        return self._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """`ip:port` of all servers; [] where there are none."""
        return self._server_endpoints

    def to_string(self) -> str:
        """Everything that is known, in one line."""
        role = None if self._role is None else int(self._role)
        return (
            f"role: {role}, current_id: {self._current_id}, worker_endpoints: {self._worker_endpoints}, "
            f"server_endpoints: {self._server_endpoints}"
        )

    # Collectives

    def all_gather(self, input: Any) -> list[Any] | None:
        """The values of all processes, trainers first."""
        self._without("all_gather")
        return None

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """The arrays of all trainers, joined element by element, into `output`."""
        self._without("all_reduce_worker")

    def barrier_worker(self) -> None:
        """Return when all trainers are here."""
        self._without("barrier_worker")

    def barrier_all(self) -> None:
        """Return when all processes are here."""
        self._without("barrier_all")

    def _without(self, method: str) -> None:
        warnings.warn(
            f"{type(self).__name__} connects no processes: {method} does nothing; GeneralRoleMaker does", stacklevel=3
        )

    def _finalize(self) -> None:
        """Take leave of the others."""

    def _unknown(self, method: str) -> Unimplemented:
        return Unimplemented(f"{type(self).__name__} does not say {method}(); a role maker made for that does")


class KnownRole(RoleMakerBase):
    """A role maker that knows whether it is a trainer or a server, and which one."""

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self._role is Role.WORKER

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        return self._role is Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        return self._role is Role.WORKER and self._current_id == 0

    def worker_index(self) -> int:
        """Which trainer this is; of a server, which server, as in Paddle."""
        return self._current_id

    def server_index(self) -> int:
        """Which server this is; of a trainer, which trainer, as in Paddle."""
        return self._current_id


class AskedRole(KnownRole):
    """A role maker that takes its role when it is first asked: `generate_role` does nothing any more after that."""

    def is_worker(self) -> bool:
        """Whether this process trains."""
        self.generate_role()
        return super().is_worker()

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        self.generate_role()
        return super().is_server()

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        self.generate_role()
        return super().is_first_worker()

    def worker_index(self) -> int:
        """Which trainer this is; of a server, which server, as in Paddle."""
        self.generate_role()
        return super().worker_index()

    def server_index(self) -> int:
        """Which server this is; of a trainer, which trainer, as in Paddle."""
        self.generate_role()
        return super().server_index()

    def get_trainer_endpoints(self) -> list[str]:
        """The addresses of all trainers."""
        self.generate_role()
        return super().get_trainer_endpoints()

    def get_pserver_endpoints(self) -> list[str]:
        """`ip:port` of all servers; [] where there are none."""
        self.generate_role()
        return super().get_pserver_endpoints()


class TrainerOnly(RoleMakerBase):
    """A role maker of a fleet without servers: trainers that exchange gradients among themselves."""

    def is_worker(self) -> bool:
        """True."""
        return True

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        return self._current_id == 0

    def worker_index(self) -> int:
        """Which trainer this is."""
        return self._current_id

    def worker_num(self) -> int:
        """How many trainers there are."""
        return len(self._worker_endpoints)
