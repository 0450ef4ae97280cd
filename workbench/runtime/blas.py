"""One BLAS thread per device: with several, products depend on how many there are, and they fight for processors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class OneBlasThread:
    """A `with` body whose BLAS calls use one thread each; the number there was is restored after the last such body.

    The libraries are looked for when it is first entered. Entered in every step, hence no generator.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._inside = 0
        self._before: list[tuple[Any, int]] = []
        self._asked: list[tuple[Any, Callable[[], int]]] | None = None

    @property
    def libraries(self) -> list[Any]:
        """The BLAS libraries of the process, as threadpoolctl's controllers."""
        if self._libraries is None:
            from threadpoolctl import ThreadpoolController

            self._libraries = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
        return self._libraries

    def _questions(self) -> list[tuple[Any, Callable[[], int]]]:
        """What to ask for the number of threads: OpenBLAS itself where it is that, which is ten times as fast."""
        if self._asked is None:
            self._asked = [(lib, _question(lib)) for lib in self.libraries]
        return self._asked

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                counts = [(lib, ask()) for lib, ask in self._questions()]
                self._before = [(lib, count) for lib, count in counts if count != 1]
                for lib, _ in self._before:
                    lib.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for lib, count in self._before:
                    lib.set_num_threads(count)


def _question(library: Any) -> Callable[[], int]:
    if library.internal_api == "openblas":
        for prefix in ("", "scipy_"):
            for suffix in ("", "64_", "_64"):
                found = getattr(library.dynlib, f"{prefix}openblas_get_num_threads{suffix}", None)
                if found is not None:
                    return found
    return library.get_num_threads


one_blas_thread = OneBlasThread()
