"""Variables in a folder, each in a file of its name or in pieces: which rows of it lie in which part of a checkpoint.

    folder/w                               a file for a variable, as `model_folder` writes them
    folder/manifest.json, folder/save-3/…  pieces, see `parts`; who reads them need not know how many wrote them

Of a variable that is there both ways, what was written last counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.checkpoint.atomic import file_inside
from workbench.checkpoint.files import read_tensors
from workbench.checkpoint.parts import is_in_parts, part_of, read_manifest, write_manifest, written_at
from workbench.errors import InvalidArgument

_PIECES = "pieces"


class Extent(NamedTuple):
    """Rows `start` to `stop` of a variable; all of it if `stop` is None."""

    variable: str
    start: int = 0
    stop: int | None = None

    @property
    def key(self) -> str:
        """What it is called in a part."""
        return self.variable if self.stop is None else f"{self.variable}[{self.start}:{self.stop}]"


class SavedPiece(NamedTuple):
    """An extent of a variable, and the number of the part it lies in."""

    extent: Extent
    part: int


def write_pieces(folder: Path, number: int, parts: int, pieces: Iterable[SavedPiece]) -> None:
    """Make a save, whose parts are all on the disk, the one that counts; see `parts.write_manifest`."""
    listed = list(pieces)
    document = {_PIECES: [[*piece.extent, piece.part] for piece in listed]}
    write_manifest(folder, number, parts, document, {piece.extent.key: piece.part for piece in listed})


class SavedVariables:
    """What a folder has of variables.

    Raises:
        InvalidArgument: its manifest is damaged, or one of something else.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._number, self._written = folder, 0, -1
        self._pieces: defaultdict[str, list[SavedPiece]] = defaultdict(list)
        if is_in_parts(folder):
            manifest = read_manifest(folder)
            self._number, self._written = manifest.number, written_at(folder)
            for piece in _pieces_in(folder, manifest.document):
                self._pieces[piece.extent.variable].append(piece)

    def has(self, variable: str) -> bool:
        """Whether there is something of a variable."""
        return variable in self._pieces or self._has_file(variable)

    def in_pieces(self) -> list[str]:
        """The variables of the manifest."""
        return list(self._pieces)

    def read(self, wanted: Mapping[str, Extent]) -> dict[str, np.ndarray]:
        """Values, by the names they are wanted under; what is not there is left out. One part at a time is in memory.

        Raises:
            InvalidArgument: a damaged file. OSError: one cannot be read.
        """
        in_files = {name: extent for name, extent in wanted.items() if self._has_file(extent.variable)}
        rest = {name: extent for name, extent in wanted.items() if name not in in_files}
        return dict(self._of_files(in_files)) | self._of_pieces(rest)

    def _has_file(self, variable: str) -> bool:
        path = file_inside(self._folder, variable)
        return path.is_file() and path.stat().st_mtime_ns > self._written

    def _of_files(self, wanted: Mapping[str, Extent]) -> Iterator[tuple[str, np.ndarray]]:
        for variable in {extent.variable for extent in wanted.values()}:
            array = read_tensors(file_inside(self._folder, variable))[0].get(variable)
            for name, extent in wanted.items():
                if array is not None and extent.variable == variable:
                    yield name, _of_whole(array, extent)

    def _of_pieces(self, wanted: Mapping[str, Extent]) -> dict[str, np.ndarray]:
        rows: defaultdict[str, list[tuple[int, np.ndarray]]] = defaultdict(list)
        needed = [
            (piece, name, extent)
            for name, extent in wanted.items()
            for piece in self._pieces.get(extent.variable, ())
            if _meet(piece.extent, extent)
        ]
        for part in sorted({piece.part for piece, _, _ in needed}):
            path = part_of(self._folder, self._number, part)
            tensors = read_tensors(path)[0]
            for piece, name, extent in needed:
                if piece.part == part:
                    array = tensors.get(piece.extent.key)
                    if array is None:
                        raise InvalidArgument(f"{path} has no {piece.extent.key!r}, which the manifest says it has")
                    rows[name].append((piece.extent.start, _of_piece(array, piece.extent, extent)))
        return {name: _joined(parts) for name, parts in rows.items()}


def _pieces_in(folder: Path, document: object) -> Iterator[SavedPiece]:
    try:
        for variable, start, stop, part in document[_PIECES]:  # type: ignore[index]
            known = type(variable) is str and type(start) is int and type(part) is int
            if not known or not (stop is None or type(stop) is int):
                raise ValueError(f"a piece {[variable, start, stop, part]}")
            yield SavedPiece(Extent(variable, start, stop), part)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{folder} holds a checkpoint, but not one of variables in pieces: {error}") from None


def _meet(held: Extent, wanted: Extent) -> bool:
    """Whether two extents of one variable have rows in common."""
    if held.stop is None or wanted.stop is None:
        return True
    return max(held.start, wanted.start) < min(held.stop, wanted.stop)


def _of_piece(array: np.ndarray, held: Extent, wanted: Extent) -> np.ndarray:
    """The rows of a piece that are wanted; they keep nothing else of it in memory."""
    if held.stop is None:
        return _of_whole(array, wanted)
    start, stop = max(held.start, wanted.start), held.stop if wanted.stop is None else min(held.stop, wanted.stop)
    return np.array(array[start - held.start : stop - held.start])


def _of_whole(array: np.ndarray, wanted: Extent) -> np.ndarray:
    return array if wanted.stop is None else np.array(array[wanted.start : wanted.stop])


def _joined(parts: list[tuple[int, np.ndarray]]) -> np.ndarray:
    """Rows in their order, those of the lowest piece first."""
    arrays = [array for _, array in sorted(parts, key=lambda part: part[0])]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
