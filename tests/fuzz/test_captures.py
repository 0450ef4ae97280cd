"""Five hundred histories of random Python: a recorded step does what dynamic mode does. More: `fuzz.captures`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fuzz.captures import run_all
from tests.fuzz.histories import CAPTURED, DYNAMIC, LEFT_OUT, Judge
from tests.fuzz.python_cases import Case, Event, random_case
from tests.native.one_row import kernels

SEED, COUNT = 5, 500
_KEEPING = """
def capture(function):
    kept = []
    def step(*args, **named):
        if not kept:
            kept.append(function(*args, **named))
        return kept[0]
    return step
"""
_CHANGING = """
def capture(function):
    def step(*args, **named):
        if r1 == 5:
            W.set_value(np.zeros(4, 'float32'))
            raise wb.errors.Unimplemented('not this')
        return function(*args, **named)
    return step
"""
_RAISING = "def capture(function):\n    def step(*args, **named):\n        raise {}('no')\n    return step"


@pytest.fixture
def judge(tmp_path: Path, request: pytest.FixtureRequest) -> Judge:
    return Judge(tmp_path, getattr(request, "param", CAPTURED))


def _case(change: str, varies: bool = False) -> Case:
    events = [Event("call", "step(X1, Z)"), Event("global set", change), *[Event("call", "step(X1, Z)")] * 2]
    setup = (
        "W = wb.create_parameter([4], 'float32')",
        "X1 = Z = wb.ones([2, 4])",
        "import random",
    )
    line = "y = y + random.random()" if varies else "y = y * r1"
    return Case((), setup, (line,), "function", (("global", "r1", "2"),), "return y", tuple(events), (), varies)


@pytest.mark.processes
@pytest.mark.slow
def test_recorded_steps_do_what_dynamic_mode_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels()
    tally = run_all(SEED, 0, COUNT, 2, tmp_path)
    assert not tally.wrong, capsys.readouterr().out
    assert tally.verdicts.total() == COUNT
    assert tally.verdicts["equal"] > COUNT / 2 and tally.changed > COUNT / 3, str(tally)
    assert tally.verdicts["refused"] < COUNT / 3 and tally.verdicts["told later"] < COUNT / 10, str(tally)


def test_a_case_follows_from_its_numbers() -> None:
    first, again = random_case(SEED, 7, LEFT_OUT), random_case(SEED, 7, LEFT_OUT)
    assert first.source(CAPTURED) == again.source(CAPTURED) and first.events == again.events
    assert first.source(CAPTURED) != random_case(SEED, 8, LEFT_OUT).source(CAPTURED)


@pytest.mark.parametrize("judge", [CAPTURED, DYNAMIC], indirect=True)
def test_what_follows_is_equal(judge: Judge) -> None:
    assert judge.judged(_case("r1 = 5"))[::2] == ("equal", True)
    assert judge.judged(_case("r1 = 2"))[::2] == ("equal", False)


@pytest.mark.parametrize("judge", [_KEEPING], indirect=True)
def test_what_stays_old_is_wrong(judge: Judge) -> None:
    assert judge.judged(_case("r1 = 5"))[0] == "DIFFERS"
    assert judge.judged(_case("r1 = 2"))[0] == "equal"
    assert judge.judged(_case("r1 = 2", varies=True))[0] == "FROZEN"
    small = judge.smallest(_case("r1 = 5"), "DIFFERS")
    assert [event.code for event in small.events] == ["step(X1, Z)", "r1 = 5", "step(X1, Z)"]


def test_errors_are_told_apart(tmp_path: Path) -> None:
    expected = {"wb.errors.Unimplemented": "refused", "KeyError": "UNCLEAR"}
    for name, word in expected.items():
        assert Judge(tmp_path, _RAISING.format(name)).judged(_case("r1 = 5"))[0] == word
    assert Judge(tmp_path, _CHANGING).judged(_case("r1 = 5"))[0] == "CHANGED"
    assert Judge(tmp_path).judged(_case("del r1"))[0] == "both raise"
    assert not [name for name in sys.modules if name.startswith("case_")]
