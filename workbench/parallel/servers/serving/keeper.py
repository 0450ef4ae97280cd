"""The checkpoint of a server: all it holds and how far every trainer is, in one file that is replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.atomic import remove_dead
from workbench.checkpoint.files import read_tensors, write_tensors
from workbench.errors import InvalidArgument
from workbench.parallel.servers.serving.server import ParameterServer

FORMAT = "parameter server 1"


class CheckpointKeeper:
    """Of one server.

    Args:
        folder: where the file lies, beside those of other servers. every: steps between two; 0 writes none by itself.
    """

    def __init__(self, folder: str | Path, endpoint: str, every: int) -> None:
        self.path = Path(folder) / f"server-{endpoint.replace(':', '-').replace('/', '-')}.safetensors"
        self._every = every

    def stepped(self, server: ParameterServer) -> None:
        """A step was applied."""
        if self._every and server.round % self._every == 0:
            self.save(server)

    def save(self, server: ParameterServer) -> None:
        """Write the file."""
        held = {name: server.values.array(name) for name in server.duty.persistables() if server.values.has(name)}
        told = {
            "format": FORMAT,
            "round": server.round,
            "applied": server.members.applied,
            "mode": server.duty.mode,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(self.path, held, told)

    def restore(self, server: ParameterServer) -> None:
        """Go on where the file is, if there is one; what a server that was killed has left half-written is removed.

        Raises:
            InvalidArgument: it is of another server; nothing was changed.
        """
        if self.path.parent.is_dir():
            remove_dead(self.path.parent)
        if not self.path.exists():
            return
        held, told = read_tensors(self.path)
        applied: Any = told.get("applied")
        expected = [told.get("format"), told.get("mode"), type(applied), sorted(held)]
        own = [name for name in server.duty.persistables() if server.values.has(name)]
        if expected != [FORMAT, server.duty.mode, list, sorted(own)] or len(applied) != server.duty.trainers:
            raise InvalidArgument(f"{self.path} is no checkpoint of server {server.duty.endpoint} and its program")
        try:
            steps, taken = int(told["round"]), [int(one) for one in applied]
        except (KeyError, TypeError, ValueError):
            raise InvalidArgument(f"{self.path} does not tell how many steps were taken") from None
        for name, value in held.items():
            self._require_shape(name, server.values.array(name), value)
        for name, value in held.items():
            server.values.put(name, value)
        server.round, server.members.applied = steps, taken
        server.changes.begin(steps)

    def _require_shape(self, name: str, now: np.ndarray, value: np.ndarray) -> None:
        if now.shape != value.shape or now.dtype != value.dtype:
            raise InvalidArgument(
                f"{self.path}: variable {name!r} has another form\n"
                f"  expected: {now.dtype}{list(now.shape)}\n  got:      {value.dtype}{list(value.shape)}"
            )
