"""From a program to plans: check, SSA graph, passes, check, plan; each made when it is first needed, and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

from workbench.config import get_flag
from workbench.errors import InvalidArgument
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.tape.table import has_kernels, joins_natively
from workbench.executors.planning.cache import Cache
from workbench.executors.planning.open_plan import FilledPlan, OpenDims, OpenPlan, plan_openly
from workbench.executors.planning.plan import KEPT, OBSERVED, MemoryOptions, Plan, make_plan
from workbench.executors.running.watching.report import Reporter
from workbench.framework.notice import tell
from workbench.framework.program.check import check_program
from workbench.framework.program.program import Program
from workbench.framework.values.place import Place
from workbench.framework.values.spec import Spec, spec_of
from workbench.graph.build import build_graph
from workbench.graph.check import check_graph
from workbench.graph.passes import default_passes, run_passes
from workbench.graph.ssa import Graph, Uses
from workbench.graph.strategy import Settings

_GRAPHS = 16  # kept per executor
_BYTES_OF_ROW = 4_500  # what a row of a plan takes, with what binds it to memory; the arenas are shared
_BYTES_OF_FILLED, _BYTES_OF_FILLED_ROW = 16_000, 700  # where it was filled in: of the plan, and of a row of it
_FUSIONS = (
    "fuse_all_reduce_ops", "fuse_all_optimizer_ops", "fuse_broadcast_ops", "fuse_bn_act_ops", "fuse_bn_add_act_ops",
    "fuse_elewise_add_act_ops", "enable_auto_fusion",
)  # fmt: skip


class Compiler:
    """Graphs and plans of one program.

    Args:
        program: does not change any more.
        data_parallel: the devices train together.
        reporter: is told about plans that are made.
        native: there are kernels for the devices.

    Attributes:
        plans: those that are kept, the one used longest ago first; nbytes: what they take, about.

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
        reporter: Reporter,
        native: bool,
    ) -> None:
        check_program(program)
        self.program, self.places, self.settings, self.execution = program, places, settings, execution
        self.data_parallel, self.reporter, self.native = data_parallel, reporter, native
        self.plans: OrderedDict[Any, Plan] = OrderedDict()
        self.nbytes = 0
        self._graphs: Cache[Graph] = Cache(_GRAPHS)
        self._has_told = False

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
        run_passes(graph, default_passes(settings, joins_natively if self.native else None))
        check_graph(graph)
        return graph

    def plan(
        self, key: Any, fetches: Sequence[str], fed: Fed, observed: bool, given: frozenset[tuple[str, int]], step: int
    ) -> Plan:
        """The plan for feeds of certain shapes.

        Args:
            key: what it is kept under: fetches, shapes and kind of plan.
            observed: no fused nodes, and every value keeps its memory.
            given: persistable values, as (name, device), that come with the feed.
            step: number of the step that needs it, for the event.
        """
        if key not in self.plans:
            start = perf_counter_ns()
            self.keep(key, self._make_plan(fetches, fed, observed, given), step, start)
        self.use(key)
        return self.plans[key]

    def keep(self, key: Any, plan: Plan, step: int, start: int) -> None:
        """Keep a new plan; it is told that it was made, since `start`."""
        self.plans[key] = plan
        self.nbytes += bytes_kept_for(plan)
        self.reporter.compiled(step, plan, len(self.plans), start)
        self._forget_oldest()

    def plan_openly(
        self, dims: OpenDims, fetches: Sequence[str], fed: Fed, given: frozenset[tuple[str, int]]
    ) -> OpenPlan:  # fmt: skip
        """The plan for feeds of which some dimensions are open."""
        graph = self.graph(fetches, fed.active)
        threads, has = self.execution.num_threads, has_kernels if self.native else None
        return plan_openly(dims, graph, threads, self._memory_options(), given, has)

    def _forget_oldest(self) -> None:
        """Keep within `FLAGS_plan_cache_mib`."""
        limit = get_flag("FLAGS_plan_cache_mib")
        while len(self.plans) > 1 and self.nbytes > limit * 2**20:
            if not self._has_told:
                self._has_told = True
                tell(
                    f"plans for {len(self.plans)} combinations of shapes and fetches take {self.nbytes / 2**20:.0f} "
                    f"MiB; from now on those used longest ago are forgotten, and made anew when they are needed "
                    f"again. FLAGS_plan_cache_mib, {limit}, is how many MiB are kept"
                )
            _, plan = self.plans.popitem(last=False)
            self.nbytes -= bytes_kept_for(plan)

    def use(self, key: Any) -> None:
        """Note that a plan is used."""
        self.plans.move_to_end(key)

    def _make_plan(self, fetches: Sequence[str], fed: Fed, observed: bool, given: frozenset[tuple[str, int]]) -> Plan:
        graph = self.graph(fetches, fed.active, observed)
        _require_feeds(graph, fed)
        threads = 1 if observed else self.execution.num_threads
        memory_options = OBSERVED if observed else self._memory_options()
        return make_plan(graph, specs_of(fed), threads, memory_options, given, has_kernels if self.native else None)

    def _memory_options(self) -> MemoryOptions:
        if self.execution.keep_temporaries:
            return KEPT
        return MemoryOptions(reuse=self.settings.memory_optimize, in_place=self.settings.enable_inplace)


def bytes_kept_for(plan: Plan) -> int:
    """Memory that a plan and its binding take, about; without the arenas, which all plans of an executor share."""
    rows = len(plan.schedule.order)
    if type(plan) is FilledPlan:
        return _BYTES_OF_FILLED + _BYTES_OF_FILLED_ROW * rows
    return _BYTES_OF_ROW * rows


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
