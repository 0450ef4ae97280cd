"""Which process this is, as Paddle's programs ask for it: `ParallelEnv`, `get_rank`, `get_world_size`."""

from __future__ import annotations

import os

from workbench.errors import InvalidArgument
from workbench.parallel.groups.group import Group
from workbench.runtime.standing import standing

RINGS = "FLAGS_nccl_nrings"


class ParallelEnv:
    """Which of several processes this one is, and where they are; read from the environment when it is made.

    Attributes:
        rank, local_rank: which process this is, among all. world_size, nranks: how many there are.
        device_id, dev_id: the first of `FLAGS_selected_gpus`. device_type: `"cpu"`.
        trainer_endpoints, current_endpoint: `ip:port` of all processes, and of this one.
        nrings: 1 to 8; accepted for Paddle's sake.

    Raises:
        InvalidArgument: the variables contradict each other, or are no numbers.

    Example:
        >>> env = wb.distributed.ParallelEnv()
        >>> env.rank, env.world_size
        (0, 1)
    """

    device_type = "cpu"

    def __init__(self) -> None:
        own = standing()
        self.rank = self.local_rank = own.rank
        self.world_size = self.nranks = own.size
        self.device_id = self.dev_id = _number("FLAGS_selected_gpus", "0")
        self.trainer_endpoints = [part for part in os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",") if part]
        self.current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT", "")
        self.nrings = _number(RINGS, "1")
        if not 1 <= self.nrings <= 8:
            raise InvalidArgument(f"{RINGS} is a number from 1 to 8, got {self.nrings}")


def get_rank(group: Group | None = None) -> int:
    """Which process this is: from 0 on, among all or in a group (-1 where it is no member).

    Example:
        >>> wb.distributed.get_rank()
        0
    """
    return standing().rank if group is None else group.rank


def get_world_size(group: Group | None = None) -> int:
    """How many processes there are, in all or in a group (-1 where this one is no member).

    Example:
        >>> wb.distributed.get_world_size()
        1
    """
    if group is None:
        return standing().size
    return group.nranks if group.is_member() else -1


def _number(name: str, default: str) -> int:
    text = os.environ.get(name, default).split(",")[0].strip()
    if not text.isdecimal():
        raise InvalidArgument(f"{name} begins with a number, got {text!r}")
    return int(text)
