"""What an op is handed by keyword while it runs: its random stream, its device, and how to run its sub-blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.executors.reference.calls import Call, Values, make_calls, run_call
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.streams import stream_of
from workbench.runtime.comm.mpi.rings import RINGS
from workbench.runtime.servers.standing import client_of


class OpRunner:
    """Serves the ops of one device.

    Args:
        blocks: calls of sub-blocks made so far, by index; shared with whoever runs the same program.
        trips: numbers of the loop passes around what is run.
        rng_step: how often the program has run.
    """

    def __init__(
        self,
        program: Program,
        place: int,
        blocks: dict[int, list[Call]],
        rng_step: int = 0,
        trips: tuple[int, ...] = (),
    ) -> None:
        self.program, self.place, self.blocks = program, place, blocks
        self.rng_step, self.trips = rng_step, trips

    def extras(self, op: Operator) -> dict[str, Any]:
        """The keyword arguments an operator `needs` besides its attributes."""
        needs = op.record.needs
        extra: dict[str, Any] = {}
        if "rng" in needs:
            extra["rng"] = stream_of(op, self.program.random_seed, self.place, self.rng_step, self.trips)
        if "run_block" in needs:
            extra["run_block"] = self.run_block
        if "place" in needs:
            extra["place"] = self.place
        if "client" in needs:
            extra["client"] = client_of(op.attrs)
        if "rings" in needs:
            extra["rings"] = RINGS
        return extra

    def inside(self, trips: Sequence[int]) -> OpRunner:
        """What serves the ops of a block, in passes with these numbers."""
        return OpRunner(self.program, self.place, self.blocks, self.rng_step, (*self.trips, *trips))

    def run_block(self, block: Block, given: Values, wanted: Sequence[str], trip: int = 0) -> list[Any]:
        """Run a sub-block on `given` values.

        Args:
            given: everything the block reads from outside.
            wanted: names whose values are returned, in order.
            trip: number of the pass through a loop body; keeps random streams of passes apart.
        """
        calls = self.blocks.get(block.idx)
        if calls is None:
            calls = self.blocks[block.idx] = make_calls(block, ())
        inside = self.inside((trip,))
        values = dict(given)
        for call in calls:
            values.update(run_call(call, values, inside.of_call))
        return [values[name] for name in wanted]

    def of_call(self, call: Call) -> dict[str, Any]:
        """`extras` of a call's operator."""
        return self.extras(call.op)
