"""A model whose words are fed in batches of any length."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parallel.models import Model
from tests.planning.zoo import ZOO
from workbench.executors.planning.filled_plan import FilledPlan


@pytest.fixture
def words() -> tuple[Model, Any]:
    """A program that has run with many shapes, the last of which was filled in."""
    animal = ZOO["words"]
    model = animal.model().start()
    exe = model.parallel(1)
    for shape in [(8, 5), (9, 6), (10, 7), (11, 8), (12, 9)]:
        exe.run([model.loss], feed=animal.feed(*shape))
    assert type(exe.inspection.last.plan) is FilledPlan
    return model, exe
