"""The roofline of a user's own program: its nodes beside what the rates of this machine allow, and why some fall short.

A node's floor is what its arithmetic takes at the rate of large products, or its bytes at the rate of copies as large,
whichever is longer, with as many threads at work as the step may have. Of nodes that kernels run as one only what goes
in and what comes out counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument, InvalidType
from workbench.events import OpInfo
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.executors.api.parallel import ParallelExecutor
from workbench.executors.feeding.feed import Feed
from workbench.executors.inspection.debugging import Debugging
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.planning.schedule import available
from workbench.executors.profiling.profile import Profile
from workbench.executors.profiling.sums import calls
from workbench.experiments.bench.machine import LARGEST_COPY, SMALLEST_COPY, copy_rate, gemm_rate
from workbench.experiments.bench.work import MeasuredStep, Work, flops_of, work_of
from workbench.framework.program.block import Block
from workbench.framework.site import Site
from workbench.framework.values.place import Place
from workbench.graph.ssa import Node, values_of

NOT_NATIVE, ONE_THREAD, MEMORY_BOUND, SMALL, ARITHMETIC = (
    "not native", "one thread", "memory-bound", "small", "arithmetic"
)  # fmt: skip
PROFILED_STEPS = 5
WARM_UP = 3  # steps
LISTED = 20  # nodes in the text
_ENOUGH = 0.8  # of the floor: what reaches that does not fall short
_NEAR = 0.5  # of the rate of copies: what reaches that would gain from moving less
_SMALL = 2e-5  # seconds: shorter nodes are as long as it takes to begin them and to read clocks
_WORTH = 1e-4  # seconds: a shorter node is not worth another thread
MIB = 1 << 20


class NodeRoofline(NamedTuple):
    """Nodes of a step that ran as one. Seconds, medians over the steps.

    Attributes:
        type: the types of the ops, joined by "+". outputs: the variables they make, with their shapes.
        place: the device. site: the line that built the first op.
        flops: of products and convolutions; nbytes: read and written.
        seconds: while at least one thread was at it; floor: see the head of this file.
        why: empty where it does not fall short. "not native" runs as NumPy calls; "one thread" has the others wait;
            "memory-bound" comes near the rate of copies, so that only moving less would help; "small" is over before
            rates count; "arithmetic" is none of these: its own functions, or products whose shapes are not large.
    """

    type: str
    outputs: tuple[str, ...]
    place: Place
    site: Site | None
    flops: int
    nbytes: int
    seconds: float
    floor: float
    why: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of the floor in the time it takes."""
        return self.floor / self.seconds if self.seconds else 1.0


@dataclass(frozen=True)
class ProgramRoofline(MeasuredStep):
    """A program's steps on this machine, and their nodes. Print it to read it.

    Attributes:
        median, best: seconds of single steps, with nobody watching.
        threads: that may be at work. work: what a step cannot do without.
        gemm, copy: flops and bytes per second with all of them at work.
        alone: seconds that one thread would take at least, at the rates it has alone.
        nodes: those whose time is furthest above their floor come first.
    """

    median: float
    best: float
    threads: int
    work: Work
    gemm: float
    copy: float
    alone: float
    nodes: tuple[NodeRoofline, ...]

    @property
    def short(self) -> list[NodeRoofline]:
        """The nodes that fall short."""
        return [node for node in self.nodes if node.why]

    def __str__(self) -> str:
        return "\n".join(_text(self))

    __repr__ = __str__


def bench(executor: Any, feed: Feed = None, fetch_list: Any = None, seconds: float = 1.0) -> ProgramRoofline:
    """How fast steps of a program are on this machine, how fast they could be, and which nodes fall short, and why.

    Steps are run as `run` runs them, and timed; some of them once more with every op timed. Parameters and all other
    persistable variables have their values of before when it ends. Run it on a quiet machine: rates and steps are
    measured one after the other.

    Args:
        executor: a ParallelExecutor or a CompiledProgram; of an Executor the default main program.
        feed, fetch_list: as of `run`. A program without updates does only what its fetches need.
        seconds: for the steps.

    Returns:
        what was measured, to be printed or read.

    Raises:
        InvalidType: no executor. InvalidArgument: it trains together with other processes.
        EnforceNotMet: or a subclass, as `run` does.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> roofline = wb.bench(executor, {"x": np.ones((6, 4), np.float32)}, [y], seconds=0.0)
        >>> roofline.work.flops
        96
    """
    front = executor.compiled() if isinstance(executor, Executor) else executor
    if not isinstance(front, ParallelExecutor | CompiledProgram):
        raise InvalidType(f"bench takes a ParallelExecutor, a CompiledProgram or an Executor, got {executor!r}")
    fetches = [] if fetch_list is None else fetch_list
    plan = front.plan(feed, fetches)
    if front.inspection.trainers is not None:
        raise InvalidArgument("bench measures the steps of one process; this executor trains with others")
    kept = _kept(front)
    try:
        return _measured(front, plan, feed, fetches, seconds)
    finally:
        for tensor, value in kept:
            tensor.set(value)


