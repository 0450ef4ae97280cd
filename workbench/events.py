"""Events: what executors tell whoever listens, and how to listen.

    with events.subscribe(print, events.Step, events.ScopeDrop):
        exe.run(...)

Events leave the engine sideways: they are plain values that cannot change, they arrive on the thread that ran the
step, after the step (ops are timed where they run, and told in one go), and nothing an observer does comes back.
An observer that raises is taken off the list, with one warning; the step and the other observers do not notice.
All times are `time.perf_counter_ns()`; all sizes are bytes.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import TracebackType
from typing import Any, NamedTuple

from workbench.errors import InvalidType
from workbench.framework.outside import is_from_outside
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

Observer = Callable[[Any], object]  # of one event of the kinds subscribed to


class Subscription:
    """An observer and what it is told; ends with `close()` or the `with` body. Made by `subscribe`.

    It holds the observer (a strong reference) until it is closed.
    """

    __slots__ = ("_observer", "executor", "kinds")

    def __init__(self, observer: Observer, kinds: frozenset[type[Event]], executor: str | None) -> None:
        self._observer: Observer | None = observer
        self.kinds, self.executor = kinds, executor

    @property
    def closed(self) -> bool:
        """Whether it has ended, by `close()` or because the observer failed."""
        return self._observer is None

    def close(self) -> None:
        """No delivery begins after this; one that is under way on another thread ends. Closing twice is fine."""
        _remove(self)

    def _deliver(self, event: Event) -> None:
        observer = self._observer
        if observer is None or self.executor not in (None, event.executor):
            return
        try:
            observer(event)
        except Exception as error:
            if is_from_outside(error):
                raise  # a signal's: the observer was only in the way
            if _remove(self):
                _tell(observer, event, error)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._observer is None:
            return "<Subscription, closed>"
        return f"<Subscription of {_name(self._observer)} to {', '.join(sorted(k.__name__ for k in self.kinds))}>"


# Subscriptions by kind; kinds nobody listens to are absent. The tuples are replaced, never changed, so emitting takes
# no lock. Executors read it as their one check per step - `if LISTENERS:` - and nobody but this file writes it.
LISTENERS: dict[type[Event], tuple[Subscription, ...]] = {}
_lock = threading.RLock()  # re-entrant: a signal handler may close a subscription while its thread is in here


def subscribe(observer: Observer, *kinds: type[Event], executor: str | None = None) -> Subscription:
    """Call `observer(event)` for every event of these kinds, from now until the subscription is closed.

    Args:
        observer: is called on the thread that ran the step. If it raises an `Exception`, it is unsubscribed, with
            one `RuntimeWarning` that names it and the exception; `KeyboardInterrupt` and `SystemExit` go through.
        kinds: classes of this module; all of `KINDS` if none is given.
        executor: only events of this one (`Event.executor`); steps of others are run as if nobody listened.

    Raises:
        InvalidType: no callable, or no kinds of events.
    """
    if not callable(observer):
        raise InvalidType(f"subscribe takes a function of one event, got {observer!r}")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)) or kind is Event:
            names = ", ".join(k.__name__ for k in KINDS)
            raise InvalidType(f"subscribe takes kinds of events ({names}), got {kind!r}")
    subscription = Subscription(observer, frozenset(kinds or KINDS), executor)
    with _lock:
        for kind in subscription.kinds:
            LISTENERS[kind] = (*LISTENERS.get(kind, ()), subscription)
    return subscription


def listening(kind: type[Event]) -> bool:
    """Whether anybody wants events of this kind; if not, they need not be made."""
    return kind in LISTENERS


def heard(executor: str, beside: frozenset[type[Event]]) -> bool:
    """Whether anybody listens to an executor, to other kinds of events than those `beside`."""
    for kind, subscriptions in list(LISTENERS.items()):  # others subscribe meanwhile
        if kind not in beside and any(s.executor is None or s.executor == executor for s in subscriptions):
            return True
    return False


def emit(event: Event) -> None:
    """Tell everybody who listens, in the order they subscribed."""
    for subscription in LISTENERS.get(type(event), ()):
        subscription._deliver(event)


def emit_all(events: Iterable[Event]) -> None:
    """`emit` one event after the other."""
    for event in events:
        emit(event)


def _remove(subscription: Subscription) -> bool:
    """Take a subscription off the lists; False if it had been already."""
    with _lock:
        if subscription._observer is None:
            return False
        subscription._observer = None
        for kind in subscription.kinds:
            left = tuple(s for s in LISTENERS[kind] if s is not subscription)
            if left:
                LISTENERS[kind] = left
            else:
                del LISTENERS[kind]
        return True


def _tell(observer: Observer, event: Event, error: Exception) -> None:
    """Warn, at the observer's own line, that it failed. Even if warnings are errors, the step must not notice."""
    with contextlib.suppress(Exception):
        cause = "".join(traceback.format_exception_only(error)).strip()
        text = f"{_name(observer)} failed on a {type(event).__name__} event and gets no more events: {cause}"
        frame = list(traceback.walk_tb(error.__traceback__))[1:2] or traceback.walk_tb(error.__traceback__)
        file, line = next((f.f_code.co_filename, number) for f, number in frame)
        try:
            # without a registry the same warning is shown again when the observer is subscribed and fails again
            warnings.warn_explicit(text, RuntimeWarning, file, line)
        except Exception:
            print(f"{file}:{line}: RuntimeWarning: {text}", file=sys.stderr)


def _name(observer: object) -> str:
    return f"observer {getattr(observer, '__qualname__', None) or repr(observer)}"
