"""Whether several threads of a process use one group in an order that all its processes share.

Collectives are matched by their order. Two threads that call the same collective at once have none: one process may
join what its first thread gave with what the second thread of another process gave, in silence. Two things show it:

- A thread begins a collective while another one is inside a wait for one of the same group; or while one is under way
  that another thread of the same pool has begun, for there names tell nothing.
- Names of threads are crossed: this process's thread A meets thread B of another process, while there is a B here as
  well; or both processes have used both. (Processes may use threads of different names: nothing is crossed then.)

Threads that take turns, in an order of their own, are let be.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from zlib import crc32

from workbench.framework.site import OURS, Site, caller

_OF_POOL = re.compile(r"_\d+$|(?<=^Thread)-\d+(?= \(worker\)$)")  # of concurrent.futures, of multiprocessing.pool
_BY_NUMBER = re.compile(r"Thread-\d+")


class ThreadUse:
    """The threads of this process and of the others that use a group.

    Args:
        size: how many processes the group has.

    Attributes:
        waiting: by identifier: what a thread waits for, and its name.
    """

    def __init__(self, size: int) -> None:
        self.waiting: dict[int, tuple[str, str]] = {}
        self._own: set[int] = set()
        self._theirs: list[set[int]] = [set() for _ in range(size)]

    def conflict(self, title: str) -> str | None:
        """What to say if another thread is inside a wait for a collective while this one begins one."""
        own = threading.get_ident()
        for ident, (other, name) in list(self.waiting.items()):
            if ident != own:
                frame = sys._current_frames().get(ident)
                while frame is not None and OURS[frame.f_code.co_filename]:
                    frame = frame.f_back
                where = "" if frame is None else f", called at {Site(frame.f_code.co_filename, frame.f_lineno)}"
                return two_threads(f"{other} of thread {name!r}{where}", described(title))
        return None

    def meet(self, marks: Sequence[int], rank: int) -> int | None:
        """The threads of all processes that have met in a round, by the marks of their names; `rank` is the own one.

        Returns:
            the rank whose thread is another one than this process's, though each is in both processes.
        """
        own = marks[rank]
        self._own.add(own)
        crossed = None
        for other, mark in enumerate(marks):
            self._theirs[other].add(mark)
            if mark != own and (mark in _alive() or (mark in self._own and own in self._theirs[other])):
                crossed = other
        return crossed


class Waiting:
    """A wait for a collective: the calling thread is inside it."""

    def __init__(self, threads: ThreadUse, title: str) -> None:
        self._waiting, self._title = threads.waiting, title

    def __enter__(self) -> None:
        self._waiting[threading.get_ident()] = self._title, threading.current_thread().name

    def __exit__(self, *error: object) -> None:
        self._waiting.pop(threading.get_ident(), None)


def mark_of_thread() -> int:
    """A number for the name of the calling thread."""
    return _mark(threading.current_thread())


def _mark(thread: threading.Thread) -> int:
    """Threads of one pool have the same, for which of them comes is chance."""
    return crc32(_OF_POOL.sub("", thread.name).encode("utf-8", "replace")) | 1 << 32  # never 0


def _alive() -> set[int]:
    """The marks of the threads that somebody has named, or that are named after their function."""
    main = threading.main_thread()
    named = (t for t in threading.enumerate() if t is not main and not _BY_NUMBER.fullmatch(t.name))
    return set(map(_mark, named))


def described(title: str) -> str:
    """A collective, with the thread that calls it and where, unless that is the main one."""
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return f"{title} of the main thread"
    return f"{title} of thread {thread.name!r}, called at {caller()}"


def two_threads(first: str, second: str) -> str:
    """The message about two collectives of two threads, each as `described`."""
    return (
        "two threads of a process are at collectives of one group at once, and their order may differ from process to "
        f"process\n  {first}\n  {second}\n  expected: one thread at a time, or a group of its own for each thread "
        "(distributed.new_group)"
    )
