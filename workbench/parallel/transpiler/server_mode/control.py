"""Operators that exchange values with servers, and the control variables that order them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.framework.names import CONTROL
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import ROLE, ROLE_VAR, OpRole
from workbench.ops.distributed.servers import FETCH_BARRIER, RECV, SEND, SEND_BARRIER
from workbench.ops.tensor.join import CONCAT

RPC, DIST = int(OpRole.RPC), int(OpRole.Dist)


class ServerOperators:
    """Appends them to a block, or puts them elsewhere in it.

    Args:
        trainer: the number of this trainer.
    """

    def __init__(self, block: Block, trainer: int) -> None:
        self.block, self.trainer = block, trainer

    def control(self) -> str:
        """A new variable that makes operators wait for the one that writes it. It holds nothing."""
        number = sum(name.startswith(CONTROL) for name in self.block.vars)
        return self.block.create_var(f"{CONTROL}{number}", dtype="bool", stop_gradient=True).name

    def send(self, at: int, names: Sequence[str], endpoints: Sequence[str], pair: Sequence[str], **attrs: Any) -> str:
        """A `send` at a place of the block; its control variable."""
        done = self.control()
        attrs |= {"epmap": list(endpoints), "trainer_id": self.trainer, ROLE: RPC, ROLE_VAR: list(pair)}
        self.block.insert_op(at, SEND.type, inputs={"X": list(names)}, outputs={"Out": [done]}, attrs=attrs)
        return done

    def send_barrier(self, after: Sequence[str], endpoints: Sequence[str], half_async: bool) -> str:
        """A `send_barrier`; its control variable."""
        done = self.control()
        attrs = {"endpoints": list(endpoints), "trainer_id": self.trainer, "half_async": half_async, ROLE: RPC}
        self.block.append_op(SEND_BARRIER.type, {"X": list(after)}, {"Out": [done]}, attrs)
        return done

    def recv(
        self, after: Sequence[str], names: Sequence[str], endpoints: Sequence[str], pair: Sequence[str], told: Any
    ) -> Operator:
        """A `recv`."""
        attrs: dict[str, Any] = {"epmap": list(endpoints), "trainer_id": self.trainer, ROLE: RPC}
        attrs |= {ROLE_VAR: list(pair)} if pair else {}
        attrs |= {"recv_varnames": list(told)} if told else {}
        return self.block.append_op(RECV.type, {"X": list(after)} if after else {}, {"Out": list(names)}, attrs)

    def fetch_barrier(self, after: Sequence[str], names: Sequence[str], endpoints: Sequence[str]) -> None:
        """A `fetch_barrier`."""
        attrs = {"endpoints": list(endpoints), "trainer_id": self.trainer, ROLE: RPC}
        self.block.append_op(FETCH_BARRIER.type, {"X": list(after)} if after else {}, {"Out": list(names)}, attrs)

    def concat(self, names: Sequence[str], into: str, role: int) -> None:
        """Blocks joined, one below the other."""
        self.block.append_op(CONCAT.type, {"X": list(names)}, {"Out": [into]}, {"axis": 0, ROLE: role})
