"""What a rank of a cluster tells of its steps, for the dashboard of the process beside it.

This runs in the rank; what it tells is put together with that of the others by `cluster_watch`.
"""

from __future__ import annotations

from zlib import crc32

from workbench.executors.profiling.sampled_steps import SampledStep, SampledSteps
from workbench.graph.ssa import Graph
from workbench.notebook.dashboard.watching.live_values import live_values
from workbench.notebook.dashboard.watching.memory_trace import MemoryTrace
from workbench.notebook.dashboard.watching.samples import fed_message, sample_message
from workbench.notebook.dashboard.watching.throttle import Throttle
from workbench.notebook.messages import Message
from workbench.parallel.cluster.rank_programs import RankProgram
from workbench.runtime.comm.mpi.clocks import clock_offsets
from workbench.runtime.comm.mpi.world import world

_SCOPES_S = 0.5  # seconds between two looks at memory


def watch(program: RankProgram) -> RankWatch:
    """Begin to watch what this rank trains; all ranks do it between the same two steps."""
    return RankWatch(program)


class RankWatch:
    """What one rank sees of its own steps."""

    def __init__(self, program: RankProgram) -> None:
        executor = program.executor.inspection
        self._program, self._executor = program, executor
        self._steps, self._memory = SampledSteps(executor), MemoryTrace(executor)
        if program.early.sampled is not None:
            self._steps.taken.append(program.early.sampled)
        self._scopes, self._is_first = Throttle(_SCOPES_S), True
        self._clocks = [list(offset) for offset in clock_offsets(world())]

    def look(self) -> None:
        """The next step is to be looked at; all ranks look at the same one."""
        self._steps.ask()

    def close(self) -> None:
        """Look no more."""
        self._steps.close()
        self._memory.close()

    def told(self) -> Message:
        """What there is since the last time.

        Returns:
            `samples`: message `sample` of each step, with when it began, in ns of this rank's clock, and which `graph`
            ran; `scopes`: of the message `scopes`, None if nothing has changed; `clocks`: see `clock_offsets`.
        """
        samples = []
        while self._steps.taken:
            sampled = self._steps.taken.popleft()
            samples.append({"begun": sampled.start, "sample": sample_message(sampled, _graph_of(sampled), 0)})
        return {"samples": samples, "scopes": self._scopes_if_new(), "clocks": self._clocks}

    def told_at_rest(self) -> Message:
        """The same between two steps.

        Returns:
            `scopes` as they are now, and besides `fed`: message `fed` of the newest step, None before the first.
        """
        self._is_first = True
        return {**self.told(), "fed": self._fed()}

    def _fed(self) -> Message | None:
        if self._program.newest is None:
            return None
        number, feeds = self._program.newest
        return fed_message(self._executor, number, self._executor.fed(feeds), 0)

    def _scopes_if_new(self) -> Message | None:
        if not (self._is_first or self._scopes.is_due()):
            return None
        with self._scopes.taking():
            if not self._memory.follow() and not self._is_first:
                return None
            self._is_first = False
            return {**self._memory.message(), **live_values(self._executor)}


def _graph_of(sampled: SampledStep) -> int:
    return 0 if sampled.plan is None else checksum(sampled.plan.graph)


def checksum(graph: Graph) -> int:
    """The same for the same graph in every process."""
    return crc32(str(graph).encode())
