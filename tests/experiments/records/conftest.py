"""A file for runs, and recorders that do not wait long for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.experiments.records import recorder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "made for it" / "runs.sqlite"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PERIOD", 0.02)
    monkeypatch.setattr(recorder, "LAST_TRY", 0.2)
    monkeypatch.setattr("workbench.experiments.records.runs_file.BUSY_S", 0.05)
