"""A checkpoint in parts: a folder that several processes write together, and that any number of them can read.

    folder/manifest.json          which save counts, which part holds which tensor, and everything that is no tensor
    folder/save-3/part-0.tensors  what process 0 has written of save 3 …

The manifest is replaced last, and only when every part is on the disk. Whatever happens before, a disk that is full or
a process that is killed, the save before is still the one that is read. Of several that save into one folder at a time
each has a number of its own, and the highest that is finished counts. Data only: safetensors and JSON.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np

from workbench.checkpoint.atomic import file_inside
from workbench.checkpoint.files import read_json, read_tensors, write_json, write_tensors
from workbench.checkpoint.locks import locked
from workbench.errors import InvalidArgument

KIND = "checkpoint"
_MANIFEST = "manifest.json"


class PartWriters(Protocol):
    """Processes that write a checkpoint together."""

    def write(self, folder: Path, tensors: Mapping[str, np.ndarray], document: Any) -> None:
        """Write a save; what was saved in the folder before is replaced whole or not at all.

        Args:
            document: of JSON types.
        """


class LoneWriter:
    """One process alone: a save of one part."""

    def write(self, folder: Path, tensors: Mapping[str, np.ndarray], document: Any) -> None:
        """See `PartWriters`."""
        with claimed(folder) as number:
            write_tensors(part_of(folder, number, 0), tensors)
            write_manifest(folder, number, 1, document, dict.fromkeys(tensors, 0))


def require_folder(path: Path) -> None:
    """Raises: InvalidArgument: there is a file, which a folder cannot replace at once."""
    if path.is_file():
        raise InvalidArgument(f"{path} is a file, and what several processes save is a folder; choose another path")


def dealt(sizes: Mapping[str, int], writers: int) -> dict[str, int]:
    """Who writes which tensor: the largest first, each to the one that has least so far."""
    load, owners = [0] * writers, {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        owners[name] = load.index(min(load))
        load[owners[name]] += sizes[name]
    return owners


def checksum(array: np.ndarray | None) -> int:
    """By which processes see that they hold the same; -1 of nothing."""
    return -1 if array is None else crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def part_of(folder: Path, number: int, writer: int) -> Path:
    """The file with what a process writes of a save."""
    return folder / f"save-{number}" / f"part-{writer}.tensors"


@contextmanager
def claimed(folder: Path) -> Iterator[int]:
    """A number above those of all saves in a folder; nobody else has it, or removes what is written of it meanwhile.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        number = max(_saves(folder), default=0) + 1
        save = folder / f"save-{number}"
        try:
            save.mkdir()
        except FileExistsError:  # another one was quicker
            continue
        with ExitStack() as held:
            with suppress(FileNotFoundError):
                held.enter_context(locked(save))
            if not save.is_dir():  # taken for one of a process that died, before it was locked
                continue
            yield number
            return


def _saves(folder: Path) -> dict[int, Path]:
    """The saves in a folder by their numbers; also those that were cut short."""
    entries = {entry.name.removeprefix("save-"): entry for entry in folder.glob("save-*")}
    return {int(number): entry for number, entry in entries.items() if number.isdecimal()}


def write_manifest(folder: Path, number: int, parts: int, document: Any, owners: Mapping[str, int]) -> None:
    """Make a save, whose parts are all on the disk, the one that counts; those before it are removed.

    If one that was begun later counts already this one is removed instead.
    """
    manifest = {"save": number, "ranks": parts, "state": document, "tensors": dict(owners)}
    with locked(folder):
        if _counting(folder) > number:
            shutil.rmtree(folder / f"save-{number}", ignore_errors=True)
            return
        write_json(folder / _MANIFEST, manifest, KIND)
        for other, entry in _saves(folder).items():
            if other < number:
                with suppress(OSError), locked(entry, 0.0):  # unless it is being written
                    shutil.rmtree(entry, ignore_errors=True)


def _counting(folder: Path) -> int:
    """The number of the save that counts, if it is there; 0 if there is none."""
    try:
        number = read_manifest(folder).number
    except (InvalidArgument, OSError):
        return 0  # what cannot be read is replaced
    return number if (folder / f"save-{number}").is_dir() else 0


class Manifest(NamedTuple):
    """What a manifest says: the number of the save that counts, of how many parts it is, and what is no tensor."""

    number: int
    parts: int
    document: Any


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder.

    Raises:
        InvalidArgument: no checkpoint, or a damaged one. OSError: it cannot be read.
    """
    if not is_in_parts(folder):
        raise InvalidArgument(f"{folder} holds no checkpoint: there is no {_MANIFEST}, which is written last")
    manifest = read_json(folder / _MANIFEST, KIND)
    try:
        number = int(manifest["save"])
        file_inside(folder, f"save-{number}")
        return Manifest(number, int(manifest["ranks"]), manifest["state"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"{folder} holds no checkpoint that this workbench reads: {error}") from error


def read_parts(folder: Path) -> tuple[dict[str, np.ndarray], Any]:
    """The tensors of all parts, and the document beside them.

    Raises:
        InvalidArgument: no checkpoint, or a damaged one. OSError: it cannot be read.
    """
    manifest = read_manifest(folder)
    tensors: dict[str, np.ndarray] = {}
    for writer in range(manifest.parts):
        tensors |= read_tensors(part_of(folder, manifest.number, writer))[0]
    return tensors, manifest.document


def is_in_parts(path: Path) -> bool:
    """Whether there is a folder with a save that counts."""
    return (path / _MANIFEST).is_file()


def is_checkpoint(path: Path) -> bool:
    """Whether there is a file, or a folder with a save that counts."""
    return path.is_file() or is_in_parts(path)


def written_at(path: Path) -> int:
    """When a checkpoint was written, in ns."""
    return (path / _MANIFEST if path.is_dir() else path).stat().st_mtime_ns


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint, a file or a folder; of a folder first what makes it one.

    Raises:
        OSError: it is not there, or is to stay.
    """
    if not path.is_dir():
        path.unlink()
        return
    (path / _MANIFEST).unlink()
    shutil.rmtree(path, ignore_errors=True)
