"""Are the devices still together? Replicas compared bit by bit, and the first node at which devices part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, did_you_mean
from workbench.executors.feeding.feed import Feed
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.fetching.fetch import fetchable
from workbench.executors.inspection.observed import Observation
from workbench.executors.inspection.stepper import NodeRun, describe
from workbench.executors.running.engine.engine import Engine
from workbench.framework.quiet import quietly
from workbench.framework.values.place import Place
from workbench.graph.replicated import own_variables
from workbench.graph.ssa import Node, Value
from workbench.ops.flow.control_flow import Stack


@dataclass(frozen=True)
class Difference:
    """A variable that is not the same bits on all devices.

    Attributes:
        devices: the indexes of those compared; each is compared with the first. places: what they are called.
        shape: on the first. size: its number of elements.
        count: elements whose bits differ on some device; all of them where shapes or dtypes differ.
        max_abs: the largest absolute difference, in the variable's unit; nan where it is none (NaN on one device
            only, shapes that differ), 0 where only the bits differ (0.0 and -0.0).
        index: of the first element that differs, in row-major order. values: what each device has there; where shapes
            or dtypes differ, these as text, and the index is ().
    """

    name: str
    devices: tuple[int, ...]
    shape: tuple[int, ...]
    size: int
    count: int
    max_abs: float
    index: tuple[int, ...]
    values: tuple[Any, ...]
    places: tuple[str, ...]

    def __str__(self) -> str:
        held = ", ".join(f"{v} on {place}" for place, v in zip(self.places, self.values, strict=True))
        where = f"first at {list(self.index)}: " if self.index else ""
        return f"{self.name}: {self.count} of {self.size} elements differ, at most by {self.max_abs:.3g}; {where}{held}"


@dataclass(frozen=True)
class ReplicaComparison:
    """The replicas of persistable variables over all devices; true if those that should be the same are.

    Attributes:
        same: names of the variables that are the same bits on all devices.
        differences: those that differ and should not.
        own: those that differ and are expected to: what each device computes from its own rows, such as the
            statistics of a batch norm that is not synchronised.
        without_value: names of those some device has no value of.
    """

    same: tuple[str, ...]
    differences: tuple[Difference, ...]
    own: tuple[Difference, ...]
    without_value: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.differences

    def __repr__(self) -> str:
        verdict = "differ between devices" if self.differences else "are the same on all devices"
        lines = [f"Replicas {verdict}: {len(self.same)} variables are the same, {len(self.differences)} differ"]
        lines += [f"  {difference}" for difference in self.differences]
        if self.own:
            lines += ["each device has its own, as expected:", *(f"  {difference}" for difference in self.own)]
        if self.without_value:
            lines.append(f"without a value: {', '.join(self.without_value)}")
        return "\n".join(lines)


def compare_devices(engine: Engine, names: str | Iterable[str] | None = None) -> ReplicaComparison:
    """Compare the devices' values of persistable variables as they are now.

    Args:
        names: of the variables; all of the program if None.

    Raises:
        PreconditionNotMet: before the first run devices have no values of their own.
        NotFound: no such variable. InvalidArgument: it is not persistable.
    """
    if not engine.started:
        raise PreconditionNotMet("compare_devices() has nothing to compare: devices get their values at the first run")
    chosen = engine.persistables if names is None else _checked(engine, [names] if isinstance(names, str) else names)
    own = own_variables(engine.graph((), observed=True))
    same, without = [], []
    differences: dict[bool, list[Difference]] = {False: [], True: []}
    with engine.scope.in_use(engine.execution.timeout):
        for name in chosen:
            tensors = [engine.replicas.find(name, place) for place in range(len(engine.places))]
            arrays = [tensor.array for tensor in tensors if tensor is not None]
            if len(arrays) < len(tensors):
                without.append(name)
                continue
            difference = difference_of(name, dict(enumerate(engine.places)), arrays)
            if difference is None:
                same.append(name)
            else:
                differences[name in own].append(difference)
    return ReplicaComparison(tuple(same), tuple(differences[False]), tuple(differences[True]), tuple(without))


def _checked(engine: Engine, names: Iterable[str]) -> list[str]:
    block = engine.program.global_block()
    chosen = [getattr(name, "name", name) for name in names]
    for name in chosen:
        if name not in block.vars:
            raise NotFound(f"the program has no variable {name!r}.{did_you_mean(name, engine.persistables)}")
        if not block.vars[name].persistable:
            raise InvalidArgument(
                f"{name!r} is not persistable: devices compute it from their own rows; first_difference(feed) compares "
                "such values for equal rows"
            )
    return list(dict.fromkeys(chosen))


def difference_of(name: str, places: Mapping[int, Place], arrays: Sequence[np.ndarray]) -> Difference | None:
    """How values of a variable differ, None if they are the same bits; `places` are those of the devices by index."""
    devices, called = tuple(places), tuple(map(str, places.values()))
    first, *others = arrays
    kinds = {(a.shape, a.dtype) for a in arrays}
    if len(kinds) > 1:
        texts = tuple(f"{a.dtype}{list(a.shape)}" for a in arrays)
        return Difference(name, devices, first.shape, first.size, first.size, float("nan"), (), texts, called)
    differs = np.zeros(first.shape, bool)
    for other in others:
        differs |= _bits_differ(first, other)
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), first.shape))
    largest = np.max([_largest(first, other) for other in others])  # nan comes before every number
    values = tuple(a[index].item() for a in arrays)
    count = int(differs.sum())
    return Difference(name, devices, first.shape, first.size, count, float(largest), index, values, called)


def _bits_differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not a.size or not a.dtype.itemsize:
        return np.zeros(a.shape, bool)
    parts = [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(x.size, -1) for x in (a, b)]
    return (parts[0] != parts[1]).any(1).reshape(a.shape)


def _largest(a: np.ndarray, b: np.ndarray) -> float:
    """The largest absolute difference among elements whose bits differ."""
    where = _bits_differ(a, b)
    if not where.any():
        return 0.0
    return quietly(lambda: float(np.abs(a[where].astype(np.float64) - b[where].astype(np.float64)).max()))


# The first node at which devices part


@dataclass(frozen=True)
class FirstDifference:
    """The first node whose results differ between devices that were fed the same rows.

    Attributes:
        node: of the device that differs from the first one.
        outputs: its results that differ. inputs: what it reads that differs: replicas that have drifted. Without any
            the node itself computes something else on that device.
    """

    node: NodeRun
    outputs: tuple[Difference, ...]
    inputs: tuple[Difference, ...]

    def __str__(self) -> str:
        lines = [f"devices part at {self.node}", *(f"  made  {difference}" for difference in self.outputs)]
        lines += [f"  reads {difference}" for difference in self.inputs] or ["  reads the same values on all devices"]
        return "\n".join([*lines, f"  at {self.node.site}"])

    __repr__ = __str__


def first_difference(engine: Engine, feed: Feed = None) -> FirstDifference | None:
    """Feed all devices the same rows and find the first node whose results differ; nothing is applied.

    Random ops draw the same numbers on every device here. Variables of which each device has its own are taken from
    device 0. So a difference comes from a replica that has drifted, or from an op that gives other bits every time.

    Args:
        feed: a dict with the rows of one device.

    Returns:
        None if no values differ.

    Raises:
        InvalidType: the feed is no dict.
        EnforceNotMet: as `run` would, for a feed or a parameter that is missing, or an op that fails.
    """
    if feed is not None and not isinstance(feed, Mapping):
        raise InvalidType(f"first_difference() takes a dict, which every device is fed, got {type(feed).__name__}")
    with engine.scope.in_use(engine.execution.timeout):
        fed = engine.prepare([feed] * len(engine.places) if feed else None)
        step = Observation(engine, (), _without_own(engine, fed))
        step.binding.draws.replicate()
        together = _ValueComparison(step)
        while step.next_node is not None:
            difference = together.parting(step.advance())
            if difference is not None:
                return difference
    return None


def _without_own(engine: Engine, fed: Fed) -> Fed:
    """The feed, with device 0's values of what each device has its own of."""
    given: dict[str, np.ndarray] = {}
    for name in sorted(own_variables(engine.graph((), observed=True))):
        tensor = engine.replicas.find(name, 0)
        if tensor is not None:
            given[name] = tensor.array
    return fed.feeding([{**given, **arrays} for arrays in fed.persistable])


