"""The worked example of the contributors' page runs as printed, and its op passes the op-case harness."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops import case as harness
from workbench.framework.op import OPS

PAGE = Path(wb.__file__).parent / "CONTRIBUTING.md"


@pytest.fixture
def example() -> Iterator[dict[str, Any]]:
    """The namespace after running the page's Python blocks."""
    known = dict(OPS)
    main, startup = wb.static.Program(), wb.static.Program()
    namespace: dict[str, Any] = {}
    try:
        with wb.static.program_guard(main, startup):
            for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)):
                exec(compile(block, f"CONTRIBUTING.md block {number}", "exec"), namespace)
        yield namespace
    finally:
        wb.disable_static()
        for name in OPS.keys() - known.keys():
            del OPS[name]


def test_the_example_runs_as_printed(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert example["out"].tolist() == [[-1.0, 0.0, 0.7]]
    assert {"hard_shrink", "hard_shrink_grad"} <= OPS.keys()


def test_the_examples_case_agrees_with_its_reference(example: dict[str, Any]) -> None:
    case = example["CASE"]
    assert isinstance(case, harness.Case)
    found = OPS["hard_shrink"].forward(np, *case.inputs, **case.attrs)
    assert np.array_equal(found, case.ref(*case.inputs, **case.attrs))
