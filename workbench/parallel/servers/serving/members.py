"""The trainers of one server: who has come, how far each is, and who has left."""

from __future__ import annotations

import time
from random import SystemRandom

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.parallel.servers.transports.process import is_gone
from workbench.runtime.servers.messages import Message


class TrainerMembers:
    """Trainers by their numbers.

    A trainer that comes again, after it was lost, takes the place of the one there was: what that one still sends is
    refused. Its steps go on behind the last that was applied.

    Args:
        trainers: how many there are.

    Attributes:
        applied: of each trainer, the number of its steps that were taken. left: those that will not come again.
    """

    def __init__(self, trainers: int) -> None:
        self.trainers = trainers
        self.applied = [0] * trainers
        self.left: set[int] = set()
        self._sessions = [SystemRandom().getrandbits(53) for _ in range(trainers)]  # none of before a restart
        self._heard: dict[int, float] = {}
        self._processes: dict[int, Message] = {}

    def join(self, trainer: int, told: Message) -> int:
        """A trainer has come; the number of its session.

        Args:
            told: what it tells of its process.

        Raises:
            InvalidArgument: there is no such trainer.
        """
        if trainer >= self.trainers:
            raise InvalidArgument(f"trainer {trainer} came, but the server was started for {self.trainers} trainers")
        self.left.discard(trainer)
        self._sessions[trainer] += 1
        self._heard[trainer] = time.monotonic()
        self._processes[trainer] = told
        return self._sessions[trainer]

    def hear(self, trainer: int, session: int) -> None:
        """A message of a trainer has come.

        Raises:
            InvalidArgument: there is no such trainer. PreconditionNotMet: it has not joined, or has been replaced.
        """
        if trainer >= self.trainers:
            raise InvalidArgument(f"trainer {trainer} asks, but the server was started for {self.trainers} trainers")
        if session != self._sessions[trainer] or trainer not in self._heard:
            raise PreconditionNotMet(
                f"trainer {trainer} asks in its session {session}, and the server is in {self._sessions[trainer]}: the "
                "server was started again, or another process has taken the trainer's place; start the trainer again, "
                "under a number (PADDLE_TRAINER_ID) that no other process has"
            )
        if trainer in self.left:
            raise PreconditionNotMet(f"trainer {trainer} has left")
        self._heard[trainer] = time.monotonic()

    def leave(self, trainer: int) -> None:
        """A trainer will not come again."""
        self.left.add(trainer)

    @property
    def active(self) -> list[int]:
        """Those that have not left."""
        return [trainer for trainer in range(self.trainers) if trainer not in self.left]

    def silent(self, seconds: float) -> list[int]:
        """Those that came once, have not left, and were not heard of for so long."""
        now = time.monotonic()
        return [one for one in self.active if one in self._heard and now - self._heard[one] > seconds]

    def gone(self) -> list[int]:
        """Those that came once and have not left, but whose process has ended."""
        return [one for one in self.active if one in self._processes and is_gone(self._processes[one])]

    def never_came(self) -> list[int]:
        """Those nobody has heard of."""
        return [trainer for trainer in self.active if trainer not in self._heard]
