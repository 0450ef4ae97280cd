"""Every test of the framework has the toy ops, fresh default programs, fresh name counters and static mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.framework.toys import toys_declared
from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program


@pytest.fixture(autouse=True)
def framework() -> Iterator[None]:
    with toys_declared(), names.guard(), program_guard(Program(), Program()), static_mode():
        yield
