"""The mutation command on a small package, and on one fault of ours."""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.mutation import choice
from tests.mutation.__main__ import ROOT, main
from tests.mutation.areas import AREAS, Area
from tests.mutation.changes import changes, replaced
from tests.mutation.known import EQUIVALENT, NAMED, Equivalent, Named

Patch = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]

CODE = '''
def clamp(x, low, high):
    """x, but within bounds; a docstring says 1 + 1."""
    if x < low:
        return low
    return min(x, high)


def loop(n):
    while n > 0:
        n = n - 1
    return n


class Counter:
    def __init__(self):
        self.seen = []

    def count(self, what):
        self.seen.append(what)
        return len(self.seen)

    def __repr__(self):
        return f"{1 + 1} seen"
'''
TESTS = """
from workbench.numbers import Counter, clamp, loop

def test_clamp():
    assert clamp(5, 0, 3) == 3 and clamp(-2, 0, 3) == 0 and clamp(1, 0, 3) == 1

def test_loop():
    assert loop(3) == 0

def test_count():
    assert Counter().count("x")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package with a test for all of it."""
    for folder, name, text in (("workbench", "numbers.py", CODE), ("tests", "test_numbers.py", TESTS)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "workbench" / "__init__.py").touch()
    return tmp_path


def area(count: int = 0) -> tuple[Area, ...]:
    return (Area("numbers", ("clamp", "Counter"), ("tests/test_numbers.py",), count),)


def named(monkeypatch: Patch, *known: Named) -> None:
    monkeypatch.setattr(choice, "NAMED", known)


# Making faults


def test_faults_are_single_nodes_of_functions_and_nothing_else() -> None:
    source = CODE.encode()
    faults = {(c.function, c.rule, c.before, c.after) for c in changes(source)}
    assert {
        ("clamp", "condition negated", "x < low", "not (x < low)"),
        ("clamp", "guard dropped", "x < low", "False"),
        ("clamp", "comparison swapped", "x < low", "x <= low"),
        ("clamp", "opposite taken", "min(x, high)", "max(x, high)"),
        ("loop", "plus / minus swapped", "n - 1", "n + 1"),
        ("loop", "off by one", "0", "1"),
        ("Counter.count", "statement dropped", "self.seen.append(what)", "pass"),
    } <= faults
    assert not [f for f in faults if "__repr__" in f[0] or "docstring" in f[2]]
    for change in changes(source):
        changed = change.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), change
        assert change.text in changed.decode()


def test_a_fault_is_the_same_wherever_its_function_stands() -> None:
    keys = [change.key for change in changes(CODE.encode())]
    moved = [change.key for change in changes(f"# ä line more\nimport os\n{CODE}".encode())]
    assert keys == moved and len(set(keys)) == len(keys)


def test_a_named_fault_is_found_however_it_is_written() -> None:
    source = textwrap.dedent("""
        def f(a, b):
            é = "ü"; g(a,
                b)
            return [a , b]
    """).encode()
    (dropped,) = replaced(source, "f", "g(a, b)", "pass")
    assert dropped.apply(source).decode().splitlines()[2:4] == ['    é = "ü"; pass', "    return [a , b]"]
    (other,) = replaced(source, "f", "[a, b]", "[b, a]")
    assert "return ([b, a])" in other.apply(source).decode()


# Ours


def test_all_areas_and_named_faults_are_found_in_the_sources() -> None:
    """A LookupError here names what `areas.py` or `known.py` have to call otherwise."""
    mutants = choice.choose(ROOT, AREAS, "0")
    assert len(mutants) >= 80 and len({(m.area, m.change.key) for m in mutants}) == len(mutants)
    assert sorted(m.name for m in mutants if m.name) == sorted(known.name for known in NAMED)
    assert Counter(m.area for m in mutants).keys() == {area.name for area in AREAS}
    assert min(Counter(m.area for m in mutants).values()) >= 10
    assert [m for m in mutants if m.source == (ROOT / m.path).read_bytes()] == []
    tests = {name for area in AREAS for name in area.tests}
    assert sorted(name for name in tests if not (ROOT / name).is_file()) == []


def test_what_is_explained_can_be_done() -> None:
    """An explanation whose code has gone goes, too."""
    faults = [change for area in AREAS for path in area.sources(ROOT) for change in changes((ROOT / path).read_bytes())]
    assert [known for known in EQUIVALENT if not any(map(known.is_about, faults))] == []
    assert all(len(e.reason.split()) > 4 for e in EQUIVALENT)


def test_another_seed_chooses_other_faults() -> None:
    chosen = [{m.change.key for m in choice.choose(ROOT, AREAS[:1], seed)} for seed in ("0", "0", "1")]
    assert chosen[0] == chosen[1] != chosen[2]


