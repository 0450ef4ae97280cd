"""Every rule of the engine and every row of its table of traps has a test named after it, which runs and can fail.

The rules are those of sections 3 to 7 of the description of the real engine, with the table of role makers, and the
traps those of section 10.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.assertions import Helper, skips, suite

TESTS = Path(__file__).parents[2]
FOLDERS = ("parallel", "graph", "executors", "runtime", "servers", "processes")

RULES = {
    "x": [*range(9), *range(10, 28), *range(30, 33), *range(40, 48), *range(50, 55), 60, 61],
    "g": [1, 2, *range(10, 19), 20, 21, *range(30, 34), *range(40, 44), *range(50, 56)],
    "b": [1, 2, *range(10, 15)],
    "c": [*range(1, 9)],
    "t": [*range(1, 13), 20, 21, *range(30, 34)],
    "f": [*range(1, 7), *range(10, 16)],
    "trap": [*range(1, 30), *range(34, 39)],  # 30 to 33 are about what comes later, see test_traps.py
}
ROLE_MAKERS = (
    "role_maker_base", "user_defined_role_maker", "user_defined_collective_role_maker", "paddle_cloud_role_maker",
    "paddle_cloud_role_maker_collective", "general_role_maker", "mpi_role_maker", "mpi_symetric_role_maker",
    "fleet_init", "fleet_split_files",
)  # fmt: skip


@cache
def named_tests() -> tuple[Helper, ...]:
    """All functions of the engine's tests that are named like tests."""
    folders = tuple(f"tests.{folder}." for folder in FOLDERS)
    return tuple(test for test in suite().tests if test.module.startswith(folders))


@pytest.fixture(scope="module", autouse=True)
def _let_go() -> Iterator[None]:
    """The syntax trees of all tests would slow every garbage collection of the tests that come after."""
    yield
    named_tests.cache_clear()
    suite.cache_clear()


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> frozenset[str]:
    """The names of the test functions that pytest finds and does not leave out."""
    here = request.session.items
    files = {file for folder in FOLDERS for file in (TESTS / folder).rglob("test_*.py")}
    if files <= {item.path for item in here}:
        return frozenset(item.name.partition("[")[0] for item in here if item.path in files)
    call = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:nbval", "-p", "no:cacheprovider",
            "-o", "addopts=--import-mode=importlib", *(f"tests/{folder}" for folder in FOLDERS)]  # fmt: skip
    listed = subprocess.run(call, cwd=TESTS.parent, capture_output=True, text=True, timeout=250, check=True).stdout
    return frozenset(line.partition("[")[0].rpartition("::")[2] for line in listed.splitlines() if "::" in line)


def is_named(rule: str, number: int, name: str) -> bool:
    """Whether a test is named after a rule: `test_x_10_x_11_...`, `test_x12_...`, `test_trap_02_...`."""
    return re.search(rf"_{rule}_?0*{number}(?=\D|$)", name) is not None


@pytest.mark.parametrize(("rule", "number"), [(rule, n) for rule, numbers in RULES.items() for n in numbers])
def test_it_has_a_test_that_runs_and_can_fail(rule, number, collected):
    require_one([test for test in named_tests() if is_named(rule, number, test.name.lower())], collected)


@pytest.mark.parametrize("row", ROLE_MAKERS)
def test_a_row_of_the_table_of_role_makers_has_a_test_that_runs_and_can_fail(row, collected):
    require_one([test for test in named_tests() if test.name.startswith(f"test_{row}_")], collected)


def require_one(named, collected):
    """One of these tests runs and can fail."""
    assert named, "no test is named after it"
    there = [test for test in named if test.name in collected]
    assert there, f"pytest finds none of {named}"
    assert any(test in suite().asserting and not skips(test.node) for test in there), f"{there} assert nothing"


def test_names_are_taken_by_their_whole_number():
    assert is_named("x", 1, "test_x_1_signature") and is_named("x", 12, "test_x12_x32_refused")
    assert is_named("x", 32, "test_x12_x32_refused") and is_named("trap", 2, "test_trap_02")
    assert not is_named("x", 1, "test_x_12_chunks") and not is_named("x", 2, "test_x_12_chunks")


def test_no_test_is_named_after_a_rule_that_does_not_exist():
    known = {(rule, number) for rule, numbers in RULES.items() for number in numbers}
    for test in named_tests():
        for rule, number in re.findall(r"_(x|g|b|c|t|f|trap)_?(\d+)(?=_|[a-z]?_)", test.name.lower()):
            assert (rule, int(number)) in known, test
