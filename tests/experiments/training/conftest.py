"""A small model to train, and both ways of sharing updates among devices."""

from __future__ import annotations

import pytest

from tests.executors.models import Model, regression


@pytest.fixture(params=["AllReduce", "Reduce"])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model() -> Model:
    return regression()
