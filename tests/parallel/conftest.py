"""Static mode for every test of several devices."""

from collections.abc import Iterator

import pytest

import workbench as wb


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()
