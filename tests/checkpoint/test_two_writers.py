"""Two processes that save to one place at once: whoever reads finds the whole of one of them, never some of both."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.checkpoint.parts import read_parts

pytestmark = pytest.mark.processes

SAVES = 40
_WRITER = """
import sys
from pathlib import Path
import numpy as np
import workbench as wb
from workbench.checkpoint.parts import LoneWriter
kind, path, own = sys.argv[1], sys.argv[2], float(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for k in range(SAVES):
    tensors = {f"w{i}": np.full(3000, own + k / 1000, np.float64) for i in range(8)}
    if kind == "file":
        wb.save({**tensors, "by": own, "k": k}, path)
    else:
        LoneWriter().write(Path(path), tensors, {"by": own, "k": k})
"""


def read_file(path: Path) -> tuple[dict[str, np.ndarray], float, int]:
    value = wb.load(str(path), return_numpy=True)
    return {name: value[name] for name in value if name.startswith("w")}, value["by"], value["k"]


def read_folder(path: Path) -> tuple[dict[str, np.ndarray], float, int]:
    tensors, document = read_parts(path)
    return tensors, document["by"], document["k"]


@pytest.mark.parametrize(("kind", "read"), [("file", read_file), ("folder", read_folder)], ids=["file", "folder"])
def test_a_reader_finds_the_whole_of_one_writer(kind: str, read: object, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    script = _WRITER.replace("SAVES", str(SAVES))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, kind, str(path), own],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for own in ("1", "2")
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    seen, deadline = set(), time.monotonic() + 60
    while any(writer.poll() is None for writer in writers) and time.monotonic() < deadline:
        if path.exists():
            seen.add(_looked_at(read, path))
    for writer in writers:
        _, said = writer.communicate(timeout=60)
        assert writer.returncode == 0, said
    last = _looked_at(read, path)
    assert last is not None and last[1] == SAVES - 1
    assert len(seen - {None}) > 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def _looked_at(read: object, path: Path) -> tuple[float, int] | None:
    """Whose save it is and which one; None of a folder that is replaced while it is read, which is said."""
    assert callable(read)
    try:
        tensors, by, k = read(path)
    except (OSError, wb.errors.InvalidArgument):
        assert path.is_dir()
        return None
    values = {float(value) for array in tensors.values() for value in array}
    assert len(tensors) == 8 and values == {by + k / 1000}
    return by, k
