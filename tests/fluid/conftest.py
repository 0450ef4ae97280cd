"""Programs of 1.x: static, each with fresh default programs, names and scope."""

from collections.abc import Iterator

import pytest

import workbench as wb
import workbench.fluid as fluid


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    wb.enable_static()
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield
    wb.disable_static()
