"""Who is told of events, and how they are told.

Events leave the engine sideways: they arrive on the thread that ran the step, after the step (ops are timed where they
run, and told in one go), and nothing an observer does comes back. An observer that raises is taken off the list, with
one warning; the step and the other observers do not notice.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from workbench.errors import InvalidType, PreconditionNotMet
from workbench.events.kinds import KINDS, Event
from workbench.framework.outside import is_from_outside

Observer = Callable[[Any], object]  # of one event of the kinds subscribed to
_DEEPEST = 16  # calls of an observer inside each other


class _UnderWay(threading.local):
    """Subscriptions whose observers are being called in this thread, outermost first."""

    def __init__(self) -> None:
        self.calls: list[Subscription] = []


_under_way = _UnderWay()


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
        calls = _under_way.calls
        depth = len(calls)
        try:
            calls.append(self)
            if calls.count(self) > _DEEPEST:
                raise PreconditionNotMet(f"it causes events that it subscribes to itself, {_DEEPEST} calls deep")
            observer(event)
        except Exception as error:
            if is_from_outside(error):
                raise  # a signal's: the observer was only in the way
            if _remove(self):
                _tell(observer, event, error)
        finally:
            del calls[depth:]

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
            So is one that causes events that it subscribes to itself, without end.
        kinds: classes of this module; all of `KINDS` if none is given.
        executor: only events of this one (`Event.executor`); steps of others emit nothing to it.

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
