"""Static mode over a program of its own, for tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program


@pytest.fixture
def static() -> Iterator[Program]:
    """Static mode over a fresh program with fresh names."""
    program = Program()
    with names.guard(), program_guard(program, Program()), static_mode():
        yield program
