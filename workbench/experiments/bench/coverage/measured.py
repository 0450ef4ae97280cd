"""The nodes of a program's steps: which run by NumPy, how long, and why."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench.events import Step
from workbench.executors.profiling.profile import Profile
from workbench.executors.profiling.sums import calls, of_kind
from workbench.experiments.bench.coverage.covered import CoveredProgram
from workbench.experiments.bench.coverage.reasons import dtypes_of, why_by_numpy
from workbench.experiments.bench.own_program import native_nodes
from workbench.experiments.bench.roofline import latest_binding, step_times
from workbench.experiments.bench.workloads import Training

PROFILED_STEPS = 10
WORTH = 0.02  # of a step: nodes by NumPy that take more are counted


class NodeCoverage(NamedTuple):
    """A node of a step; of those that run as one, each is listed, and the first has the time.

    Attributes:
        dtypes: of its operands. seconds: the median over steps. why: empty where it is native.
    """

    type: str
    dtypes: str
    seconds: float
    why: str

    @property
    def is_native(self) -> bool:
        """Whether compiled kernels run it."""
        return not self.why


class KindCoverage(NamedTuple):
    """Nodes by NumPy of one type, dtype and reason; share: of the step."""

    type: str
    dtypes: str
    why: str
    nodes: int
    share: float


class ProgramCoverage(NamedTuple):
    """A program's steps.

    Attributes:
        median: seconds of a step, with nobody watching; profiled: of a step with all ops timed.
    """

    name: str
    median: float
    profiled: float
    nodes: tuple[NodeCoverage, ...]

    @property
    def by_numpy(self) -> list[NodeCoverage]:
        """Its nodes that no kernel runs."""
        return [node for node in self.nodes if not node.is_native]

    @property
    def share(self) -> float:
        """Of the step that these take."""
        return self.share_of(self.by_numpy)

    @property
    def large(self) -> list[NodeCoverage]:
        """Those that take more than `WORTH` of the step."""
        return [node for node in self.by_numpy if self.share_of([node]) > WORTH]

    def share_of(self, nodes: Iterable[NodeCoverage]) -> float:
        """Of a step with all ops timed, which some nodes take."""
        return sum(node.seconds for node in nodes) / self.profiled

    def worst(self) -> list[KindCoverage]:
        """Its nodes by NumPy, those of a kind together, the longest first."""
        kinds: dict[tuple[str, str, str], list[NodeCoverage]] = {}
        for node in self.by_numpy:
            kinds.setdefault((node.type, node.dtypes, node.why), []).append(node)
        listed = [KindCoverage(*kind, len(nodes), self.share_of(nodes)) for kind, nodes in kinds.items()]
        return sorted(listed, key=lambda kind: -kind.share)


def coverage_of(program: CoveredProgram, paddle: Any, seconds: float) -> ProgramCoverage:
    """Measure a program for so long.

    Args:
        paddle: what users see.
    """
    parts = program.start(paddle)
    each = seconds / len(parts)
    median = sum(statistics.median(step_times(part, each)) for part in parts)
    observed = [_observed(part) for part in parts]
    nodes = tuple(node for _, own in observed for node in own)
    return ProgramCoverage(program.name, median, sum(lasted for lasted, _ in observed), nodes)


def _observed(part: Training) -> tuple[float, list[NodeCoverage]]:
    """Seconds of a step with all ops timed, and its nodes."""
    with Profile() as profile:
        for _ in range(PROFILED_STEPS):
            part.step()
    binding = latest_binding(part)
    native, graph = native_nodes(binding), binding.plan.graph
    times: dict[int, list[float]] = {}
    for run, lasted in calls(profile.events):
        times.setdefault(run.op.node, []).append(lasted / 1e9)
    rows = [*binding.plan.rows, *binding.plan.commit]
    number = {node: i for i, node in enumerate(graph.nodes)}
    nodes = []
    for node in dict.fromkeys(row.node for row in rows):
        took = times.get(number[node], ())
        why = "" if node in native else why_by_numpy(node)
        nodes.append(NodeCoverage(node.type, dtypes_of(node), statistics.median(took) if took else 0.0, why))
    return statistics.median(step.seconds for step in of_kind(profile.events, Step)), nodes


def lowerings(programs: Sequence[ProgramCoverage]) -> Iterator[tuple[str, dict[str, str]]]:
    """By op type, for every dtype it comes with: native, NumPy, or both."""
    seen: dict[str, dict[str, set[bool]]] = {}
    for program in programs:
        for node in program.nodes:
            seen.setdefault(node.type, {}).setdefault(node.dtypes, set()).add(node.is_native)
    for kind in sorted(seen):
        yield kind, {d: "both" if len(ways) > 1 else _name(*ways) for d, ways in sorted(seen[kind].items())}


def _name(is_native: bool) -> str:
    return "native" if is_native else "NumPy"
