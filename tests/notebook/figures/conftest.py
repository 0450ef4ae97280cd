"""Pictures of real programs, which several files look at."""

import pytest

from tests.notebook.figures.real import Real


@pytest.fixture(scope="module")
def tiny() -> Real:
    return Real("tiny", 2)


@pytest.fixture(scope="module")
def lenet() -> Real:
    return Real("lenet", 2)
