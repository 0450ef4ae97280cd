"""Steps whose threads look often for interrupts."""

from __future__ import annotations

import pytest

from workbench.executors.workers import pool, task


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads look for failures of others more often than people would notice."""
    for module in (pool, task):
        monkeypatch.setattr(module, "POLL", 0.001)
