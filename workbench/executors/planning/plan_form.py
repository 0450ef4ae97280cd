"""A plan with open sizes, taken apart into numbers and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.planning.late import late_results, share_of_late
from workbench.executors.planning.memory.offsets import PiecesInOrder
from workbench.executors.planning.plan import Plan
from workbench.executors.planning.schedule import BYTES, CALL, FLOPS, MARGIN, NATIVE_CALL, seconds, shared_schedule
from workbench.executors.planning.shares import share
from workbench.executors.planning.sizes.formulas import Conditions, Decisions, Formulas
from workbench.executors.planning.sizes.size import Sizes
from workbench.executors.planning.sizes.unknowns import Number
from workbench.framework.op.record import Cost
from workbench.graph.ssa import Node

_SHARED = (
    "graph", "schedule", "shares", "memory_options", "staged", "feeds", "fetches", "before", "waits", "last_reader",
    "native", "updates",
)  # fmt: skip
_TIMES = 16.0  # so much more work than in the example, at most: how long a tape runs in one go goes by that
_ALIKE = 2.0  # times as much work, or as little: it is divided among threads in the same way


class _Numbers:
    """Numbers of a plan, each kept once; what is made of them is told by where they stand."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []
        self._known: dict[Any, int] = {}

    def at(self, number: Number) -> int:
        key = (type(number), number) if type(number) is int else number
        if key not in self._known:
            self._known[key] = len(self.numbers)
            self.numbers.append(number)
        return self._known[key]

    def all_at(self, numbers: Sequence[Number]) -> tuple[int, ...]:
        return tuple(map(self.at, numbers))


class _RefForm(NamedTuple):
    """A Ref: its piece, and where its numbers stand."""

    piece: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


class PlanForm:
    """A plan with open sizes, taken apart into numbers and what is made of them.

    Args:
        more: other numbers that are to be worked out with those.

    Attributes:
        shared: what is the same for all sizes, by its name in the plan.
    """

    def __init__(self, plan: Plan, sizes: Sizes, more: Sequence[Number] = ()) -> None:
        self.open, self.conditions, self._preferences = plan, Conditions(sizes), Decisions(sizes.preferences)
        self.shared = {name: getattr(plan, name) for name in _SHARED}
        self.rows = {row.node: row for row in (*plan.rows, *plan.commit)}
        numbers, memory = _Numbers(), plan.memory
        self._decided = np.array(numbers.all_at(self.conditions.numbers), np.intp)
        self._preferred = np.array(numbers.all_at(self._preferences.numbers), np.intp)
        self.specs = {v: (numbers.all_at(spec.shape), spec) for v, spec in plan.shapes.specs.items()}
        self.costs = {node: numbers.all_at(cost) for node, cost in plan.shapes.formulas.items()}
        self.pieces = [(piece, numbers.at(piece.nbytes)) for piece in memory.storage.pieces]
        self.in_order = PiecesInOrder(memory.storage.pieces, memory.request.reuse)
        piece_of = {plan.refs[value].root: spot.piece for value, spot in memory.storage.spots.items()}
        distinct = {id(ref): ref for ref in (*plan.refs.values(), *memory.flats) if ref is not None}
        self.refs = [
            _RefForm(
                piece_of[ref.root], numbers.at(ref.offset), numbers.all_at(ref.shape), numbers.all_at(ref.strides),
                ref.dtype,
            )
            for ref in distinct.values()
        ]  # fmt: skip
        self.ref_number = {key: n for n, key in enumerate(distinct)}
        self.ref_of = {value: self.ref_number[id(ref)] for value, ref in plan.refs.items()}
        self.spots = {value: (spot.piece, numbers.at(spot.offset)) for value, spot in memory.storage.spots.items()}
        self.shown = {
            value: (alias.base, numbers.at(alias.seen.offset)) for value, alias in memory.aliases.aliases.items()
        }  # fmt: skip
        self.layouts = {value: numbers.all_at(strides) for value, strides in memory.layouts.items()}
        self.more = numbers.all_at(more)
        self.numbers = Formulas(sizes, numbers.numbers)
        self._flops, self._moved = (np.array([cost[k] for cost in self.costs.values()], np.intp) for k in (0, 1))
        self._chain = self._longest_chain()
        self._native = np.array([node in plan.native for node in self.costs], bool)
        late = late_results(plan.graph.nodes, plan.memory.request.uses, plan.native)
        self._late = np.array(share_of_late(self.costs, late))
        self._calls = np.where(self._native, NATIVE_CALL, CALL)
        self._seconds = self.seconds(self.numbers([u.example for u in sizes.unknowns]))

    def numbers_of(self, unknowns: Sequence[int]) -> np.ndarray | None:
        """All numbers, None where something was decided otherwise than is right for these unknowns."""
        numbers = self.numbers(unknowns)
        if self.seconds(numbers) > _TIMES * self._seconds:
            return None
        return numbers if self.conditions.hold(unknowns, numbers[self._decided]) else None

    def seconds(self, numbers: np.ndarray) -> float:
        """Estimated time of the arithmetic of one step."""
        return float(self._work(numbers).sum())

    def is_preferred(self, numbers: np.ndarray, num_threads: int) -> bool:
        """Whether a plan made for these sizes would be this one."""
        return self._preferences.are_alike(numbers[self._preferred]) and self._is_scheduled_so(numbers, num_threads)

    # Whether the schedule of the example is that of other sizes

    def _work(self, numbers: np.ndarray) -> np.ndarray:
        """Estimated seconds of every node."""
        return numbers[self._flops] / FLOPS + numbers[self._moved] / BYTES

    def _longest_chain(self) -> np.ndarray:
        """Numbers of nodes of which each needs the one before it, those that take longest in the example."""
        ends: dict[Node, tuple[float, Node | None]] = {}
        for node in self.costs:
            last = max(self.open.before.get(node, ()), key=lambda n: ends[n][0], default=None)
            begin = 0.0 if last is None else ends[last][0]
            ends[node] = begin + seconds(self.open.shapes.costs[node]) + NATIVE_CALL, last
        at = max(ends, key=lambda n: ends[n][0], default=None)
        chain = set()
        while at is not None:
            chain.add(at)
            at = ends[at][1]
        return np.array([n for n, node in enumerate(self.costs) if node in chain], np.intp)

    def _is_scheduled_so(self, numbers: np.ndarray, num_threads: int) -> bool:
        """Whether the work takes as many threads as in the example."""
        mine, work = self.open.schedule, self._work(numbers)
        if num_threads == 1:
            return True
        shares = self.open.shares.threads > 1
        moved = numbers[self._moved]
        if mine.threads == 1 and shares != (share(work, moved, self._native, self._late, num_threads) is not None):
            return False
        if shares or self._seconds / _ALIKE < work.sum() < _ALIKE * self._seconds:
            return True
        takes = work + self._calls
        if mine.threads == 1 and takes[self._chain].sum() >= MARGIN * takes.sum():
            return True  # no threads are quicker than this chain
        listed: list[int] = numbers.tolist()
        costs = {node: Cost(listed[flops], listed[moved]) for node, (flops, moved) in self.costs.items()}
        nodes, native = self.open.graph.nodes, self.open.native
        shared = shared_schedule(nodes, self.open.before, costs, num_threads, native)
        if shared is None:
            return mine.threads == 1
        return shared.threads == mine.threads
