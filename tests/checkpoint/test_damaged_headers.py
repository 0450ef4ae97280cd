"""Files that are whole and say something else than they should: one clear error, from every reader of tensor files.

The stamp shows what happens to a file by accident. A file that another program has written, or a newer version of this
one, has a right stamp; what is in it is changed here at random, and stamped again.

    python -m tests.checkpoint.test_damaged_headers 20000
"""

from __future__ import annotations

import copy
import io
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.checkpoint.files import _DOCUMENT_LEAD, _TENSOR_AT, read_tensors, write_tensors
from workbench.checkpoint.stamp import BLANK, stamped
from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.experiments.training.saving.checkpoints import origin_of

OTHERS: list[Any] = [None, True, -1, 0, 3, 1.5, 1 << 70, "", "0", "F32", [], {}, [0, 1], ["0", "8"], {"$tensor": "no"}]


def read_header(path: Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The entries of the tensors, what we note beside them, and the bytes behind the header."""
    blob = path.read_bytes()
    end = 8 + int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:end])
    return header, json.loads(header.pop("__metadata__")["workbench"][len(BLANK) :]), blob[end:]


def write_header(path: Path, header: Any, note: Any, data: bytes) -> None:
    text = json.dumps({"__metadata__": {"workbench": f"{BLANK} {json.dumps(note)}"}, **header}, separators=(",", ":"))
    blob = len(text.encode()).to_bytes(8, "little") + text.encode() + data
    path.write_bytes(b"".join(stamped(blob, _TENSOR_AT)))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in lists and dictionaries."""
    yield at
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*at, key))


def changed(value: Any, rng: random.Random) -> Any:
    """The same with something left out, put in, or replaced."""
    value = copy.deepcopy(value)
    at = rng.choice(list(places(value)))
    if not at:
        return rng.choice(OTHERS)
    inside = value
    for key in at[:-1]:
        inside = inside[key]
    if rng.random() < 0.3:
        del inside[at[-1]]
    else:
        inside[at[-1]] = rng.choice(OTHERS)
    return value


class Files:
    """One file of every kind, and who reads it."""

    def __init__(self, folder: Path) -> None:
        with Built() as p:
            x = static.data("x", [None, 2])
            loss = wb.mean(static.nn.fc(x, 1))
            wb.optimizer.Adam(0.1).minimize(loss)
        self.main, scope, exe = p.main, static.Scope(), static.Executor()
        exe.run(p.startup, scope=scope)
        value = {"a": np.ones(2, np.float32), "b": [1.5, (2, "x")], 3: np.float32(1.0), "c": float("nan")}
        wb.save(value, str(folder / "object"))
        write_tensors(folder / "tensors", {"w": np.ones((2, 3), np.float32)}, {"x": 1})
        with static.scope_guard(scope):
            static.save(p.main, str(folder / "model"))
        batches = [{"x": np.ones((2, 2), np.float32)}] * 4
        run = wb.train(p.main, batches, steps=2, scope=scope, record=False, progress=False)
        run.wait()
        run.save(folder / "run")
        self.scope, self.batches, self.exe = scope, batches, exe
        self.readers: list[tuple[Path, Callable[[Path], Any]]] = [
            (folder / "object", lambda path: wb.load(str(path))),
            (folder / "object", lambda path: wb.load(io.BytesIO(path.read_bytes()))),
            (folder / "tensors", read_tensors),
            (folder / "model.wbparams", lambda path: self._load(path)),
            (folder / "model.wbparams", lambda path: static.load_program_state(str(path.with_suffix("")))),
            (folder / "run", origin_of),
            (folder / "run", self._resume),
        ]

    def _load(self, path: Path) -> None:
        with static.scope_guard(static.Scope()):
            static.load(self.main, str(path.with_suffix("")), self.exe)

    def _resume(self, path: Path) -> None:
        wb.train(self.main, self.batches, steps=2, scope=self.scope, checkpoint=path, record=False, progress=False)


def attempt(files: Files, rng: random.Random) -> None:
    path, read = rng.choice(files.readers)
    before = path.read_bytes()
    header, note, data = read_header(path)
    for _ in range(rng.choice([1, 1, 2])):
        which = rng.random()
        if which < 0.6:
            note = changed(note, rng)
        else:
            header = changed(header, rng)
            header = header if isinstance(header, dict) else {}
    try:
        write_header(path, header, note, data)
        with suppress(EnforceNotMet):
            read(path)
    finally:
        path.write_bytes(before)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def test_every_reader_reads_what_was_written(files: Files) -> None:
    for path, read in files.readers:
        header, note, data = read_header(path)
        write_header(path, header, note, data)
        read(path)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_changed_is_refused_clearly_or_read(files: Files, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        attempt(files, rng)


@pytest.mark.parametrize(
    ("note", "says"),
    [
        ({"version": 1}, "its metadata is an object, got none"),
        ({"version": 1, "metadata": [1]}, "its metadata is an object, got a list"),
        ({"metadata": {}}, "has format version None"),
        ([], "has format version None"),
    ],
)
def test_a_tensor_file_without_metadata(tmp_path: Path, note: Any, says: str) -> None:
    path = tmp_path / "w"
    write_tensors(path, {"w": np.ones(2, np.float32)})
    header, _, data = read_header(path)
    write_header(path, header, note, data)
    with pytest.raises(InvalidArgument, match=r"w (is not a workbench tensor file|has format version)") as caught:
        read_tensors(path)
    assert says in str(caught.value)


@pytest.mark.parametrize("offsets", [["0", "8"], [0, "8"], [0, 1 << 70], [0, -100], [], None, {"1": 8}])
def test_offsets_that_are_none(tmp_path: Path, offsets: Any) -> None:
    path = tmp_path / "w"
    write_tensors(path, {"w": np.ones(2, np.float32)})
    header, note, data = read_header(path)
    header["w"]["data_offsets"] = offsets
    write_header(path, header, note, data)
    for source in (path, io.BytesIO(path.read_bytes())):
        with pytest.raises(InvalidArgument):
            read_tensors(source)


def test_a_document_without_content(tmp_path: Path) -> None:
    path = tmp_path / "document"
    blob = _DOCUMENT_LEAD + f'{BLANK}", "kind": "program", "version": 1}}\n'.encode()
    path.write_bytes(b"".join(stamped(blob, len(_DOCUMENT_LEAD))))
    with pytest.raises(InvalidArgument, match="'program' document without content"):
        wb.load(str(path))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        some, chance = Files(Path(name)), random.Random(0)
        for _ in range(int(sys.argv[1])):
            attempt(some, chance)
    print(f"{sys.argv[1]} changed files: refused clearly, or read")
