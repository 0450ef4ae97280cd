"""A group of one process: what a program that was started once works with, so that it need not ask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.errors import InvalidArgument


class AloneWork:
    """What was done at once. `result`: the array that was filled."""

    done = True

    def __init__(self, result: np.ndarray | None) -> None:
        self.result = result

    def wait(self, timeout: float | None = None) -> np.ndarray | None:
        """The result."""
        return self.result


class Alone:
    """The collectives of `runtime.comm.mpi.group.ProcessGroup` for one process; no MPI is needed."""

    rank, size, ranks = 0, 1, (0,)

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout

    def all_reduce(
        self, array: np.ndarray, out: np.ndarray | None = None, op: str = "sum", names: Sequence[str] = ()
    ) -> AloneWork:
        return _filled(array, out)

    def reduce(
        self, array: np.ndarray, root: int, out: np.ndarray | None = None, op: str = "sum", names: Sequence[str] = ()
    ) -> AloneWork:
        return _filled(array, out)

    def broadcast(self, array: np.ndarray, root: int, names: Sequence[str] = ()) -> AloneWork:
        return AloneWork(array)

    def all_gather(self, array: np.ndarray, out: np.ndarray | None = None, names: Sequence[str] = ()) -> AloneWork:
        return _filled(array[None], out)

    def reduce_scatter(
        self, array: np.ndarray, out: np.ndarray | None = None, op: str = "sum", names: Sequence[str] = ()
    ) -> AloneWork:
        return _filled(array[0], out)

    def scatter(self, array: np.ndarray | None, out: np.ndarray, root: int, names: Sequence[str] = ()) -> AloneWork:
        assert array is not None
        return _filled(array[0], out)

    def all_to_all(self, array: np.ndarray, out: np.ndarray | None = None, names: Sequence[str] = ()) -> AloneWork:
        return _filled(array, out)

    def barrier(self) -> AloneWork:
        return AloneWork(None)

    def send(self, array: np.ndarray, to: int, tag: int = 0) -> AloneWork:
        raise InvalidArgument("there is no other process to send to; this one is alone")

    def receive(self, out: np.ndarray, source: int, tag: int = 0) -> AloneWork:
        raise InvalidArgument("there is no other process to receive from; this one is alone")

    def subgroup(self, ranks: Sequence[int], timeout: float | None = None) -> Alone:
        return Alone(self.timeout if timeout is None else timeout)

    def abort(self, reason: str, cause: BaseException | None = None) -> None:
        """Nobody else is to be told."""

    def close(self) -> None:
        """There is nothing to give back."""


def _filled(array: np.ndarray, out: np.ndarray | None) -> AloneWork:
    if out is None:
        return AloneWork(array.copy())
    out[...] = array
    return AloneWork(out)
