"""Which passes a graph goes through, in which order, and running them.

A pass is any object with a `name`, an `exact` flag and a call `pass_(graph) -> changed`. It edits the graph in place
and leaves it well formed (`graph.check.check_graph`). *Exact* means the step computes the same bits as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workbench.errors import InvalidType
from workbench.graph.order import add_hazard_edges
from workbench.graph.passes.dead_code import DeadCode
from workbench.graph.passes.draw import Draw
from workbench.graph.passes.fusion.add_act import FuseAddAct
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.fusion.attention import FuseAttention
from workbench.graph.passes.fusion.bn_act import FuseBnAct, FuseBnAddAct
from workbench.graph.passes.fusion.broadcast import FuseBroadcast
from workbench.graph.passes.fusion.elementwise_chains import ElementwiseChains
from workbench.graph.passes.fusion.optimizer import FuseOptimizer
from workbench.graph.passes.order_collectives import OrderCollectives
from workbench.graph.passes.recompute_late import RecomputeLate
from workbench.graph.passes.sequential import Sequential
from workbench.graph.passes.sync_batch_norm import SyncBatchNorm
from workbench.graph.passes.winograd import Winograd
from workbench.graph.settings import ReduceStrategy, Settings
from workbench.graph.ssa import Graph, Node


class Pass(Protocol):
    """What a pass looks like: `name` and `exact` as plain attributes will do."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool: ...

    def __call__(self, graph: Graph) -> bool: ...


def default_passes(settings: Settings, joins: Callable[[Node], bool] | None = None) -> list[Pass]:
    """The passes for a build strategy, in order (G-40 where it applies).

    Those users appended run before nodes are put in order, so that ordering sees what they made. With
    `settings.exact` only exact passes are left.

    Args:
        settings: the resolved build strategy.
        joins: which element-wise nodes may become part of one; all unless given.
    """
    s = settings
    reduces = s.reduce_strategy is ReduceStrategy.Reduce
    path = s.debug_graphviz_path
    chosen: list[tuple[bool, Pass]] = [
        (bool(path), Draw(f"{path}_original_graph")),
        (s.sync_batch_norm, SyncBatchNorm()),
        (True, DeadCode()),
        (True, RecomputeLate()),
        (s.fused_attention is not False, FuseAttention(joins is not None, everywhere=bool(s.fused_attention))),
        (s.winograd, Winograd()),
        (s.fuse_bn_act_ops, FuseBnAct()),
        (s.fuse_bn_add_act_ops, FuseBnAddAct(native=joins is not None)),
        (s.fuse_elementwise, FuseAddAct(joins)),
        (s.fuse_elementwise, ElementwiseChains(joins)),
        (s.fuse_all_optimizer_ops, FuseOptimizer()),
        (bool(path), Draw(f"{path}_fused_graph")),
        (s.fuse_all_reduce_ops, FuseAllReduce()),
        (s.fuse_broadcast_ops, FuseBroadcast()),
        *((True, as_pass(p)) for p in s.passes),
        (not reduces or (s.num_trainers > 1 and not s.sequential), OrderCollectives()),
        (s.sequential, Sequential()),
        (bool(path), Draw(f"{path}_multi_devices_graph")),
    ]
    return [p for condition, p in chosen if condition and (p.exact or not s.exact)]


def run_passes(graph: Graph, passes: Sequence[Pass]) -> list[str]:
    """Run the passes in order, then make hazards ordering edges (G-17).

    Returns:
        the names of the passes that changed the graph.

    Raises:
        whatever a pass raises, with a note that names the pass.
    """
    changed = []
    for one in passes:
        try:
            if one(graph):
                changed.append(one.name)
        except Exception as error:
            error.add_note(f"in graph pass {one.name!r}")
            raise
    add_hazard_edges(graph)
    return changed


def as_pass(given: Any) -> Pass:
    """A pass from what users append: anything that can be called with a graph.

    Without `name` it has the callable's, without `exact = True` it is not exact; one that returns None counts as
    having changed the graph.

    Raises:
        InvalidType: it cannot be called.
    """
    if not callable(given):
        raise InvalidType(f"a graph pass is called with the graph; got {given!r}, which cannot be called")
    name = getattr(given, "name", None) or getattr(given, "__name__", type(given).__name__)
    return _UserPass(str(name), getattr(given, "exact", False) is True, given)


class _UserPass:
    """A user's callable with the attributes of a pass."""

    def __init__(self, name: str, exact: bool, body: Callable[[Graph], Any]) -> None:
        self.name, self.exact, self._body = name, exact, body

    def __call__(self, graph: Graph) -> bool:
        changed = self._body(graph)
        return changed is None or bool(changed)

    def __repr__(self) -> str:
        return f"<graph pass {self.name!r}>"


REWRITES: tuple[type[Pass], ...] = (
    DeadCode, RecomputeLate, FuseAttention, Winograd, FuseBnAct, FuseBnAddAct, FuseAddAct, ElementwiseChains,
    FuseOptimizer, FuseAllReduce, FuseBroadcast, OrderCollectives, Sequential,
)  # fmt: skip
"""The passes that do not change what is computed, only how."""

EXACT = frozenset(p.name for p in (make() for make in REWRITES) if p.exact)
"""Names of those after which a step computes the same bits; the others round differently."""
