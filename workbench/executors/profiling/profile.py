"""Where the time of steps goes: a profile collects the events between start and stop and sums them up.

    with workbench.profiler.profile() as p:
        exe.run(...)
    print(p.table(by="mean"))
    p.export_chrome_trace("steps.json")

Waiting is no part of an op's time.
"""

from __future__ import annotations

import os
import threading
from collections import deque

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.events import Event, Subscription, subscribe
from workbench.executors.profiling.chrome import write_trace
from workbench.executors.profiling.profile_table import table
from workbench.executors.profiling.sums import (
    By,
    ProfileLine,
    ThreadTime,
    Traffic,
    layers,
    op_types,
    single_ops,
    thread_times,
    traffic,
)


class Profile:
    """Collects events from `start` to `stop`, or inside a `with` body.

    Args:
        kinds: kinds of events (classes of `workbench.events`); everything if none is given. Without `OpRun` ops are
            not timed one by one, which costs time.
        limit: events that are kept; older ones are dropped, and the table says how many.

    Raises:
        InvalidType: no kinds of events. InvalidArgument: limit below 1.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> program = static.CompiledProgram(static.default_main_program())
        >>> parallel = program.with_data_parallel(places=static.cpu_places(2))
        >>> with wb.profiler.profile() as profile:
        ...     losses = executor.run(parallel, feed={"x": np.ones((6, 4), np.float32)}, fetch_list=[loss])
    """

    def __init__(self, *kinds: type[Event], limit: int = 1_000_000) -> None:
        if limit < 1:
            raise InvalidArgument(f"limit is the number of events kept, at least 1, got {limit}")
        self.kinds = kinds
        self.dropped = 0
        self._events: deque[Event] = deque(maxlen=limit)
        self._lock = threading.Lock()  # steps of several executors may end at the same time
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Begin anew: what was collected before is forgotten.

        Raises:
            PreconditionNotMet: it has been started already.
        """
        if self._subscription is not None:
            raise PreconditionNotMet("the profile is running; stop() it before it is started again")
        self._events.clear()
        self.dropped = 0
        self.go_on()

    def go_on(self) -> None:
        """Collect what is told from now on, too."""
        if self._subscription is None:
            self._subscription = subscribe(self._take, *self.kinds)

    def stop(self) -> None:
        """Collect no more. Stopping twice is fine."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _take(self, event: Event) -> None:
        with self._lock:
            self.dropped += len(self._events) == self._events.maxlen
            self._events.append(event)

    @property
    def events(self) -> tuple[Event, ...]:
        """What has been collected, in the order it was told."""
        with self._lock:
            return tuple(self._events)

    # Sums

    def op_types(self, by: By = "total") -> list[ProfileLine]:
        """One line per op type, all devices together, the largest first.

        Raises:
            InvalidArgument: an unknown `by`.
        """
        return op_types(self.events, by)

    def ops(self, by: By = "total") -> list[ProfileLine]:
        """One line per op and device, the largest first.

        Raises:
            InvalidArgument: an unknown `by`.
        """
        return single_ops(self.events, by)

    def layers(self, by: By = "total") -> list[ProfileLine]:
        """One line per layer, all devices together, the largest first; its calls are steps.

        Raises:
            InvalidArgument: an unknown `by`.
        """
        return layers(self.events, by)

    def collectives(self) -> list[Traffic]:
        """One entry per kind, the slowest first."""
        return traffic(self.events)

    def threads(self) -> list[ThreadTime]:
        """One entry per executor and thread that ran an op."""
        return thread_times(self.events)

    # For people

    def table(self, n: int = 20, by: By = "total") -> str:
        """The slowest op types and ops, and the totals of everything else, as text.

        Args:
            n: at most so many lines per list.
            by: what they are sorted by: total, mean, median or max time, or calls.

        Raises:
            InvalidArgument: n below 1 or an unknown `by`.
        """
        return table(self.events, n, by, self.dropped)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as JSON, for https://ui.perfetto.dev and chrome://tracing.

        Raises:
            InvalidArgument: `path` is a folder. OSError: it cannot be written; a file that was there is unchanged.
        """
        write_trace(path, self.events)
