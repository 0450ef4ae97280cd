"""A case that ends its process, or never ends, is told with its number; those behind it are run all the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import batches

WORKER = """
import json, os, sys, time
first, count = int(sys.argv[2]), int(sys.argv[3])
for i in range(first, first + count):
    print(json.dumps({"begins": i}), flush=True)
    if i == 3:
        os.kill(os.getpid(), 11)
    if i == 5:
        time.sleep(600)
    print(json.dumps({"index": i, "verdict": "equal", "done": []}), flush=True)
"""


@pytest.mark.processes
def test_the_rest_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setattr(batches, "PATIENCE", 3.0)
    worker = [sys.executable, str(tmp_path / "worker.py")]
    verdicts = [(line["index"], line["verdict"]) for line in batches.run_batch(worker, 0, 0, 8)]
    wrong = {3: "CRASH", 5: "HANG"}
    assert verdicts == [(i, wrong.get(i, "equal")) for i in range(8)]
