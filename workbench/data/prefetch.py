"""A bounded background thread that stays a few items ahead of its consumer.

State, all in `_Channel`, which both sides hold; the thread never refers to the `Prefetcher`, so a dropped
iterator is collected and its thread ends.

    tokens   free places: the thread takes one before it asks the source for an item, the consumer gives one
             back with every item it takes. At most `depth` items exist outside the consumer.
    filled   what the thread made, in order: items, then one `_EndOfSource`, carrying the error if there was one.
    stopped  set by the consumer's side; the thread looks at it between items.

Both queues are `SimpleQueue`s and `stopped` is a plain attribute because the collector may drop an iterator
anywhere, even inside a lock the finalizer would need; `SimpleQueue.put` is re-entrant, `Event.set` is not.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from workbench.errors import Unavailable

POLL_SECONDS = 0.5  # no wait is longer than this without looking around
JOIN_SECONDS = 2.0  # how long close() waits for a thread that is inside the user's code


class _EndOfSource:
    """The source is exhausted, or failed with `error`."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Channel:
    def __init__(self, depth: int) -> None:
        self.tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.filled: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stopped = False
        for _ in range(depth):
            self.tokens.put(None)

    def stop(self) -> None:
        """Tell the thread to end; safe to call from a finalizer, and more than once."""
        self.stopped = True
        self.tokens.put(None)

    def take_token(self) -> bool:
        """Wait for a free place; False once stopped."""
        while not self.stopped:
            try:
                self.tokens.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            return not self.stopped
        return False


def _fill(source: Iterator[Any], channel: _Channel) -> None:
    """Body of the thread."""
    error: BaseException | None = None
    try:
        while channel.take_token():
            try:
                item = next(source)
            except StopIteration:
                break
            channel.filled.put(item)
            del item  # else the thread would keep the last batch alive while it waits
    except BaseException as exc:
        error = exc
    channel.filled.put(_EndOfSource(error))


class Prefetcher(Iterator[Any]):
    """Iterates over `source` on a thread, up to `depth` items ahead.

    An exception of the source is raised by the `next()` that would have returned its item, with its own
    traceback; then the iteration is over. KeyboardInterrupt while waiting closes it.

    Args:
        source: advanced on the thread only, in a copy of the caller's context.
        depth: number of items made ahead, >= 1.
        timeout: seconds one `next()` may wait; 0 means no limit (the wait polls, and can be interrupted).
        waiting_for: says in words what the thread is doing, for the message of a timeout.

    Raises:
        Unavailable: (from `next`) the timeout passed, or the thread died.
    """

    def __init__(
        self,
        source: Iterator[Any],
        depth: int,
        timeout: float = 0,
        waiting_for: Callable[[], str] = lambda: "",
    ) -> None:
        self._channel = _Channel(depth)
        self._timeout = timeout
        self._waiting_for = waiting_for
        self._done = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(_fill, source, self._channel), name="workbench-prefetch", daemon=True
        )
        self._finalizer = weakref.finalize(self, self._channel.stop)
        self._thread.start()

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        try:
            item = self._wait()
        except BaseException:
            self._stop()
            raise
        if isinstance(item, _EndOfSource):
            self._stop()
            raise item.error or StopIteration
        self._channel.tokens.put(None)
        return item

    def _wait(self) -> Any:
        deadline = time.monotonic() + self._timeout if self._timeout else None
        while True:
            try:
                return self._channel.filled.get(timeout=self._patience(deadline))
            except queue.Empty:
                self._check(deadline)

    def _patience(self, deadline: float | None) -> float:
        return POLL_SECONDS if deadline is None else max(0.0, min(POLL_SECONDS, deadline - time.monotonic()))

    def _check(self, deadline: float | None) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            what = f"no batch within {self._timeout:g} s"
            raise Unavailable(f"{what}: the prefetch thread is {self._waiting_for()}")
        if not self._thread.is_alive() and self._channel.filled.empty():
            raise Unavailable("the prefetch thread ended without saying why")

    def _stop(self) -> None:
        self._done = True
        self._finalizer()

    def close(self) -> None:
        """End the thread and drop what it made ahead; waits at most `JOIN_SECONDS` for it."""
        self._stop()
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
