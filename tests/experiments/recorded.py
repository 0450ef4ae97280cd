"""Runs to record: a small regression whose loss falls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import workbench as wb
from tests.executors.models import Model, regression
from workbench.experiments import Run, train

ROOT = Path(__file__).resolve().parents[2]


def run_of(file: Path, steps: int = 5, model: Model | None = None, **options: Any) -> Run:
    """A run, begun, of a model of its own in a scope of its own."""
    model = regression() if model is None else model
    batches = [model.feed(i) for i in range(3)]
    asked = {"fetch": {"loss": model.loss}, "startup": model.startup, "scope": wb.static.Scope(), "record": file}
    return train(model.main, batches, steps, **{**asked, **options})


def python(code: str, **environment: str) -> subprocess.Popen[str]:
    """A Python of its own that knows the tests."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
