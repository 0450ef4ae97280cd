"""The example of the README: two trainers, started as it says, compute the bits of two devices in one process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.ranks import ROOT, ending_with_us, environment, require_mpi

LIMIT = 150  # seconds on a machine that is busy


@pytest.mark.processes
def test_the_example_prints_the_same_in_one_process_and_in_two(tmp_path: Path) -> None:
    require_mpi()
    (script,) = re.findall(r"As `trainers.py`:\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "trainers.py").write_text(script)
    told = []
    for way in ([], ["-m", "workbench", "launch", "-n", "2"]):
        command = ending_with_us([sys.executable, *way, "trainers.py"])
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == 0, done.stderr
        told += re.findall(r"\b[0-9a-f]{64}$", done.stdout, re.MULTILINE)
    assert len(told) == 3 and len(set(told)) == 1, told
