"""What each of N devices is fed: a batch split by rows, or a list with one dict per device (rules X-10 … X-32).

    feed {"x": 7 rows}, 2 devices, rule "floor"   ->   {"x": rows 0-2}, {"x": rows 3-6}

The checks run once for every signature (names, shapes, dtypes); what they find, which rows go where, is kept as a
`FeedPlan`, and a batch of the same signature is handed over without looking at it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidForm, InvalidType, PreconditionNotMet, described, one_of
from workbench.executors.feeding.feed import (
    Feed,
    as_it_is,
    by_name,
    check_dtype,
    check_shape,
    conversion,
    fed_variable,
    made_at,
    note_exchanged,
)
from workbench.executors.feeding.feed_notes import tell_rows_apart
from workbench.executors.feeding.feed_plan import (
    Arrays,
    Fed,
    FeedConversion,
    FeedPlan,
    Index,
    Row,
    Signature,
    signature_of,
    types_of,
)
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.values.place import Place

_PLANS = 4096  # signatures that are kept, some 1 kB each
_CONVERSIONS = 64
_SHOWN = 8  # sizes in a message


def split_sizes(batch: int, devices: int, rule: str = "floor") -> list[int]:
    """How many rows of a batch each device gets.

    Args:
        batch: number of rows, B.
        devices: number of devices, N.
        rule: `"floor"` (X-11): each of the first N-1 gets B // N, the last the rest; a batch of B < N rows is split
            over B devices, one row each. `"ceil"` (X-10): every device gets ceil(B / N) until the rows are used up.

    Returns:
        one size per device that gets rows, so fewer than N where the rule leaves devices without; N zeros for an
        empty batch (X-13).

    Raises:
        InvalidArgument: an unknown rule, no device, or a negative batch.
    """
    if rule not in _RULES:
        raise InvalidArgument(f"feed_split takes {one_of(_RULES)}, got {rule!r}")
    if devices < 1 or batch < 0:
        raise InvalidArgument(f"a batch of {batch} rows cannot be split over {devices} devices")
    return _RULES[rule](batch, devices) if batch else [0] * devices


def _floor(batch: int, devices: int) -> list[int]:
    pieces = min(batch, devices)
    step = batch // pieces
    return [*[step] * (pieces - 1), batch - step * (pieces - 1)]


def _ceil(batch: int, devices: int) -> list[int]:
    step = -(-batch // devices)
    return [min(step, batch - start) for start in range(0, batch, step)]


_RULES = {"floor": _floor, "ceil": _ceil}


class Splitter:
    """Feeds the devices of one executor, step after step.

    Args:
        program: what is fed; it must not change afterwards.
        places: the N devices.
        rule: `"floor"` or `"ceil"`, see `split_sizes`.
        partial: devices may be left without data, as in inference graphs (X-31); never in training graphs (X-32).
        reads: names the program reads and nothing writes; a feed without one of them is refused.
        unneeded: names that may be fed, too, and are left out.

    Raises:
        InvalidArgument: an unknown rule, or no device.
    """

    def __init__(
        self,
        program: Program,
        places: Sequence[Place],
        rule: str = "floor",
        partial: bool = False,
        reads: Collection[str] = (),
        unneeded: Collection[str] = (),
    ) -> None:
        split_sizes(0, len(places), rule)
        self.program, self.places, self.devices = program, tuple(places), len(places)
        self.rule, self.partial = rule, partial
        self.reads, self._unneeded = sorted(reads), frozenset(unneeded)
        self._plans: dict[Signature, FeedPlan] = {}
        self._conversions: dict[Signature, FeedConversion] = {}

    def split(self, feed: Feed | Fed) -> Fed:
        """What each device gets.

        Args:
            feed: {name: array `[B, ...]`}, every array split by its rows; or a list of dicts, element i for device i,
                unsplit, sizes may differ (X-16). A persistable variable with one row goes to every device, with N
                chunks to one each (X-19). None and empty dicts feed nothing; nothing of an earlier step is used.
                A `Fed` of a plan made here is what comes back.

        Raises:
            InvalidType: neither dict nor list of dicts; a value of the wrong kind or dtype (X-16, X-17).
            InvalidArgument: an unknown or missing name, a wrong shape on a device (X-15, X-17), or data that is
                split into different numbers of chunks.
            PreconditionNotMet: fewer chunks than devices in a training graph (X-12), or a number of chunks that
                suits no persistable variable (X-19).
            InvalidForm: a list whose length does not suit the number of devices (X-16, X-31).
        """
        try:
            if type(feed) is dict:
                convert = self._conversions.get(types_of(feed)) if self._conversions else None
                # A dict of its own keeps the arrays for the step, whatever other threads do with theirs.
                feed = feed.copy() if convert is None else convert(feed)
                if (plan := self._plans.get(signature_of(feed))) is not None:
                    return Fed(plan, [feed] * self.devices)
            if type(feed) is list and all(type(element) is dict for element in feed):
                feed = [element.copy() for element in feed]
                if (plan := self._plans.get(tuple(map(signature_of, feed)))) is not None:
                    return plan.hand_out(feed)
        except TypeError:
            pass  # the shape of a Tensor is a list, which no dict finds: it becomes an array first
        if isinstance(feed, Fed):
            return feed
        dicts = [] if feed is None or isinstance(feed, Mapping) else self._dicts(feed)
        if dicts:
            return self._plan(tuple(map(signature_of, dicts)), dicts, self._listed).hand_out(dicts)
        arrays = self._arrays(feed) if isinstance(feed, Mapping) else {}
        return Fed(self._plan(signature_of(arrays), arrays, self._divided), [arrays] * self.devices)

    def _plan(self, signature: Signature, given: Any, make: Callable[[Any], FeedPlan]) -> FeedPlan:
        plan = self._plans.get(signature)
        if plan is None:
            try:
                plan = make(given)
            except InvalidArgument as error:
                note_exchanged(error, self.program, given if isinstance(given, dict) else given[0])
                raise
            _keep(self._plans, signature, plan, _PLANS)
        return plan

    def _arrays(self, feed: Mapping[Any, Any]) -> Arrays:
        """What is fed as arrays by name; how each type becomes one is found out once."""
        types = types_of(feed)
        known = self._conversions.get(types)
        if known is not None:
            return known(feed)
        needed = [key for key in feed if (key.name if isinstance(key, Variable) else key) not in self._unneeded]
        variables = [fed_variable(self.program, key) for key in needed]
        arrays: Arrays = {}
        entries = []
        for key, variable in zip(needed, variables, strict=True):
            value = feed[key]
            convert = conversion(variable, value)
            arrays[variable.name] = convert(value)
            entries.append((key, variable.name, convert))
        if len(needed) < len(feed) or any(convert is not as_it_is or key != name for key, name, convert in entries):
            _keep(self._conversions, types, FeedConversion(tuple(entries)), _CONVERSIONS)
        return arrays

    def _dicts(self, feed: Any) -> list[Arrays]:
        """A list feed without the empty dicts at its end, which stand for idle devices."""
        if not isinstance(feed, list | tuple):
            raise InvalidType(f"feed takes a dict of name to array, or a list of dicts, got {described(feed)}")
        for element in feed:
            if not isinstance(element, Mapping):
                hint = by_name(self.program, feed)
                raise InvalidType(f"feed takes a list of dicts, got {described(element)} in it{hint}")
        dicts = [self._arrays(element) for element in feed]
        while dicts and not dicts[-1]:
            dicts.pop()
        return dicts

    # A dict: every array is split

    def _divided(self, arrays: Arrays) -> FeedPlan:
        self._require(arrays)
        data: dict[str, list[Index]] = {}
        kept: dict[str, list[Index]] = {}
        rows: dict[str, tuple[int, ...]] = {}
        for name, array in arrays.items():
            variable = self.program.global_block().var(name)
            sizes = self._sizes(variable, array)
            if variable.persistable:
                kept[name] = self._for_all(variable, array, sizes)
            else:
                self._require_chunks(variable, sizes)
                data[name], rows[name] = _indices(array, sizes), tuple(sizes)
        active = self._active(rows)
        tell_rows_apart(self.program, rows)
        return FeedPlan(_rows(data, active), _rows(kept, self.devices) if kept else [], self.devices, rows)

    def _sizes(self, variable: Variable, array: np.ndarray) -> list[int]:
        """Rows per chunk; the chunks are what the variable's shape is declared for (X-15)."""
        sizes = split_sizes(array.shape[0] if array.ndim else 1, self.devices, self.rule)
        if _is_checked(variable):
            where = " on each device" if self.devices > 1 else ""
            check_dtype(variable, array.dtype, where)
            for size in dict.fromkeys(sizes):
                shape = (size, *array.shape[1:]) if array.ndim else ()
                check_shape(variable, shape, where, self._split_note(variable, array, sizes))
        return sizes

    def _split_note(self, variable: Variable, array: np.ndarray, sizes: list[int]) -> str:
        if len(sizes) == 1:
            return ""
        note = f", after {_count(array.shape[0], 'row')} were split into {_listing(sizes)}"
        advice = "; it is split as data is: feed a list of dicts, one per device, or set it in the scope"
        return note + (advice if variable.persistable else "")

    def _for_all(self, variable: Variable, array: np.ndarray, sizes: list[int]) -> list[Index]:
        """A persistable variable: one chunk for all devices or one for each (X-19)."""
        if len(sizes) == 1:
            return [...] * self.devices
        if len(sizes) == self.devices:
            return _indices(array, sizes)
        raise PreconditionNotMet(
            f"feed {variable.name!r} is for a persistable variable, its {_count(array.shape[0], 'row')} make "
            f"{len(sizes)} chunks for {self._all_devices()}\n  expected: 1 chunk for all, or {self.devices}, one each"
            f"{made_at(variable)}"
        )

    def _require_chunks(self, variable: Variable, sizes: list[int]) -> None:
        """Every device of a training graph needs a chunk (X-12, X-32)."""
        if self.partial or len(sizes) == self.devices:
            return
        batch = sum(sizes)
        advice = [f"feed at least {self.devices} rows"] if batch < self.devices else []
        if not advice:
            advice = ['set ExecutionStrategy.feed_split = "floor", which leaves no device without rows']
        advice.append(_FEWER.get(self.places[0].kind, "use fewer devices").format(len(sizes)))
        if not variable.shape or variable.shape[0] >= 0:
            advice.append("if the value is the same for every device, feed a list of dicts, one per device")
        raise PreconditionNotMet(
            f"feed {variable.name!r}: the batch of {_count(batch, 'row')} makes {_count(len(sizes), 'chunk')}, "
            f"which is less than {self._all_devices()}; a training graph needs a chunk for every device\n  "
            + ", or\n  ".join(advice)
            + made_at(variable)
        )

    def _active(self, rows: Mapping[str, tuple[int, ...]]) -> int:
        """The number of chunks, in which all data have to agree."""
        counts = {name: len(sizes) for name, sizes in rows.items()}
        if len(set(counts.values())) <= 1:
            return next(iter(counts.values()), self.devices)
        few, many = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise InvalidArgument(
            f"the feeds are split into different numbers of chunks for {self._all_devices()}: "
            f"{few!r} ({_count(sum(rows[few]), 'row')}) into {counts[few]}, "
            f"{many!r} ({_count(sum(rows[many]), 'row')}) into {counts[many]}; "
            "feed batches of one size, or a list of dicts, one per device"
        )

    # A list: element i is for device i

    def _listed(self, dicts: list[Arrays]) -> FeedPlan:
        self._require_length(dicts)
        self._require(dicts[0])
        for device, arrays in enumerate(dicts):
            self._check_element(device, arrays, dicts[0])
        block = self.program.global_block()
        names = [name for name in dicts[0] if not block.var(name).persistable]
        kept = [name for name in dicts[0] if block.var(name).persistable]
        rows = {name: tuple(_length(arrays[name]) for arrays in dicts) for name in names}
        idle: list[Row] = [()] * (self.devices - len(dicts))
        return FeedPlan(
            [tuple((name, ...) for name in names)] * len(dicts),
            [*[tuple((name, ...) for name in kept)] * len(dicts), *idle] if kept else [],
            self.devices,
            rows,
        )

    def _require_length(self, dicts: list[Arrays]) -> None:
        given = sum(map(bool, dicts))
        if given == len(dicts) and (given == self.devices or (self.partial and given < self.devices)):
            return
        gap = "" if given == len(dicts) else " with empty ones between them"
        takes = "one for every device, none empty"
        if self.partial:
            takes = f"one dict per device, {self.devices} at most, for the first ones"
        raise InvalidForm(
            f"feed is a list of {_count(given, 'non-empty dict')}{gap} for {self._all_devices()}\n  expected: {takes}"
        )

    def _check_element(self, device: int, arrays: Arrays, first: Arrays) -> None:
        where = f" on {self.places[device]}"
        for name in sorted(arrays.keys() ^ first.keys()):
            has, lacks = (device, 0) if name in arrays else (0, device)
            raise InvalidArgument(f"feed {name!r} is given for {self.places[has]} and not for {self.places[lacks]}")
        for name, array in arrays.items():
            variable = self.program.global_block().var(name)
            if _is_checked(variable):
                check_dtype(variable, array.dtype, where)
                check_shape(variable, array.shape, where)

    def _require(self, arrays: Arrays) -> None:
        """Nothing of an earlier step stands in for what is missing (the real engine's X-18)."""
        for name in self.reads:
            if name in arrays:
                continue
            variable = self.program.global_block().var(name)
            more = "" if variable.is_data else f"; feed an array with one entry for each of {self._all_devices()}"
            raise InvalidArgument(f"feed {name!r} is missing: {variable.spec}{more}{made_at(variable)}")

    def _all_devices(self) -> str:
        return f"the {_count(self.devices, 'device')} ({self.places[0].kind.upper()})"


