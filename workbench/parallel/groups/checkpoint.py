"""Checkpoints that all ranks write together, and that any number of ranks can read.

    folder/manifest.json          which save counts, which file holds which tensor, and everything that is no tensor
    folder/save-3/part-0.tensors  what rank 0 has written of save 3 …

Every rank writes a part of the tensors, which are the same on all of them; the manifest is replaced last, and only when
every part is on the disk. Whatever happens before, a disk that is full or a rank that is killed, the checkpoint of the
save before is still the one that is read. Data only: safetensors and JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.atomic import file_inside
from workbench.checkpoint.files import read_json, read_tensors, write_json, write_tensors
from workbench.checkpoint.tree import flatten, unflatten
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, Unavailable, described, one_of
from workbench.framework.paths import path_text
from workbench.parallel.groups.alone import Alone
from workbench.parallel.groups.group import PATIENCE, Group
from workbench.runtime.comm.mpi.group import is_started_by_mpi, world

KIND = "checkpoint"
_MANIFEST = "manifest.json"


def save_state_dict(
    state_dict: Mapping[str, Any], path: str | os.PathLike[str], process_group: Group | None = None
) -> None:
    """Write a state dict from all ranks together; what was saved there before is replaced whole or not at all.

    Args:
        state_dict: nested dicts of tensors, arrays, numbers and strings, the same on every rank: state dicts of layers,
            optimizers, schedules.
        path: a folder, which all ranks see; made if it is not there.
        process_group: the ranks that write; all of them, or this process alone, by default.

    Raises:
        InvalidType: something in it is no data. InvalidArgument: the ranks have different tensors in it; nothing is
            written. OSError: this rank cannot write its part.
        Unavailable: another rank cannot; names it. The checkpoint before is still there.

    Example:
        >>> net = wb.nn.Linear(2, 2)
        >>> wb.distributed.save_state_dict(net.state_dict(), "checkpoint")
        >>> wb.distributed.load_state_dict(net.state_dict(), "checkpoint")
    """
    folder, ranks = Path(path_text(path)), _Writers(process_group)
    structure, tensors = flatten(dict(_require_dict(state_dict, "save_state_dict")), "state_dict")
    owners = dealt({name: array.nbytes for name, array in tensors.items()}, ranks.size)
    ranks.require_the_same(owners)
    number = ranks.agreed(_newest(folder) + 1)
    parts = folder / f"save-{number}"
    mine = {name: array for name, array in tensors.items() if owners[name] == ranks.rank}
    ranks.together("write its part", lambda: write_tensors(parts / _part(ranks.rank), mine))
    manifest = {"save": number, "ranks": ranks.size, "state": structure, "tensors": owners}
    ranks.on_first("write the manifest", lambda: write_json(folder / _MANIFEST, manifest, KIND))
    ranks.on_first("remove what was saved before", lambda: _remove_others(folder, number))


def load_state_dict(
    state_dict: Mapping[str, Any], path: str | os.PathLike[str], process_group: Group | None = None
) -> None:
    """Fill the tensors of a state dict with what `save_state_dict` wrote, from however many ranks.

    Every rank reads by itself; nothing is changed unless everything fits.

    Args:
        state_dict: of tensors with the names and shapes that were saved; other entries take the saved value if the
            dict can be changed. What was saved besides is left out.
        path: the folder.
        process_group: accepted for Paddle's sake.

    Raises:
        InvalidArgument: no checkpoint, a damaged one, a name that was not saved, another shape or dtype.
    """
    given, saved = _require_dict(state_dict, "load_state_dict"), read_state_dict(path)
    entries = list(_entries(given, saved, ""))
    for where, holder, key, value in entries:
        if isinstance(holder[key], Tensor):
            _require_fit(where, holder[key], value)
    for _, holder, key, value in entries:
        if isinstance(holder[key], Tensor):
            holder[key].set_value(value)
        else:
            holder[key] = value


def read_state_dict(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `save_state_dict` wrote: nested dicts, tensors as arrays.

    Raises:
        InvalidArgument: no checkpoint, or a damaged one. OSError: it cannot be read.
    """
    folder = Path(path_text(path))
    if not (folder / _MANIFEST).exists():
        raise InvalidArgument(f"{folder} holds no checkpoint: there is no {_MANIFEST}, which is written last")
    manifest = read_json(folder / _MANIFEST, KIND)
    try:
        parts = file_inside(folder, f"save-{int(manifest['save'])}")
        tensors: dict[str, np.ndarray] = {}
        for rank in range(int(manifest["ranks"])):
            tensors |= read_tensors(parts / _part(rank))[0]
        state = unflatten(manifest["state"], tensors, np.asarray)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"{folder} holds no checkpoint that this workbench reads: {error}") from error
    if not isinstance(state, dict):
        raise InvalidArgument(f"{folder} holds {described(state)}, not a state dict")
    return state


def dealt(sizes: Mapping[str, int], ranks: int) -> dict[str, int]:
    """Which rank writes which tensor: the largest first, each to the rank that has least so far."""
    load, owners = [0] * ranks, {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        owners[name] = load.index(min(load))
        load[owners[name]] += sizes[name]
    return owners


class _Writers:
    """The processes that write together."""

    def __init__(self, group: Group | None) -> None:
        if group is not None:
            self._group = group.process_group
        else:
            self._group = world() if is_started_by_mpi() else Alone(PATIENCE)
        self.rank, self.size = self._group.rank, self._group.size

    def agreed(self, number: int) -> int:
        """What rank 0 says."""
        return int(self._group.broadcast(np.array([number], np.int64), 0, ["number of the save"]).wait()[0])

    def require_the_same(self, owners: Mapping[str, int]) -> None:
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

    def on_first(self, what: str, act: Callable[[], None]) -> None:
        """Rank 0 acts, the others hear whether it could."""
        self.together(what, act if self.rank == 0 else lambda: None)

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
            raise error
        for failed in np.flatnonzero(told):
            rank = self._group.ranks[failed]
            raise Unavailable(f"rank {rank} could not {what}; the checkpoint before is still the one that counts")


def _newest(folder: Path) -> int:
    """The highest number of a save in a folder, 0 if there is none; also of one that was cut short."""
    numbers = [entry.name.removeprefix("save-") for entry in folder.glob("save-*")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _remove_others(folder: Path, number: int) -> None:
    for entry in folder.glob("save-*"):
        if entry.name != f"save-{number}" and entry.name.removeprefix("save-").isdecimal():
            shutil.rmtree(entry, ignore_errors=True)


def _part(rank: int) -> str:
    return f"part-{rank}.tensors"


def _require_dict(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidType(f"{what} takes a state dict, got {described(value)}")
    return value


def _entries(given: Any, saved: Any, where: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Of every entry: its place for messages, the dict it is in, its key there, what was saved."""
    missing = [f"{where}{name}" for name in given if not isinstance(saved, Mapping) or name not in saved]
    if missing:
        raise InvalidArgument(f"the checkpoint has no {one_of(missing)}")
    for name, target in given.items():
        if isinstance(target, Mapping):
            yield from _entries(target, saved[name], f"{where}{name}/")
        else:
            yield f"{where}{name}", given, name, saved[name]


def _require_fit(name: str, target: Tensor, value: Any) -> None:
    wanted, held = _form(target.numpy()), _form(value) if isinstance(value, np.ndarray) else described(value)
    if held != wanted:
        raise InvalidArgument(f"the checkpoint has {held} as {name}, expected {wanted}")


def _form(array: np.ndarray) -> str:
    return f"{array.dtype} {list(array.shape)}"
