"""The exchange of an asynchronous trainer in the background: steps go on while a thread talks to the servers.

It takes what they have handed over since its last message, merged: at most `FLAGS_communicator_max_merge_var_num`
steps, added up, or their mean where `FLAGS_communicator_is_sgd_optimizer` is off. A message goes to all servers at
once, and the next one follows when all have answered. A step gets the parameters of the last answer; it waits only
while `FLAGS_communicator_send_queue_size` steps lie ready.

An error is raised in the next step. What could not be delivered is kept, and delivered once, under the number it had.
The thread ends when somebody waits for all to be delivered; the next step begins with the servers' parameters, and
another thread.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.errors import PeerTimeout
from workbench.framework.values.rows import Rows, concat
from workbench.parallel.servers.asking.exchange import OncePerStep, Pulled, ServerExchange, Share, nothing_to_see
from workbench.parallel.servers.asking.links import deadline, dont_settle, when_settling
from workbench.runtime.servers.standing import stay, when_leaving

_LOOK = 0.2  # seconds between looks at the keyboard
_END = 10.0  # seconds that the thread has to end


class HalfAsyncExchange:
    """Of one program.

    Args:
        trainer, endpoints, pushes, pulls, program: see `ServerExchange`.
        newest: places of pushes of which only the last one counts, as learning rates that a trainer sets.

    Attributes:
        endpoints, pushes, pulls: as given.
        look: called before a step is handed over. is_applied: whether the last one that was handed over was applied.
    """

    def __init__(
        self,
        trainer: int,
        endpoints: Sequence[str],
        pushes: Sequence[Sequence[Share]],
        pulls: Sequence[Pulled],
        program: str = "",
        newest: Collection[int] = (),
    ) -> None:
        self.endpoints, self.pushes, self.pulls = list(endpoints), pushes, pulls
        self.look: Callable[[], None] = nothing_to_see
        self.is_applied = True
        self._begin = ServerExchange(trainer, endpoints, [], pulls, program=program)
        self._sender = ServerExchange(trainer, endpoints, pushes, pulls, program=program)
        self._newest, self._shared = frozenset(newest), OncePerStep()
        self._lock = threading.RLock()  # for `with`: a Condition's own keeps it where Ctrl-C comes in its beginning
        self._changed = threading.Condition(self._lock)
        self._handed: deque[list[Any]] = deque()
        self._outgoing: list[list[Any]] = []  # what the thread delivers
        self._pulled: list[np.ndarray] | None = None
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        self._closes = False

    def exchange(self, values: Sequence[Any], place: int = 0) -> list[np.ndarray]:
        """Hand over `values`; the parameters of the last answer.

        Raises:
            PeerTimeout: the thread does not come to take them. Any other: what it has met since the last step.
        """
        return self._shared.once(place, lambda: self._hand_over(values))

    def _hand_over(self, values: Sequence[Any]) -> list[np.ndarray]:
        self.look()
        begun = self._begin.exchange([]) if self._pulled is None else []
        with self._lock:
            self._raise_error()
            if self.is_applied:
                self._wait(lambda: len(self._handed) < max(1, FLAG_VALUES["FLAGS_communicator_send_queue_size"]))
                self._raise_error()
                self._handed.append([_copied(value) for value in values])
                self.is_applied = False
                self._run()
                self._changed.notify_all()
            if self._pulled is None:
                self._pulled = begun
            return self._pulled

    def settle(self) -> None:
        """Wait until the servers have all that was handed over, and end the thread.

        Raises:
            PeerTimeout: they take too long. Any other: what the thread has met.
        """
        with self._lock:
            self._wait(self._is_delivered)
            self._raise_error()
            self._thread = self._pulled = None  # the program may never run again
            dont_settle(self.settle)
            stay(self._close)
            self._changed.notify_all()

    def _is_delivered(self) -> bool:
        return not self._handed and not self._outgoing

    def _wait(self, is_over: Callable[[], bool]) -> None:
        """Until it is, or the thread has met an error; what interrupts this is seen."""
        end = time.monotonic() + deadline()
        while not is_over() and self._error is None:
            if time.monotonic() > end:
                raise PeerTimeout(
                    f"{len(self._handed) + len(self._outgoing)} steps wait for servers {', '.join(self.endpoints)}, "
                    f"which have taken none of them within {deadline():g} s"
                )
            self._changed.wait(_LOOK)

    def _raise_error(self) -> None:
        """Tell of an error once; the thread tries again."""
        error, self._error = self._error, None
        if error is not None:
            self._changed.notify_all()
            raise error

    # The thread

    def _run(self) -> None:
        if self._thread is None:
            when_leaving(self._close)
            when_settling(self.settle)
            self._thread = threading.Thread(target=self._deliver_all, name="workbench-servers", daemon=True)
            self._thread.start()

    def _deliver_all(self) -> None:
        while self._take():
            try:
                pulled = self._sender.exchange(self._merged())
            except Exception as error:  # whatever it is, the next step tells of it
                with self._lock:
                    self._error = error
                    self._changed.notify_all()
                continue
            with self._lock:
                self._outgoing, self._pulled = [], pulled
                self._sender.is_applied = True
                self._changed.notify_all()

    def _take(self) -> bool:
        """Have something to deliver; False if nothing is to be delivered any more."""
        with self._lock:
            while self._is_needed() and (self._error is not None or self._is_delivered()):
                self._changed.wait(_LOOK)
            if not self._is_needed():
                return False
            if not self._outgoing:
                most = min(max(1, FLAG_VALUES["FLAGS_communicator_max_merge_var_num"]), len(self._handed))
                self._outgoing = [self._handed.popleft() for _ in range(most)]
                self._changed.notify_all()
            return True

    def _is_needed(self) -> bool:
        """Whether the thread that asks is to go on."""
        return not self._closes and self._thread is threading.current_thread()

    def _merged(self) -> list[Any]:
        columns = enumerate(zip(*self._outgoing, strict=True))
        return [values[-1] if place in self._newest else _merged(values) for place, values in columns]

    def _close(self) -> None:
        """Deliver what there is, and end the thread; who closes is told of what could not be delivered."""
        with self._lock:
            try:
                error = self._last_error()
            except PeerTimeout as late:
                error = late
            finally:
                steps = len(self._handed) + len(self._outgoing)
                self._closes = True  # the servers are left next: nothing may begin to go there
                self._handed.clear()
                self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_END)
        if steps:
            warnings.warn(f"the gradients of {steps} steps have not come to the servers: {error}", stacklevel=2)

    def _last_error(self) -> Exception | None:
        """What keeps from the servers what is left, which was tried once more after the first error; None if nothing.

        Raises:
            PeerTimeout: they take too long.
        """
        self._wait(self._is_delivered)
        if self._error is not None:
            self._error = None
            self._changed.notify_all()
            self._wait(self._is_delivered)
        return self._error


def _copied(value: Any) -> Any:
    """A gradient that stays when the step's memory is used again."""
    if not isinstance(value, Rows):
        return np.array(value)
    return Rows(np.array(value.rows), np.array(value.values), value.height)


def _merged(values: Sequence[Any]) -> Any:
    """Gradients of several steps as one; numbers that count steps are always added up."""
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], Rows):
        total: Any = concat(np, values)
        return total if _adds_up() else total.scale(total.dtype.type(1 / len(values)))
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total if _adds_up() or total.dtype.kind != "f" else (total / len(values)).astype(total.dtype)


def _adds_up() -> bool:
    return bool(FLAG_VALUES["FLAGS_communicator_is_sgd_optimizer"])