_FEWER = {
    "cpu": "use fewer devices: set the environment variable CPU_NUM={0}, or pass cpu_places({0}) as places",
    "gpu": "use fewer devices: name {0} in FLAGS_selected_gpus or CUDA_VISIBLE_DEVICES",
}


def _keep(kept: dict[Signature, Any], signature: Signature, entry: Any, most: int) -> None:
    """Remember an entry; the oldest of too many is forgotten."""
    while len(kept) >= most:
        kept.pop(next(iter(kept)), None)
    kept[signature] = entry


def _is_checked(variable: Variable) -> bool:
    """Data declared without checks (1.x `layers.data`) takes anything; a fed `loss@GRAD` is no data."""
    return variable.need_check_feed or not variable.is_data


def _length(array: np.ndarray) -> int:
    return array.shape[0] if array.ndim else 1


def _indices(array: np.ndarray, sizes: Iterable[int]) -> list[Index]:
    if not array.ndim:
        return [...]
    indices: list[Index] = []
    start = 0
    for size in sizes:
        indices.append(slice(start, start + size))
        start += size
    return indices


def _rows(indices: Mapping[str, list[Index]], devices: int) -> list[Row]:
    return [tuple((name, of_device[device]) for name, of_device in indices.items()) for device in range(devices)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listing(sizes: list[int]) -> str:
    shown = ", ".join(map(str, sizes[:_SHOWN]))
    return shown if len(sizes) <= _SHOWN else f"{shown}, … ({len(sizes)} in all)"
