"""How the processes of a role maker meet: everybody tells the others something, and goes on when all have.

`Meeting` is the contract. What meets over MPI is a `ProcessMeeting`; processes without MPI meet in a store of keys and
values (`StoreMeeting`), on a server that trainer 0 runs, or in a folder that all see.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, PeerTimeout

_LOOK = 0.01  # seconds between two looks into a store
MAX_VALUE = 16 << 20  # bytes one process may tell at once
_JOIN = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Store(Protocol):
    """Where processes leave values for each other."""

    def put(self, key: str, value: bytes) -> None:
        """Keep a value."""

    def get(self, key: str) -> bytes | None:
        """A value; None while there is none."""

    def remove(self, key: str) -> None:
        """Forget a value."""

    def close(self) -> None:
        """Give up what it holds."""


class Meeting(Protocol):
    """Some processes, and this one's number among them."""

    rank: int
    size: int

    def gather(self, value: bytes, what: str) -> list[bytes]:
        """The values of all of them, in order; every one calls it, equally often.

        Raises:
            PeerTimeout: some did not come in time; names them.
        """


class StoreMeeting:
    """Processes that meet in a store.

    Args:
        name: of the group, its own in the store. members: what the processes are called in messages.
        patience: seconds a meeting may take.
    """

    def __init__(self, store: Store, name: str, members: Sequence[str], rank: int, patience: float) -> None:
        self._store, self._name, self._members, self._patience = store, name, list(members), patience
        self.rank, self.size, self._round = rank, len(self._members), 0

    def gather(self, value: bytes, what: str, patience: float | None = None) -> list[bytes]:
        """The values of all of them; see `Meeting`. `patience`: seconds this one may take."""
        if len(value) > MAX_VALUE:
            raise InvalidArgument(f"{what}: {len(value)} bytes are too many; {MAX_VALUE} is the most")
        self._round += 1
        self._store.put(self._key(self._round, self.rank), value)
        if self._round > 2:  # all have put since, so all have read it
            self._store.remove(self._key(self._round - 2, self.rank))
        by_rank: dict[int, bytes] = {self.rank: value}
        patience = self._patience if patience is None else patience
        end = time.monotonic() + patience
        while len(by_rank) < self.size:
            for rank in set(range(self.size)) - by_rank.keys():
                there = self._store.get(self._key(self._round, rank))
                if there is not None:
                    by_rank[rank] = there
            if len(by_rank) < self.size:
                self._wait(end, patience, what, set(range(self.size)) - by_rank.keys())
        return [by_rank[rank] for rank in range(self.size)]

    def _wait(self, end: float, patience: float, what: str, missing: set[int]) -> None:
        if time.monotonic() > end:
            names = ", ".join(self._members[rank] for rank in sorted(missing))
            raise PeerTimeout(
                f"{what}: {self._members[self.rank]} waits for {names}, not come within {patience:g} s",
                sorted(missing),
            )
        time.sleep(_LOOK)

    def _key(self, number: int, rank: int) -> str:
        return f"{self._name}.{number}.{rank}"


class ProcessMeeting:
    """Processes that meet over MPI.

    Args:
        group: a `ProcessGroup` (or `Alone`) of exactly these processes.
    """

    def __init__(self, group: Any) -> None:
        self._group, self.rank, self.size = group, int(group.rank), int(group.size)

    def gather(self, value: bytes, what: str) -> list[bytes]:
        """The values of all of them; see `Meeting`."""
        if self.size == 1:
            return [value]
        sizes = self._group.all_gather(np.array(len(value), np.int64), names=[what]).wait()
        padded = np.zeros(max(int(sizes.max()), 1), np.uint8)
        padded[: len(value)] = np.frombuffer(value, np.uint8)
        rows = self._group.all_gather(padded, names=[what]).wait()
        return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def gather_values(meeting: Meeting, value: Any, what: str) -> list[Any]:
    """What all processes tell: numbers, texts, lists and dicts.

    Raises:
        InvalidType: it is something else. PeerTimeout: some did not come.
    """
    try:
        text = json.dumps(value, default=_plain).encode()
    except TypeError as error:
        raise InvalidType(f"{what} takes numbers, texts, lists and dicts: {error}") from None
    return [json.loads(told) for told in meeting.gather(text, what)]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"got {value!r}")


def reduce_arrays(meeting: Meeting, input: Any, output: Any, mode: str) -> None:
    """Arrays of all processes joined element by element, in the order of the processes, into `output`.

    Args:
        input: an array, or a list of numbers, as long everywhere. output: an array of that shape, or a list.
        mode: `"sum"`, `"max"` or `"min"`.

    Raises:
        InvalidArgument: another mode, shapes that differ. InvalidType: no array, no list.
    """
    if mode not in _JOIN:
        raise InvalidArgument(f"all_reduce_worker takes {', '.join(map(repr, _JOIN))} as mode, got {mode!r}")
    if not isinstance(output, list | np.ndarray):
        raise InvalidType(f"all_reduce_worker writes into a list or an array, got {output!r}")
    own = np.ascontiguousarray(input)
    if own.dtype.kind not in "fiu" or np.shape(output) != own.shape:
        raise InvalidArgument(
            "all_reduce_worker: input and output are numbers of one shape\n"
            f"  expected: {own.dtype} {list(own.shape)}\n  got:      {list(np.shape(output))} as output"
        )
    told = json.dumps([own.dtype.str, own.shape]).encode() + b"\n" + own.tobytes()
    parts = [_array(part, own, rank) for rank, part in enumerate(meeting.gather(told, "all_reduce_worker"))]
    total = parts[0].copy()
    for part in parts[1:]:
        _JOIN[mode](total, part, out=total)
    output[:] = total if isinstance(output, np.ndarray) else total.tolist()


def _array(told: bytes, own: np.ndarray, rank: int) -> np.ndarray:
    form, _, data = told.partition(b"\n")
    dtype, shape = json.loads(form)
    if dtype != own.dtype.str or tuple(shape) != own.shape or len(data) != own.nbytes:
        raise InvalidArgument(
            "all_reduce_worker: all trainers give arrays of one shape and dtype\n"
            f"  expected: {own.dtype} {list(own.shape)}, as here\n  got:      {dtype} {shape} from trainer {rank}"
        )
    return np.frombuffer(data, own.dtype).reshape(own.shape)
