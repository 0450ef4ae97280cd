"""Five hundred mutants of programs: the tape does what calls do, or both say clearly why not. More: `fuzz.programs`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.both import Outcome, _verdict, mutant
from tests.fuzz.programs import WRONG, run_all, table
from tests.native.one_row import kernels

SEED, COUNT = 13, 500


@pytest.mark.processes
@pytest.mark.slow
def test_mutants_do_the_same_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels()
    counts = run_all(SEED, 0, COUNT, 2, tmp_path)
    assert not any(counts[word] for word in WRONG), capsys.readouterr().out
    assert counts.total() == COUNT
    ran = Counter({word: count for word, count in counts.items() if word.startswith("equal")})
    assert ran.total() > COUNT / 3 and ran["equal, in kernels"] > COUNT / 6, table(counts)


def test_a_mutant_follows_from_its_numbers() -> None:
    first, again = mutant(SEED, 7), mutant(SEED, 7)
    assert (first.source, first.done, first.numbers) == (again.source, again.done, again.numbers)


def test_what_differs_is_told() -> None:
    import numpy as np

    example = mutant(SEED, 0)
    x, y = np.arange(3.0), np.float64([0, 1, 2.001])
    failed = Outcome(None, ValueError("no"))
    assert _verdict(example, {}, [], Outcome({"x": x}), failed)[0] == "DISAGREE"
    assert _verdict(example, {}, [], failed, failed)[0] == "UNCLEAR"
    assert _verdict(example, {}, [], Outcome({"x": x}), Outcome({"x": x}))[0].startswith("equal")
    assert _verdict(example, {}, [], Outcome({"x": x}), Outcome({"x": y}))[0] != "equal, by calls alone"
