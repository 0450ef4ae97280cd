"""Variables whose rows lie in several parts: whoever reads gets the rows that are wanted, however they were written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.checkpoint.files import write_tensors
from workbench.checkpoint.parts import claimed, part_of
from workbench.checkpoint.pieces import Extent, SavedPiece, SavedVariables, write_pieces
from workbench.errors import InvalidArgument

ROWS = 12
TABLE = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)


def written(folder: Path, borders: list[int], order: list[int], parts: int) -> None:
    """The table in pieces between `borders`, which lie in the parts in turn; the manifest lists them in an order."""
    extents = [Extent("w", start, stop) for start, stop in zip([0, *borders], [*borders, ROWS])]
    pieces = [SavedPiece(extents[i], i % parts) for i in order]
    with claimed(folder) as number:
        for part in range(parts):
            own = {p.extent.key: TABLE[p.extent.start : p.extent.stop] for p in pieces if p.part == part}
            write_tensors(part_of(folder, number, part), own)
        write_pieces(folder, number, parts, pieces)


@given(st.data())
def test_rows_come_in_their_order_from_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    borders = sorted(data.draw(st.sets(st.integers(1, ROWS - 1), max_size=5)))
    order = data.draw(st.permutations(range(len(borders) + 1)))
    start = data.draw(st.integers(0, ROWS - 1))
    stop = data.draw(st.integers(start + 1, ROWS))
    folder = tmp_path_factory.mktemp("pieces")
    written(folder, borders, order, data.draw(st.integers(1, 3)))
    wanted = {"whole": Extent("w"), "rows": Extent("w", start, stop)}
    values = SavedVariables(folder).read(wanted)
    assert np.array_equal(values["whole"], TABLE) and np.array_equal(values["rows"], TABLE[start:stop])


def test_only_parts_with_wanted_rows_are_read(tmp_path: Path) -> None:
    written(tmp_path, [4, 8], [0, 1, 2], 3)
    part_of(tmp_path, 1, 2).write_bytes(b"damaged")
    saved = SavedVariables(tmp_path)
    assert np.array_equal(saved.read({"w": Extent("w", 2, 8)})["w"], TABLE[2:8])
    with pytest.raises(InvalidArgument, match="part"):
        saved.read({"w": Extent("w", 2, 9)})


@pytest.mark.parametrize("later", ["file", "pieces"])
def test_what_was_written_last_counts(later: str, tmp_path: Path) -> None:
    written(tmp_path, [4], [0, 1], 2)
    write_tensors(tmp_path / "w", {"w": TABLE + 100})
    manifest = (tmp_path / "manifest.json").stat().st_mtime_ns
    at = manifest + (1_000_000 if later == "file" else -1_000_000)
    os.utime(tmp_path / "w", ns=(at, at))
    expected = TABLE + 100 if later == "file" else TABLE
    assert np.array_equal(SavedVariables(tmp_path).read({"w": Extent("w")})["w"], expected)


def test_a_folder_of_the_name_of_a_variable_is_no_file_of_it(tmp_path: Path) -> None:
    written(tmp_path, [4], [0, 1], 2)
    (tmp_path / "b").mkdir()
    saved = SavedVariables(tmp_path)
    assert not saved.has("b") and saved.has("w") and saved.in_pieces() == ["w"]