@pytest.mark.processes
def test_one_of_ours_is_noticed(capfd: Captured) -> None:
    name = "what is fed for the scope may be written over"
    tests = ["--tests", "tests/parallel/steps/test_fed_persistables.py"]
    assert main(["--only", name, "--jobs", "1", *tests], areas=AREAS[:1]) == 0
    assert "killed: tests/parallel/steps/test_fed_persistables.py::test_what_was_fed" in capfd.readouterr().out


# Running


@pytest.mark.processes
def test_the_table_tells_who_noticed_what(tree: Path, monkeypatch: Patch, capfd: Captured) -> None:
    named(
        monkeypatch,
        Named("low is ignored", "numbers", "clamp", "x < low", "False"),
        Named("nothing is counted", "numbers", "count", "self.seen.append(what)"),
        Named("twice is counted", "numbers", "Counter.count", "len(self.seen)", "2 * len(self.seen)"),
        Named("the process dies", "numbers", "loop", "n > 0", "__import__('os')._exit(7)"),
    )
    (tree / "tests" / "test_other.py").write_text("def test_nobody_asked_for(): assert False")
    kept = {path: path.read_bytes() for path in tree.rglob("*.py")}
    assert main(["--jobs", "2"], tree, area()) == 1
    told = capfd.readouterr().out
    lines = told.splitlines()
    verdicts = {a.split('"')[1]: b.strip() for a, b in pairwise(lines) if '"' in a and "/" in a}
    assert verdicts == {
        "low is ignored": "killed: tests/test_numbers.py::test_clamp",
        "nothing is counted": "killed: tests/test_numbers.py::test_count",
        "twice is counted": "survived: 1 tests pass",
        "the process dies": "killed: tests/test_numbers.py::test_loop, crashed (status 7)",
    }
    assert "4 faults in" in told and "1 survived" in told
    assert {path: path.read_bytes() for path in tree.rglob("*.py")} == kept


@pytest.mark.processes
def test_what_goes_on_for_ever_is_killed(tree: Path, monkeypatch: Patch, capfd: Captured) -> None:
    notes = tree / "processes"
    endless = f"__import__('os').makedirs(f'{notes}/{{__import__(\"os\").getpid()}}', exist_ok=True) or n"
    named(monkeypatch, Named("for ever", "numbers", "loop", "n - 1", endless))
    monkeypatch.setattr("tests.mutation.__main__._PATIENCE", 6.0)
    assert main(["--jobs", "1"], tree, area()) == 0
    assert "did not come to an end" in capfd.readouterr().out
    assert [note.name for note in notes.glob("*") if Path("/proc", note.name).exists()] == []


@pytest.mark.processes
def test_what_is_explained_is_not_tried(tree: Path, monkeypatch: Patch, capfd: Captured) -> None:
    named(monkeypatch)
    monkeypatch.setattr(choice, "_PER_FUNCTION", 9)
    assert main(["--only", "clamp"], tree, area(40)) == 1
    assert "clamp: x < low  ->  x <= low: 1 tests pass" in capfd.readouterr().out
    monkeypatch.setattr(choice, "EQUIVALENT", tuple(
        Equivalent(c.function, c.before, c.after, "a reason of its own", c.number) for c in changes(CODE.encode())
    ))  # fmt: skip
    assert main(["--only", "clamp"], tree, area(40)) == 0
    assert "explained: a reason of its own" in capfd.readouterr().out


@pytest.mark.processes
def test_tests_that_fail_anyway_are_told_first(tree: Path, monkeypatch: Patch, capfd: Captured) -> None:
    named(monkeypatch)
    (tree / "tests" / "test_numbers.py").write_text(TESTS + "\n    assert False\n")
    assert main(["--jobs", "1"], tree, area(3)) == 2
    assert "without any fault tests/test_numbers.py::test_count fails" in capfd.readouterr().out


def test_a_name_that_is_gone_is_told(tree: Path, monkeypatch: Patch) -> None:
    named(monkeypatch, Named("x", "numbers", "clamp", "x <= low", "True"))
    with pytest.raises(LookupError, match=r"'x': 'x <= low' stands nowhere in a function 'clamp'"):
        choice.choose(tree, area(), "0")
    named(monkeypatch)
    with pytest.raises(
        LookupError, match="area 'numbers' holds 'gone', which one module should define; found: nowhere"
    ):
        choice.choose(tree, (Area("numbers", ("gone",), ()),), "0")


def test_nothing_of_that_name(tree: Path, capsys: Captured) -> None:
    assert main(["--only", "no such thing"], tree, ()) == 2
    assert "nothing is called no such thing" in capsys.readouterr().err
