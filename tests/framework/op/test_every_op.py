"""Every op of the library, as its case table uses it: recorded, checked, printed, saved and read back."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from tests.ops.case import Case, specs_of
from workbench.framework import names
from workbench.framework.program.guard import default_main_program, program_guard
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import problems
from workbench.framework.text.parser import parse_program
from workbench.framework.text.serialize import program_from_json, program_to_json

TESTS = Path(__file__).parents[2]
FILES = sorted(path.relative_to(TESTS) for path in (TESTS / "ops").rglob("cases_*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_op_can_be_checked_printed_and_saved(file: Path) -> None:
    cases = importlib.import_module(".".join(("tests", *file.with_suffix("").parts))).CASES
    faults = [fault for case in cases for fault in _faults(case)]
    assert not faults, "\n".join(faults)


def _faults(case: Case) -> Iterator[str]:
    with names.guard(), program_guard(Program(), Program()):
        arrays = case.arrays(case.run_dtypes()[0])
        case.op(*(_declare(f"x{i}", spec) for i, spec in enumerate(specs_of(arrays))), **case.attrs)
        program = default_main_program()
        program.all_ops()
    yield from (f"{case.label}: {problem}" for problem in problems(program))
    text, json = str(program), program_to_json(program)
    for how, read in (("text", parse_program(text)), ("JSON", program_from_json(json))):
        if str(read) != text or program_to_json(read) != json:
            yield f"{case.label}: changed by {how}"


def _declare(name: str, spec: Any) -> Any:
    if spec is None:
        return None
    if isinstance(spec, list):
        return [_declare(f"{name}_{i}", s) for i, s in enumerate(spec)]
    return default_main_program().global_block().create_var(name, spec.shape, spec.dtype, spec.kind, is_data=True)