class _ValueComparison:
    """Compares a value once every device has computed it."""

    def __init__(self, step: Observation) -> None:
        self.step = step
        self._makers: dict[Value, Node] = {}
        self._copies: dict[tuple[str, int], dict[int, Value]] = {}
        for value in step.binding.plan.feeds:
            self._copies.setdefault((value.name, value.version), {})[value.place] = value

    def parting(self, node: Node) -> FirstDifference | None:
        """What there is to say if the node that has just run completes values that differ."""
        parted: list[tuple[Value, Difference]] = []
        for value in node.writes:
            self._makers[value] = node
            copies = self._copies.setdefault((value.name, value.version), {})
            copies[value.place] = value
            difference = self._difference(value) if len(copies) == self.step.graph.devices else None
            if difference is not None:
                parted.append((value, difference))
        if not parted:
            return None
        culprit = self._makers[self._odd_one(parted[0][0])]
        inputs = [self._difference(value) for value in _once(culprit.reads)]
        return FirstDifference(
            describe(self.step, culprit), tuple(d for _, d in parted), tuple(d for d in inputs if d is not None)
        )

    def _odd_one(self, value: Value) -> Value:
        """The first device's value that is not what device 0 has."""
        first, *others = self._arrays(value).items()
        return next(other for other, array in others if self._compared(value.name, dict([first, (other, array)])))

    def _difference(self, value: Value) -> Difference | None:
        arrays = self._arrays(value)
        return self._compared(value.name, arrays) if len(arrays) > 1 else None

    def _compared(self, name: str, arrays: Mapping[Value, np.ndarray]) -> Difference | None:
        places = {value.place: self.step.graph.places[value.place] for value in arrays}
        return difference_of(name, places, list(arrays.values()))

    def _arrays(self, value: Value) -> dict[Value, np.ndarray]:
        """A value and its copies on other devices, in device order; none of what cannot be compared."""
        copies = self._copies.get((value.name, value.version), {})
        contents = {v: self.step.binding.current(v) for _, v in sorted(copies.items())}
        if any(held is None or isinstance(held, Stack) for held in contents.values()):
            return {}
        return {v: np.asarray(fetchable(held)) for v, held in contents.items()}


def _once(values: Iterable[Value]) -> list[Value]:
    """Values with different names and versions."""
    return list({(v.name, v.version): v for v in values}.values())
