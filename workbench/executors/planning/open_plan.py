"""Plans whose sizes are open: made once for feeds of certain names, ranks and dtypes, filled in for every shape.

Which dimensions are open is seen from shapes that came before: those that changed. Dimensions that were always equal
are one unknown. A plan that was filled in is right for that very shape; where a decision depends on sizes, that is a
condition (`sizes.Conditions`), and where one does not hold there is none. Decisions that only make steps quicker - how
many threads there are, into how many blocks rows are divided - are preferences: where one of those is not met, the plan
is as right, and computes the same bits, but `Filled.wanting` says that another one may be quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.planning.memory.offsets import Offsets, room_for
from workbench.executors.planning.memory.refs import ALIGN
from workbench.executors.planning.memory.storage import StoragePiece
from workbench.executors.planning.plan import Given, MemoryOptions, Plan, make_plan
from workbench.executors.planning.plan_form import PlanForm
from workbench.executors.planning.sizes.size import Sizes
from workbench.executors.planning.sizes.unknowns import LEAST, Equal, Fixed, Number, Turn, Unsettled
from workbench.framework.values.spec import Shape
from workbench.graph.ssa import Graph


class OpenDims(NamedTuple):
    """Which dimensions of feeds are open.

    Attributes:
        groups: of each unknown the dimensions it is, as (name, device) and axis.
        given: the feeds of the example; where nothing is open they stay so.
        longer: by how much some of them are larger than their unknown.
    """

    groups: tuple[tuple[tuple[tuple[str, int], int], ...], ...]
    given: Given
    longer: Mapping[tuple[tuple[str, int], int], int] = MappingProxyType({})

    def sizes_of(self, given: Given) -> list[int] | None:
        """The unknowns, of feeds; None if these differ from the example in something else."""
        if given.keys() != self.given.keys():
            return None
        rest = {key: list(spec.shape) for key, spec in given.items()}
        wanted = {key: list(spec.shape) for key, spec in self.given.items()}
        sizes: list[int] = []
        for group in self.groups:
            if any(axis >= len(given[key].shape) for key, axis in group):
                return None
            dims = {given[key].shape[axis] - self.longer.get((key, axis), 0) for key, axis in group}
            if len(dims) > 1:
                return None
            sizes += dims
            for key, axis in group:
                rest[key][axis] = wanted[key][axis]
        same = all(given[key][1:] == spec[1:] for key, spec in self.given.items())
        return sizes if same and rest == wanted else None

    def narrowed(self, reason: Equal | Fixed) -> OpenDims | None:
        """The same where two unknowns are one, or some are as in the example; None if nothing is left open."""
        groups = list(self.groups)
        if isinstance(reason, Equal):
            first, second = reason.unknowns
            groups[first] = (*groups[first], *groups.pop(second))
        else:
            groups = [group for number, group in enumerate(groups) if number not in reason.unknowns]
        return OpenDims(tuple(groups), self.given, self.longer) if groups else None


def declared_dims(given: Given, declared: Mapping[str, Shape]) -> OpenDims | None:
    """What a program declares to be open, of its first feeds; None if that is nothing, or some are too small to tell.

    Along the same axis of several feeds, and of several devices, what is equal is one unknown.

    Args:
        declared: shapes of feeds, by name, in which an unknown dimension is -1.
    """
    groups: dict[tuple[int, int], list[tuple[tuple[str, int], int]]] = {}
    for key, spec in given.items():
        for axis, dim in enumerate(declared.get(key[0], ())):
            if dim == -1 and axis < len(spec.shape):
                groups.setdefault((axis, spec.shape[axis]), []).append((key, axis))
    groups = {key: group for key, group in groups.items() if key[1] >= LEAST}
    return OpenDims(tuple(map(tuple, groups.values())), given) if groups else None


def open_dims(seen: Sequence[Given]) -> OpenDims | None:
    """What is open, of feeds of which the last is the example; None if that cannot be told.

    Args:
        seen: feeds with the same names, ranks and dtypes.
    """
    example, groups = seen[-1], _changing(seen, lambda column: column)
    small = any(column[-1] < LEAST for column in groups)
    return None if small or not groups else OpenDims(tuple(map(tuple, groups.values())), example)


def open_dims_by_distance(seen: Sequence[Given]) -> OpenDims | None:
    """The same where dimensions that were always as far apart are one unknown, as before and behind a concatenation."""
    example, groups = seen[-1], _changing(seen, lambda column: tuple(dim - column[0] for dim in column))
    sizes = {(key, axis): example[key].shape[axis] for group in groups.values() for key, axis in group}
    if not groups or min(sizes.values()) < LEAST:
        return None
    least = {dim: min(map(sizes.__getitem__, group)) for group in groups.values() for dim in group}
    longer = {dim: size - least[dim] for dim, size in sizes.items() if size > least[dim]}
    return OpenDims(tuple(map(tuple, groups.values())), example, longer) if longer else None


Columns = dict[tuple[int, ...], list[tuple[tuple[str, int], int]]]


def _changing(seen: Sequence[Given], of_column: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Columns:
    """The dimensions that were not always the same, by what tells those that belong together."""
    columns: Columns = {}
    for key, spec in seen[-1].items():
        for axis in range(len(spec.shape)):
            column = tuple(given[key].shape[axis] for given in seen)
            if len(set(column)) > 1:
                columns.setdefault(of_column(column), []).append((key, axis))
    return columns


@dataclass(frozen=True, eq=False)
class Filled:
    """A plan for given sizes, and what its unknowns are.

    Attributes:
        unknowns: by number; where memory begins as bytes from the beginning of the arena.
        more: numbers the plan was closed with.
        wanting: 0 if it is the plan that is made for these sizes alone; else, as that may be a quicker one, how many
            seconds a step is estimated to take.
    """

    plan: FilledPlan
    unknowns: list[int]
    more: list[int]
    wanting: float


class OpenPlan:
    """A plan for feeds of which some dimensions are open.

    Args:
        make: makes the plan, as `make_plan`, given specs and a stage of offsets.
        num_threads: at most so many threads are used.

    Attributes:
        plan: with `Size`s in it. sizes: its unknowns. addresses: of every piece in an arena, by number of the unknown.

    Raises:
        Unsettled: a size has to be known.
    """

    def __init__(self, dims: OpenDims, make: Callable[..., Plan], num_threads: int) -> None:
        self.dims, self.sizes, self._num_threads = dims, Sizes(), num_threads
        self.addresses: dict[int, int] = {}  # number of the unknown -> number of the piece
        given = dict(dims.given)
        for group in dims.groups:
            (key, axis), *_ = group
            size = self.sizes.unknown(given[key].shape[axis] - dims.longer.get((key, axis), 0))
            for key, axis in group:
                shape: list[Any] = list(given[key].shape)
                shape[axis] = size + dims.longer.get((key, axis), 0)
                given[key] = given[key].with_shape(shape)
        self.plan = make(given, self._lay_out)
        if self.sizes.had_to_be_known:
            number = self.sizes.had_to_be_known[0]
            raise Unsettled(f"{number.formula} has to be known when the plan is made, such as {number.example}")
        self._form: PlanForm | None = None

    def _lay_out(self, pieces: Sequence[StoragePiece], devices: int, reuse: bool) -> Offsets:
        """Every piece somewhere; which may share bytes follows from when they are needed."""
        offsets: list[Number] = []
        for number, piece in enumerate(pieces):
            if piece.name:
                offsets.append(0)
                continue
            room = room_for(piece) if reuse else None
            self.addresses[len(self.sizes.unknowns)] = number
            offsets.append(self.sizes.address(ALIGN, Turn(room, piece.first, piece.last)))
        return Offsets(tuple(offsets), dict.fromkeys(range(devices), 0))

    def close(self, more: Sequence[Number] = ()) -> None:
        """All decisions have been made, those of the lowering, too: conditions are complete.

        Args:
            more: what else is to be worked out for every shape.
        """
        self._form = PlanForm(self.plan, self.sizes, more)

    def fill(self, given: Given) -> Filled | None:
        """The plan for these feeds; None if it is not the right one for them."""
        form, sizes = self._form, self.dims.sizes_of(given)
        assert form is not None, "conditions are looked at when all are known"
        if sizes is None:
            return None
        unknowns = form.conditions.complete(dict(enumerate(sizes)))
        numbers = None if unknowns is None else form.numbers_of(unknowns)
        if unknowns is None or numbers is None:
            return None
        listed = numbers.tolist()
        plan = FilledPlan(form, listed)
        offsets = plan.offsets.offsets
        for unknown, piece in self.addresses.items():
            unknowns[unknown] = offsets[piece]
        wanting = 0.0 if form.is_preferred(numbers, self._num_threads) else form.seconds(numbers)
        return Filled(plan, unknowns, [listed[n] for n in form.more], wanting)


def plan_openly(
    dims: OpenDims, graph: Graph, num_threads: int, memory_options: MemoryOptions, fed: frozenset[tuple[str, int]],
    has_kernels: Any,
) -> OpenPlan:  # fmt: skip
    """`make_plan` with open sizes."""

    def make(given: Given, lay_out: Any) -> Plan:
        return make_plan(graph, given, num_threads, memory_options, fed, has_kernels, lay_out)

    return OpenPlan(dims, make, num_threads)
