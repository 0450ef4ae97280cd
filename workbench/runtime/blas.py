"""One BLAS thread per device: with several, products depend on how many there are, and they fight for processors."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from operator import call
from typing import Any, TypeVar

Result = TypeVar("Result")
_call_first: Any = call  # of a list, which keeps the rest alive meanwhile
_PREFIXES = ("", "scipy_")
_SUFFIXES = ("", "64_", "_64")


class _Pledge:
    """Kept by all who want one thread; the last one who lets go of it brings back the number there was."""

    __slots__ = ("__weakref__",)


class OneBlasThread:
    """Runs functions whose BLAS calls use one thread each; afterwards there are as many as before.

    Who is inside keeps a pledge, in the arguments of a C function and nowhere else: so it is gone when that ends, by a
    result or an exception, wherever a signal handler raised one. The end of the pledge, which restores the number, is
    no Python code either. The libraries are looked for when it is first used.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._controls: list[tuple[Callable[[], int], Callable[..., Any]]] | None = None
        self._pledge: Callable[[], _Pledge | None] = lambda: None
        self._endings: list[Any] = []

    @property
    def libraries(self) -> list[Any]:
        """The BLAS libraries of the process, as threadpoolctl's controllers."""
        if self._libraries is None:
            from threadpoolctl import ThreadpoolController

            self._libraries = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
        return self._libraries

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """What the function returns."""
        call = partial(function, *args)
        return next(map(_call_first, [call, self._pledge() or self._begin(), self._held_to_one()]))

    def _held_to_one(self) -> bool:
        """See to it that there is one thread, also where others have changed that since the pledge began."""
        for ask, change in self._controls or ():  # no comprehension: to Python 3.11 that is a call more in every step
            if ask() != 1:
                change(1, None)
        return True

    def _begin(self) -> _Pledge:
        if self._controls is None:
            self._controls = [_control(library) for library in self.libraries]
        with self._lock:
            return self._pledge() or self._new_pledge(_Pledge())  # no variable: a traceback would keep its content

    def _new_pledge(self, pledge: _Pledge) -> _Pledge:
        endings = []
        for ask, change in self._controls or ():
            endings.append(weakref.ref(pledge, partial(change, ask())))
        self._endings = endings
        self._pledge = weakref.ref(pledge)
        return pledge

    def after_fork(self) -> None:
        """In a child process: who held the lock is not there."""
        self._lock = threading.Lock()


def _control(library: Any) -> tuple[Callable[[], int], Callable[..., Any]]:
    """What tells and what changes the number of threads; the latter takes one argument more, which means nothing."""
    if library.internal_api == "openblas":
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                ask = getattr(library.dynlib, f"{prefix}openblas_get_num_threads{suffix}", None)
                change = f"{prefix}openblas_set_num_threads{suffix}"
                if ask is not None:
                    return ask, ctypes.PYFUNCTYPE(None, ctypes.c_int, ctypes.py_object)((change, library.dynlib))
    return library.get_num_threads, lambda count, unused: library.set_num_threads(count)


one_blas_thread = OneBlasThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.after_fork)
