"""An op that takes as long as a test wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parallel.threads.slow import Slow
from workbench.framework.op.record import OPS


@pytest.fixture
def slow() -> Iterator[Slow]:
    yield Slow()
    for name in {"slow", "slow_grad"} & OPS.keys():
        del OPS[name]
