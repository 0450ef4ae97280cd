"""The processes of a group as writers of one checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.files import write_tensors
from workbench.checkpoint.parts import checksum, claimed, dealt, part_of, write_manifest
from workbench.errors import InvalidArgument, Unavailable


class GroupWriters:
    """All of them call the same methods, in the same order.

    Args:
        group: a ProcessGroup, or what stands for one.

    Attributes:
        is_first: whether this is process 0, who says what all do.
        known: the error of this process that all have been told of last, if any.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self.known: Exception | None = None
        self.is_first: bool = group.rank == 0

    def write(self, folder: Path, tensors: Mapping[str, np.ndarray], document: Any) -> None:
        """Write what process 0 holds; each of them a part of what all hold alike, bit for bit.

        What differs, such as statistics of a process's own rows, and the document are those of process 0.

        Raises:
            Exception: this process cannot write its part. Unavailable: another one cannot; names it.
        """
        names = json.loads(self.told(json.dumps(sorted(tensors)), "the names of what is saved"))
        sums = np.array([checksum(tensors.get(name)) for name in names], np.int64)
        of_all = self._group.all_gather(sums, names=["checksums of what is saved"]).wait()
        replicated = [name for name, same in zip(names, (of_all == of_all[0]).all(0)) if same]
        owners = {
            **dict.fromkeys(names, 0),
            **dealt({name: tensors[name].nbytes for name in replicated}, self._group.size),
        }
        self._write(folder, tensors, document, owners)

    def write_same(self, folder: Path, tensors: Mapping[str, np.ndarray], document: Any) -> None:
        """Write tensors that all hold; their values are taken to be the same.

        Raises:
            InvalidArgument: the processes have different tensors; nothing is written. Otherwise as `write`.
        """
        owners = dealt({name: array.nbytes for name, array in tensors.items()}, self._group.size)
        self._require_the_same(owners)
        self._write(folder, tensors, document, owners)

    def _write(self, folder: Path, tensors: Mapping[str, np.ndarray], document: Any, owners: Mapping[str, int]) -> None:
        rank, size = self._group.rank, self._group.size
        mine = {name: array for name, array in tensors.items() if owners.get(name) == rank}
        with ExitStack() as held:
            number = self._number(folder, held)
            self.together("write its part", lambda: write_tensors(part_of(folder, number, rank), mine))
            end = (lambda: write_manifest(folder, number, size, document, owners)) if rank == 0 else lambda: None
            self.together("write the manifest", end)

    def _number(self, folder: Path, held: ExitStack) -> int:
        """That of a save, which process 0 claims for all until `held` is left."""
        told = np.zeros(1, np.int64)

        def claim() -> None:
            told[0] = held.enter_context(claimed(folder)) if self.is_first else 0

        self.together("begin a save", claim)
        return int(self._group.broadcast(told, 0, ["number of the save"]).wait()[0])

    def _require_the_same(self, owners: Mapping[str, int]) -> None:
        """Raises: InvalidArgument: who writes what differs, so that some of it would be written by nobody."""
        digest = np.frombuffer(hashlib.sha256(json.dumps(owners, sort_keys=True).encode()).digest(), np.uint8)
        told = self._group.all_gather(digest, names=["what is saved"]).wait()
        other = next((rank for rank, row in enumerate(told) if row.tobytes() != told[0].tobytes()), None)
        if other is not None:
            one, first = self._group.ranks[other], self._group.ranks[0]
            raise InvalidArgument(
                f"rank {one} saves another state dict than rank {first}: all of them save tensors of the same names "
                "and sizes; gather what only one of them has"
            )

    def told(self, text: str, what: str) -> str:
        """What process 0 says."""
        mine = np.frombuffer(text.encode(), np.uint8)
        size = int(self._group.broadcast(np.array([len(mine)], np.int64), 0, [what]).wait()[0])
        buffer = np.array(mine) if self.is_first else np.empty(size, np.uint8)
        return str(self._group.broadcast(buffer, 0, [what]).wait().tobytes().decode())

    def together(self, what: str, act: Callable[[], None]) -> None:
        """All act; if one cannot, none goes on.

        Raises:
            Exception: this rank's own. Unavailable: another rank's.
        """
        error: Exception | None = None
        try:
            act()
        except Exception as raised:  # it is raised below, after the others have been told
            error = raised
        told = self._group.all_gather(np.array([error is not None], np.int8), names=["whether it was written"]).wait()
        if error is not None:
            self.known = error
            raise error
        for failed in np.flatnonzero(told):
            rank = self._group.ranks[failed]
            why = f"rank {rank} could not {what}; the checkpoint before is still the one that counts"
            self.known = Unavailable(why)
            raise self.known
