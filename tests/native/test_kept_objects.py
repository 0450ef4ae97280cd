"""Object code of kernels that is kept: compiled once, anew when anything it follows from changes, or when damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.runtime.native import kept_objects
from workbench.runtime.native.kept_objects import compiled_once, objects_beside, sources_of

KERNELS = "workbench.runtime.kernels"


class Compiler:
    """Makes other code every time, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return b"code %d" % self.calls


def test_the_same_source_is_compiled_once(tmp_path: Path) -> None:
    compiler = Compiler()
    assert [compiled_once(tmp_path, source, compiler) for source in ("a", "b", "a", "b")] == [b"code 1", b"code 2"] * 2
    assert compiled_once(None, "a", compiler) == b"code 3"
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())


def test_another_compiler_or_processor_makes_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    compiled_once(tmp_path, "a", compiler)
    monkeypatch.setattr(kept_objects, "toolchain", lambda: "another one")
    assert compiled_once(tmp_path, "a", compiler) == b"code 2"


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_file_is_compiled_anew(tmp_path: Path, damage: bytes | None) -> None:
    compiler = Compiler()
    compiled_once(tmp_path, "a", compiler)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"!" if damage is None else damage)
    assert compiled_once(tmp_path, "a", compiler) == b"code 2" == compiled_once(tmp_path, "a", compiler)


def test_those_that_were_not_used_for_longest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_objects, "_MOST", 2)
    folder = objects_beside(tmp_path / "image")
    for age, source in enumerate("abc"):
        compiled_once(folder, source, Compiler())
        for path in folder.iterdir():
            os.utime(path, (age - path.stat().st_size, path.stat().st_mtime - 10))
    compiled_once(folder, "a", compiler := Compiler())  # used again
    assert compiler.calls == 0 and len(list(objects_beside(tmp_path / "image").iterdir())) == 2
    compiled_once(folder, "a", compiler)
    assert compiler.calls == 0


def test_a_module_stands_for_all_that_it_imports() -> None:
    """The sums are used by the labels, and not by pooling; words count as well."""
    labels, pooling = (sources_of(f"{KERNELS}.{name}", ["k"]) for name in ("index.labels", "conv.pooling"))
    sums = f"{KERNELS}.math.sums\n"
    assert sums in labels and sums not in pooling
    assert "workbench.runtime.words.pooling\n" in pooling
    assert sources_of(f"{KERNELS}.index.labels", ["other"]) != labels