def _kept(front: Debugging) -> list[tuple[Any, Any]]:
    """The tensors of persistable variables, with copies of their values."""
    inspection = front.inspection
    tensors = {
        id(tensor): tensor
        for device in range(len(inspection.places))
        for name in inspection.persistables
        if (tensor := inspection.tensor(name, device)) is not None and tensor.array is not None
    }
    return [(tensor, tensor.array.copy()) for tensor in tensors.values()]


def _measured(front: Debugging, plan: Plan, feed: Feed, fetches: Any, seconds: float) -> ProgramRoofline:
    threads = available(front.inspection.execution.num_threads)
    rates = Rates()
    times = list(_step_times(front, feed, fetches, seconds))
    with Profile() as profile:
        for _ in range(PROFILED_STEPS):
            front.run_step(feed, fetches)
    binding = front.inspection.last
    native = native_nodes(binding) if binding is not None else set(plan.native)
    nodes = _nodes(profile, plan, native, threads, rates)
    work = work_of(plan)
    furthest_first = tuple(sorted(nodes, key=lambda node: node.floor - node.seconds))
    return ProgramRoofline(
        statistics.median(times), min(times), threads, work, rates.gemm(threads), rates.copy(work.nbytes, threads),
        rates.seconds(work, 1), furthest_first,
    )  # fmt: skip


def _step_times(front: Debugging, feed: Feed, fetches: Any, seconds: float) -> Iterator[float]:
    for _ in range(WARM_UP):
        front.run_step(feed, fetches)
    begun = before = perf_counter()
    count = 0
    while before - begun < seconds or count < PROFILED_STEPS:
        front.run_step(feed, fetches)
        now = perf_counter()
        yield now - before
        before, count = now, count + 1


def native_nodes(binding: Binding) -> set[Node]:
    """The nodes that compiled kernels run, from beginning to end."""
    programs = [*binding.speculative, *binding.commit]
    segments = [unit for program in programs for unit in program.units if isinstance(unit, Segment)]
    in_python = {row.node.origins[0].block for segment in segments for desk in segment.tape.desks for row in desk.rows}
    nodes = {row.node for segment in segments for row in segment.rows}
    return {node for node in nodes if not any(_is_within(block, node) for block in in_python)}


def _is_within(block: Block | None, node: Node) -> bool:
    """Whether a block belongs to a node, or to an operator inside of it."""
    own = [value for value in node.attrs.values() if isinstance(value, Block)]
    while own and block is not None:
        if block in own:
            return True
        block = block.parent
    return False


class Rates:
    """What this machine does, measured when somebody first asks; sizes of copies are told apart by factors of four."""

    def __init__(self) -> None:
        self._gemm: dict[int, float] = {}
        self._copy: dict[tuple[int, int], float] = {}

    def seconds(self, work: Work, threads: int) -> float:
        """What so many threads take at least."""
        return work.flops / self.gemm(threads) + work.nbytes / self.copy(work.nbytes, threads)

    def gemm(self, threads: int) -> float:
        """Flops per second of large products by so many threads together."""
        if threads not in self._gemm:
            self._gemm[threads] = gemm_rate(threads)
        return self._gemm[threads]

    def copy(self, nbytes: float, threads: int) -> float:
        """Bytes per second of copies that together read and write about so many."""
        size = SMALLEST_COPY
        while size < min(nbytes / threads / 2, LARGEST_COPY):
            size *= 4
        size = min(size, LARGEST_COPY)
        if (size, threads) not in self._copy:
            self._copy[size, threads] = copy_rate(size, threads, 0.05)
        return self._copy[size, threads]


