"""A server in this process that is asked without any transport."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.servers.hand_made import server_programs
from workbench import static
from workbench.framework.program.remote import SERVER
from workbench.parallel.servers.serving.blocks import duty_of
from workbench.parallel.servers.serving.keeper import CheckpointKeeper
from workbench.parallel.servers.serving.server import ParameterServer
from workbench.parallel.servers.serving.values import Values
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Listener, Question, understood

ENDPOINT = "127.0.0.1:6174"


class Silence(Listener):
    """Brings nothing."""

    def receive(self, seconds: float) -> Question | None:
        return None

    def close(self) -> None:
        """Nothing is open."""


class Asked(Question):
    """A question; `frames` are its answers."""

    def __init__(self, frame: Message) -> None:
        self.frame = frame
        self.frames: list[Message] = []

    def answer(self, frame: Message) -> None:
        self.frames.append(frame._replace(arrays={name: array.copy() for name, array in frame.arrays.items()}))

    @property
    def result(self) -> Message:
        """The answer; raises what it says if it is none."""
        (frame,) = self.frames
        return understood(frame, ENDPOINT)


class Loopback:
    """A server of hand-made programs, see `server_programs`."""

    def __init__(
        self, trainers: int = 2, mode: int = 0, patience: float = 60.0, keeper: CheckpointKeeper | None = None,
        programs: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        main, startup = programs or server_programs(ENDPOINT, trainers, mode, **options)
        self.scope, executor = static.Scope(), static.Executor()
        executor.run(startup, scope=self.scope)
        (op,) = [op for op in main.global_block().ops if SERVER in op.record.needs]
        duty = duty_of(main, op)
        self.server = ParameterServer(duty, Values(duty, executor, self.scope), Silence(), patience, keeper)
        if keeper is not None:
            keeper.restore(self.server)
        self.sessions: dict[int, int] = {}

    def ask(self, kind: str, trainer: int, arrays: Any = None, **fields: Any) -> Asked:
        """Ask, and perhaps wait for the answer."""
        told = {"trainer": trainer, "session": self.sessions.get(trainer, 0), **fields}
        asked = Asked(Message(kind, told, arrays or {}))
        self.server.handle(asked)
        return asked

    def join(self, trainer: int) -> int:
        """A trainer comes; the number of its next step."""
        answer = self.ask("join", trainer).result
        self.sessions[trainer] = answer.number("session")
        return answer.number("sequence")

    def push(self, trainer: int, sequence: int, value: Any, name: str = "w@GRAD", **fields: Any) -> Asked:
        """A trainer pushes a gradient and wants the parameter."""
        array = np.atleast_1d(np.asarray(value, np.float32))
        return self.ask("step", trainer, {name: array}, sequence=sequence, **{"pull": ["w"], **fields})

    @property
    def w(self) -> Any:
        """The parameter."""
        return np.array(self.server.values.array("w"))
