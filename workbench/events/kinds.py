"""What executors tell, one class of plain values a kind.

All times are `time.perf_counter_ns()`; all sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, NamedTuple

from workbench.framework.site import Site
from workbench.framework.values.place import Place


@dataclass(frozen=True, slots=True)
class Event:
    """What all events have.

    Attributes:
        executor: a name that no other executor of the process has.
        step: number of the step, from 0.
    """

    executor: str
    step: int


@dataclass(frozen=True, slots=True)
class Step(Event):
    """A step has been applied.

    Attributes:
        places: the devices that took part; feed_rows: rows of the batch each of them got.
    """

    start: int
    end: int
    places: tuple[Place, ...]
    feed_rows: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """From feed to fetch."""
        return (self.end - self.start) / 1e9


@dataclass(frozen=True, slots=True)
class Feed(Event):
    """What each device was fed.

    Attributes:
        rows, shapes: by name, one entry per device; dtypes: by name ("float32").
        nbytes: per device.
    """

    places: tuple[Place, ...]
    rows: Mapping[str, tuple[int, ...]]
    shapes: Mapping[str, tuple[tuple[int, ...], ...]]
    dtypes: Mapping[str, str]
    nbytes: tuple[int, ...]
    at: int = field(default_factory=perf_counter_ns)


class Output(NamedTuple):
    """A value an op makes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class OpInfo:
    """What is the same in every run of an op; made once per plan and shared by its `OpRun` events.

    Attributes:
        node: its number in the plan's graph; nodes: those of all that are timed together.
        type: of the op, or what several joined ones are called; the types of what runs as one are joined by "+".
        ops: types of the program's ops it stands for.
        role: "Forward", "Backward" …; site: the line that built it.
        layer: the part of the network it belongs to, such as "fc_0"; those of what runs as one are joined by "+".
        shares: of its time by layer, as (layer, part of 1), where it updates parameters of several, by their sizes.
    """

    node: int
    type: str
    place: Place
    role: str = "Forward"
    site: Site | None = None
    ops: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    nodes: tuple[int, ...] = ()
    layer: str = ""
    shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class OpRun(Event):
    """An op ran, or several that compiled kernels run as one: they are timed together.

    What its thread waited for others before it began is no part of it, but a `Wait`.

    Attributes:
        thread: number of the thread among those of the step; 0 is the caller's.
    """

    op: OpInfo
    thread: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Wait(Event):
    """A thread waited for others: for an op of theirs, or at the end of a part of the step for the last of them.

    Attributes:
        place: the device it had worked for, or is going to if it has not begun; thread: as in `OpRun`.
        awaited: what it waited for, such as "op 'mul' on cpu:1".
    """

    place: Place
    thread: int
    start: int
    end: int
    awaited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Collective(Event):
    """Devices exchanged values, from when all of them had made what they contribute.

    Attributes:
        kind: "all_reduce", "reduce", "broadcast" …; names: of the variables.
        nbytes: what one device contributes; thread: which one ran or started it.
        start, end: its own time. Where compiled kernels take a sum along with other work, as updates of parameters do,
            that is a share of the time of all of it, by the bytes each part of it moves.
        within_ops: whether that is so: its time is part of that of the ops.
        arrived: when each of `places` had made what it contributes, never after `start`; empty where nobody knows.
    """

    kind: str
    names: tuple[str, ...]
    nbytes: int
    places: tuple[Place, ...]
    thread: int
    start: int
    end: int
    within_ops: bool = False
    arrived: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it took, without waiting for the last device."""
        return (self.end - self.start) / 1e9

    @property
    def waits(self) -> tuple[int, ...]:
        """How long what each of `places` contributes lay there until it began, in ns."""
        return tuple(self.start - arrived for arrived in self.arrived)


@dataclass(frozen=True, slots=True)
class ScopeDrop(Event):
    """Temporaries were given back.

    Attributes:
        nbytes: per device; cause: "interval" (`num_iteration_per_drop_scope`), "call" (`drop_local_exe_scopes`) …
    """

    places: tuple[Place, ...]
    nbytes: tuple[int, ...]
    cause: str
    at: int = field(default_factory=perf_counter_ns)


@dataclass(frozen=True, slots=True)
class PlanCompiled(Event):
    """A plan was made for a combination of program, feed shapes and fetches not seen before.

    Attributes:
        program: its `uid`; nodes: of the SSA graph; rows: of the plan.
        cached_plans: how many the executor keeps now.
    """

    program: int
    places: tuple[Place, ...]
    nodes: int
    rows: int
    cached_plans: int
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1e9


@dataclass(frozen=True, slots=True)
class Memory(Event):
    """Memory a device holds for temporaries of this executor; told after a step, and again after a scope drop."""

    place: Place
    nbytes: int
    at: int = field(default_factory=perf_counter_ns)


@dataclass(frozen=True, slots=True)
class Error(Event):
    """A step failed; nothing of it was applied.

    Attributes:
        text: of the exception; op: type of the op that failed, place: its device, site: the line that built it,
            where these are known.
    """

    text: str
    op: str | None = None
    place: Place | None = None
    site: Site | None = None
    at: int = field(default_factory=perf_counter_ns)


@dataclass(frozen=True, slots=True)
class Batch(Event):
    """The arrays each device is fed. Keep one and you keep the batch; they are the caller's, to be read only.

    Attributes:
        arrays: per device that takes part, by name.
    """

    arrays: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """What a call of `run` is about to return.

    Attributes:
        names: that were fetched; values: as they are returned, to be read only.
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Exchanged(Event):
    """A parameter server has answered a trainer's step; told in the server's process. `executor` is its endpoint.

    Attributes:
        trainer: its number.
        pushed, pulled: bytes of gradients that the trainer gave, and of parameters that it got.
    """

    trainer: int
    pushed: int
    pulled: int


KINDS: tuple[type[Event], ...] = (Step, Feed, OpRun, Wait, Collective, ScopeDrop, PlanCompiled, Memory, Error)
WITH_VALUES: tuple[type[Event], ...] = (Batch, Fetched)  # told only to those who ask for them by name
OF_SERVERS: tuple[type[Event], ...] = (Exchanged,)  # likewise; no executor has them
