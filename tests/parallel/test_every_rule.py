"""Every rule of the engine and every row of its table of traps has a test named after it.

The rules are those of sections 3 to 6 of the description of the real engine, and the traps those of section 10.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FOLDERS = ("parallel", "graph", "executors", "runtime")

RULES = {
    "x": [*range(9), *range(10, 28), *range(30, 33), *range(40, 48), *range(50, 55), 60, 61],
    "g": [1, 2, *range(10, 19), 20, 21, *range(30, 34), *range(40, 44), *range(50, 56)],
    "b": [1, 2, *range(10, 15)],
    "c": [*range(1, 9)],
    "trap": [*range(1, 30), *range(34, 39)],  # 30 to 33 are about what comes later, see test_traps.py
}


@cache
def test_names() -> frozenset[str]:
    """The names of all test functions of the engine."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in (TESTS / folder).rglob("*.py"):
            tree = ast.parse(path.read_text())
            found.update(node.name.lower() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


test_names.__test__ = False  # type: ignore[attr-defined]


def is_named(rule: str, number: int, name: str) -> bool:
    """Whether a test is named after a rule: `test_x_10_x_11_...`, `test_x12_...`, `test_trap_02_...`."""
    return re.search(rf"_{rule}_?0*{number}(?=\D|$)", name) is not None


@pytest.mark.parametrize(("rule", "number"), [(rule, n) for rule, numbers in RULES.items() for n in numbers])
def test_it_has_a_test(rule, number):
    assert any(is_named(rule, number, name) for name in test_names())


def test_names_are_taken_by_their_whole_number():
    assert is_named("x", 1, "test_x_1_signature") and is_named("x", 12, "test_x12_x32_refused")
    assert is_named("x", 32, "test_x12_x32_refused") and is_named("trap", 2, "test_trap_02")
    assert not is_named("x", 1, "test_x_12_chunks") and not is_named("x", 2, "test_x_12_chunks")


def test_no_test_is_named_after_a_rule_that_does_not_exist():
    known = {(rule, number) for rule, numbers in RULES.items() for number in numbers}
    for name in test_names():
        for rule, number in re.findall(r"_(x|g|b|c|trap)_?(\d+)(?=_|[a-z]?_)", name):
            assert (rule, int(number)) in known, name
