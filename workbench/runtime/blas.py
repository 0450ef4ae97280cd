"""One BLAS thread per device: several make a device's product depend on how many there are, and fight for processors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_libraries: list[Any] | None = None
_inside = 0
_before: list[int] = []


def libraries() -> list[Any]:
    """The BLAS libraries of the process, as threadpoolctl's controllers."""
    global _libraries
    if _libraries is None:
        from threadpoolctl import ThreadpoolController

        _libraries = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
    return _libraries


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS calls inside the `with` body use one thread; the number there was is restored after the last such body."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _before
    with _lock:
        _inside += 1
        if _inside > 1:
            return
        _before = [lib.get_num_threads() for lib in libraries()]
        for lib, count in zip(libraries(), _before, strict=True):
            if count != 1:
                lib.set_num_threads(1)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside:
            return
        for lib, count in zip(libraries(), _before, strict=True):
            if count != 1:
                lib.set_num_threads(count)
