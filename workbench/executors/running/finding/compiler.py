"""From a program to plans: check, SSA graph, passes, check, plan; graphs are kept, plans are by `PlanCache`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from workbench.errors import InvalidArgument
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.target import Target
from workbench.executors.planning.cache import Cache
from workbench.executors.planning.open_plan import OpenDims, OpenPlan, plan_openly
from workbench.executors.planning.plan import KEPT, OBSERVED, MemoryOptions, Plan, make_plan
from workbench.executors.planning.shapes import Specs
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import check_program
from workbench.framework.values.place import Place
from workbench.framework.values.spec import Spec, spec_of
from workbench.graph.build import build_graph
from workbench.graph.check import check_graph
from workbench.graph.passes import default_passes, run_passes
from workbench.graph.settings import Settings
from workbench.graph.ssa import Graph, Node, Uses

_GRAPHS = 16  # kept per executor
_FUSIONS = (
    "fuse_all_reduce_ops", "fuse_all_optimizer_ops", "fuse_broadcast_ops", "fuse_bn_act_ops", "fuse_bn_add_act_ops",
    "fuse_elewise_add_act_ops", "enable_auto_fusion", "fused_attention",
)  # fmt: skip


class Compiler:
    """Graphs and plans of one program.

    Args:
        program: does not change any more.
        data_parallel: the devices train together.
        target: what plans are lowered to.
        threads: at most so many run a step, where the execution strategy allows for more.

    Raises:
        EnforceNotMet: the program is not well formed; names operator, variable and line.
    """

    def __init__(
        self,
        program: Program,
        places: Sequence[Place],
        settings: Settings,
        execution: ExecutionStrategy,
        data_parallel: bool,
        target: Target,
        threads: int,
    ) -> None:
        check_program(program)
        self.program, self.places, self.settings, self.execution = program, places, settings, execution
        self.data_parallel, self.target, self._most_threads = data_parallel, target, target.threads or threads
        self._graphs: Cache[Graph] = Cache(_GRAPHS)

    def graph(self, fetches: Sequence[str], devices: int | None = None, observed: bool = False) -> Graph:
        """The graph of a step that fetches these names, after all passes.

        Args:
            devices: how many of the devices take part. observed: without passes that fuse nodes.
        """
        count = len(self.places) if devices is None else devices
        key = (tuple(fetches), count, observed)
        return self._graphs.get(key, lambda: self._make_graph(fetches, count, observed))

    def _make_graph(self, fetches: Sequence[str], devices: int, observed: bool) -> Graph:
        graph = build_graph(self.program, self.places[:devices], self.settings, fetches, self.data_parallel)
        settings = unfused(self.settings) if observed else self.settings
        run_passes(graph, default_passes(settings, self.target.joins))
        check_graph(graph)
        return graph

    def plan(self, fetches: Sequence[str], fed: Fed, observed: bool, given: frozenset[tuple[str, int]]) -> Plan:
        """The plan for feeds of certain shapes.

        Args:
            observed: no fused nodes, and every value keeps its memory.
            given: persistable values, as (name, device), that come with the feed.
        """
        graph = self.graph(fetches, fed.active, observed)
        _require_feeds(graph, fed)
        threads = 1 if observed else self._threads
        memory_options = OBSERVED if observed else self._memory_options()
        return make_plan(graph, specs_of(fed), threads, memory_options, given, self._has_kernels)

    def plan_openly(
        self, dims: OpenDims, fetches: Sequence[str], fed: Fed, given: frozenset[tuple[str, int]]
    ) -> OpenPlan:  # fmt: skip
        """The plan for feeds of which some dimensions are open."""
        graph = self.graph(fetches, fed.active)
        return plan_openly(dims, graph, self._threads, self._memory_options(), given, self._has_kernels)

    @property
    def _threads(self) -> int:
        return min(self.execution.num_threads, self._most_threads)

    @property
    def _has_kernels(self) -> Callable[[Node, Specs], bool] | None:
        target = self.target
        return target.has_kernels if self.settings.num_trainers == 1 else target.among_trainers

    def _memory_options(self) -> MemoryOptions:
        if self.execution.keep_temporaries:
            return KEPT
        return MemoryOptions(reuse=self.settings.memory_optimize, in_place=self.settings.enable_inplace)


def _require_feeds(graph: Graph, fed: Fed) -> None:
    """Every value that comes from outside has to be fed (never last step's data, design section 6)."""
    written = Uses(graph.nodes).writer
    for node in graph.nodes:
        for value in node.reads:
            missing = not value.persistable and value not in written
            if missing and value.name not in fed.per_device[value.place]:
                raise InvalidArgument(
                    f"feed {value.name!r} is missing on {graph.places[value.place]}: {value.spec}\n"
                    f"  needed by op {node.type!r} at {node.site}"
                )


def unfused(settings: Settings) -> Settings:
    """The same decisions without what joins nodes: every op of the program is a node of its own."""
    apart: Any = dict.fromkeys(_FUSIONS, False)
    return replace(settings, debug_graphviz_path="", **apart)


def specs_of(fed: Fed) -> dict[tuple[str, int], Spec]:
    """What every device is fed, by (name, device)."""
    return {
        (name, place): spec_of(array)
        for fed_arrays in (fed.per_device, fed.persistable)
        for place, arrays in enumerate(fed_arrays)
        for name, array in arrays.items()
    }


def shapes_of(fed: Fed) -> tuple[Any, ...]:
    """What a plan depends on."""
    shapes = tuple((n, a.shape, a.dtype.char) for arrays in fed.per_device for n, a in arrays.items())
    kept = tuple((p, n, a.shape) for p, arrays in enumerate(fed.persistable) for n, a in arrays.items())
    return fed.active, shapes, kept
