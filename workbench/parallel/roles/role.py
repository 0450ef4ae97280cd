"""What a process of a fleet does."""

from enum import IntEnum


class Role(IntEnum):
    """A trainer (Paddle: worker) or a parameter server."""

    WORKER = 1
    SERVER = 2
