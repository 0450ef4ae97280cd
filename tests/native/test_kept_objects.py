"""Object code of kernels that is kept: compiled once, anew when anything it follows from changes, or when damaged."""

from __future__ import annotations

import os
import subprocess
import sys
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


def test_what_compiles_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides how kernels are given their arguments: code of before would take them for others."""
    compiler, text = Compiler(), kept_objects._text
    compiled_once(tmp_path, "a", compiler)
    monkeypatch.setattr(kept_objects, "_text", lambda name: text(name) + "# edited" * name.endswith(".native.build"))
    assert compiled_once(tmp_path, "a", compiler) == b"code 2"


def test_without_room_it_is_compiled_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    assert compiled_once(tmp_path / "gone", "a", compiler) == b"code 1"
    (tmp_path / "objects").write_bytes(b"")  # where the folder would be
    assert objects_beside(tmp_path / "image") is None


_RACE = """
import random, sys
from pathlib import Path
from workbench.runtime.native import kept_objects
kept_objects._MOST = 5
for _ in range(300):
    source = str(random.randrange(12))
    code = source.encode() * 2000
    folder = kept_objects.objects_beside(Path(sys.argv[1]))
    assert kept_objects.compiled_once(folder, source, lambda: code) == code
"""


def test_several_processes_share_the_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RACE, str(tmp_path / "image")]
    assert [process.wait() for process in [subprocess.Popen(command) for _ in range(3)]] == [0, 0, 0]


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
    assert folder is not None
    for age, source in enumerate("abc"):
        compiled_once(folder, source, Compiler())
        for path in folder.iterdir():
            os.utime(path, (age - path.stat().st_size, path.stat().st_mtime - 10))
    compiled_once(folder, "a", compiler := Compiler())  # used again
    assert compiler.calls == 0 and objects_beside(tmp_path / "image") == folder
    assert len(list(folder.iterdir())) == 2
    compiled_once(folder, "a", compiler)
    assert compiler.calls == 0


def test_a_module_stands_for_all_that_it_imports() -> None:
    """The sums are used by the labels, and not by pooling; words count as well."""
    labels, pooling = (sources_of(f"{KERNELS}.{name}", ["k"]) for name in ("index.labels", "conv.pooling"))
    sums = f"{KERNELS}.math.sums\n"
    assert sums in labels and sums not in pooling
    assert "workbench.runtime.words.pooling\n" in pooling
    assert sources_of(f"{KERNELS}.index.labels", ["other"]) != labels
