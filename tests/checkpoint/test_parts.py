"""Several that save into one folder at a time: each save is whole, and the highest that is finished counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.checkpoint import parts
from workbench.checkpoint.locks import locked
from workbench.checkpoint.parts import LoneWriter, claimed, part_of, read_parts, write_manifest, write_tensors


def save(folder: Path, step: int) -> None:
    LoneWriter().write(folder, {"w": np.full(3, step)}, {"step": step})


def held(folder: Path) -> tuple[float, int]:
    tensors, document = read_parts(folder)
    return tensors["w"][0], document["step"]


def write_part(folder: Path, number: int) -> None:
    write_tensors(part_of(folder, number, 0), {"w": np.full(3, number)})


def finish(folder: Path, number: int) -> None:
    write_manifest(folder, number, 1, {"step": number}, {"w": 0})


def saves(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("save-*"))


def test_a_save_that_is_overtaken_leaves_the_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(*given: Any) -> None:
        monkeypatch.undo()
        save(tmp_path, 2)
        write_tensors(*given)

    monkeypatch.setattr(parts, "write_tensors", overtaken)
    save(tmp_path, 1)
    assert held(tmp_path) == (2, 2) and saves(tmp_path) == ["save-2"]


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_saves_under_way_none_removes_the_other(first: int, tmp_path: Path) -> None:
    with claimed(tmp_path) as one, claimed(tmp_path) as other:
        assert (one, other) == (1, 2)
        write_part(tmp_path, one)
        write_part(tmp_path, other)
        finish(tmp_path, first)
        assert held(tmp_path) == (first, first) and saves(tmp_path) == ["save-1", "save-2"]
        finish(tmp_path, 3 - first)
        assert held(tmp_path) == (2, 2)
    save(tmp_path, 7)
    assert held(tmp_path) == (7, 7) and saves(tmp_path) == ["save-3"]


def test_what_was_cut_short_is_removed_by_the_next_save(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), claimed(tmp_path) as number:
        write_part(tmp_path, number)
        raise KeyboardInterrupt
    assert saves(tmp_path) == ["save-1"]
    save(tmp_path, 5)
    assert held(tmp_path) == (5, 5) and saves(tmp_path) == ["save-2"]


def test_a_number_that_somebody_takes_meanwhile_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def beaten(path: Path, *given: Any, **named: Any) -> None:
        if path.name == "save-1":
            monkeypatch.undo()
            mkdir(path)
        mkdir(path, *given, **named)

    monkeypatch.setattr(Path, "mkdir", beaten)
    with claimed(tmp_path) as number:
        assert number == 2


def test_a_manifest_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "manifest.json").write_text("{")
    save(tmp_path, 2)
    assert held(tmp_path) == (2, 2) and saves(tmp_path) == ["save-2"]


def test_who_waits_for_a_folder_in_vain_is_told_so(tmp_path: Path) -> None:
    refused = pytest.raises(OSError, match="another process has been writing into")
    with locked(tmp_path), refused, locked(tmp_path, 0.0):
        pass
    with locked(tmp_path, 0.0):
        pass