def _nodes(profile: Profile, plan: Plan, native: Set[Node], threads: int, rates: Rates) -> Iterator[NodeRoofline]:
    step = _MeasuredStep(plan, native, threads, rates)
    rows = {row.node: row for row in (*plan.rows, *plan.commit)}
    for info, took in _times(profile).items():
        own = [rows[plan.graph.nodes[number]] for number in info.nodes]
        yield _node(info, statistics.median(took), own, step)


def _times(profile: Profile) -> dict[OpInfo, list[float]]:
    """By op, seconds in every step."""
    by_step: dict[OpInfo, dict[int, float]] = {}
    for run, lasted in calls(profile.events):
        steps = by_step.setdefault(run.op, {})
        steps[run.step] = steps.get(run.step, 0.0) + lasted / 1e9
    return {op: list(steps.values()) for op, steps in by_step.items()}


class _MeasuredStep(NamedTuple):
    """What all nodes of a step have in common."""

    plan: Plan
    native: Set[Node]
    threads: int
    rates: Rates

    @property
    def is_alone(self) -> bool:
        """Whether nodes that are not shared have no others beside them."""
        return self.plan.schedule.threads == 1


def _node(info: OpInfo, seconds: float, rows: Sequence[Row], step: _MeasuredStep) -> NodeRoofline:
    flops, nbytes = sum(map(flops_of, rows)), moved(rows, step.plan)
    threads = step.threads if step.is_alone else 1  # of several that have nodes of their own each has one thread
    memory = nbytes / step.rates.copy(nbytes, threads)
    floor = max(flops / step.rates.gemm(threads), memory)
    why: tuple[str, ...] = ()
    if floor < _ENOUGH * seconds:
        why = tuple(_why({row.node for row in rows}, seconds, memory / seconds, step))
        why = why or (SMALL if seconds < _SMALL else ARITHMETIC,)
    outputs = tuple(f"{o.name}[{', '.join(map(str, o.shape))}]" for o in info.outputs)
    return NodeRoofline(info.type, outputs, info.place, info.site, flops, nbytes, seconds, floor, why)


def _why(nodes: Set[Node], seconds: float, share_of_copies: float, step: _MeasuredStep) -> Iterator[str]:
    if not nodes <= step.native:
        yield NOT_NATIVE
    elif step.is_alone and step.threads > 1 and seconds > _WORTH and nodes.isdisjoint(step.plan.shares.blocks):
        yield ONE_THREAD
    if share_of_copies > _NEAR:
        yield MEMORY_BOUND


def moved(rows: Sequence[Row], plan: Plan) -> int:
    """Bytes that rows which run as one read and write: not what stays among them, and no more than they say."""
    written = {value for row in rows for value in row.node.writes}
    read = {value for row in rows for value in values_of(row.node.inputs)}
    whole = sum(ref.nbytes for value in read ^ written if (ref := plan.refs.get(value)) is not None)
    return min(whole, sum(row.cost.bytes for row in rows))


# As text


def _text(r: ProgramRoofline) -> Iterator[str]:
    whole = sum(node.seconds for node in r.nodes)
    yield (
        f"{r.median * 1e3:,.3f} ms a step (best {r.best * 1e3:,.3f}); {r.work.flops / 1e9:,.3f} GFLOP and "
        f"{r.work.nbytes / MIB:,.2f} MiB take {r.floor * 1e3:,.3f} ms with {r.threads} threads: "
        f"{r.share:.0%} reached"
    )
    if r.threads > 1:
        yield f"one thread would take {r.alone * 1e3:,.3f} ms at least: {r.share_of_one:.0%} of that reached"
    yield f"rates  {r.gemm / 1e9:,.1f} GFLOP/s of products, {r.copy / 1e9:,.1f} GB/s of copies"
    yield ""
    yield f"{'ms':>10}{'share':>7}{'floor ms':>10}{'reached':>9}   op"
    for node in r.nodes[:LISTED]:
        why = f"  ({', '.join(node.why)})" if node.why else ""
        line = f", {node.site}" if node.site is not None else ""
        yield (
            f"{node.seconds * 1e3:>10.3f}{node.seconds / whole:>7.1%}{node.floor * 1e3:>10.3f}{node.share:>9.0%}   "
            f"{node.type} -> {', '.join(node.outputs[:2])}{line}{why}"
        )
    if len(r.nodes) > LISTED:
        rest = sum(node.seconds for node in r.nodes[LISTED:])
        yield f"{rest * 1e3:>10.3f}{rest / whole:>7.1%}{'':>19}   {len(r.nodes) - LISTED} others, nearer to theirs"
