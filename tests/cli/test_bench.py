"""`workbench bench`: its tables, and what it says of names it does not know."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from tests.native.one_row import kernels
from workbench.cli.app import app
from workbench.cli.bench import lowerings
from workbench.config import override


def bench(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", *arguments])
    return result.exit_code, result.output


def test_a_workload_gets_a_line_with_its_floor() -> None:
    code, output = bench("tiny", "--seconds", "0")
    assert code == 0
    assert "processors" in output and re.search(r"^BLAS +\S+ [\d.]+, kernels \w+", output, re.MULTILINE)
    assert "OPENBLAS_CORETYPE" in output
    (line,) = re.findall(r"^tiny +(.*)$", output, re.MULTILINE)
    median, best, mflop, gflops, mib, gbs, floor, reached, of_one = map(float, line.replace("%", " ").split()[:9])
    assert mflop == pytest.approx(0.32, abs=0.01) and best <= median
    assert floor == pytest.approx(mflop / gflops + mib * 1.048576 / gbs, rel=0.2)
    assert reached == pytest.approx(100 * floor / median, rel=0.1) and of_one > 0


def test_what_runs_the_steps_is_said() -> None:
    with override(cpu_tape=False):
        _, output = bench("tiny", "--seconds", "0")
    assert "steps  run in NumPy calls: FLAGS_cpu_tape is off" in output
    assert re.search(r"^tiny .* 0 native, \d+ by NumPy$", output, re.MULTILINE)


def test_a_profile_lists_kinds_of_ops_with_their_share() -> None:
    with override(cpu_tape=False):
        code, output = bench("--profile", "tiny", "--devices", "1")
    assert code == 0
    shares = {kind: float(share) for share, kind in re.findall(r"([\d.]+)% +\d+   (\S+)$", output, re.MULTILINE)}
    assert {"mul", "mul_grad", "relu"} <= shares.keys()
    assert sum(shares.values()) == pytest.approx(100, abs=1)


def test_compiled_rows_are_profiled_collectives_among_them() -> None:
    kernels()  # skips where there are none
    with override(cpu_tape=True):
        code, output = bench("--profile", "tiny")
    assert code == 0
    assert re.search(r"% +\d+   \S*mul\S*$", output, re.MULTILINE)
    assert "all_reduce" in output


@pytest.mark.parametrize("arguments", [("huge",), ("--profile", "huge"), ("tiny", "huge", "--growth")])
def test_an_unknown_workload_costs_one_line(arguments: tuple[str, ...]) -> None:
    code, output = bench(*arguments)
    assert code == 2
    assert output == "workbench bench: no workload 'huge'; there are tiny, mlp, deep, lenet, encoder\n"


def test_rows_by_numpy_are_named_where_they_are_the_exception() -> None:
    assert lowerings(34, Counter()) == "34 native, 0 by NumPy"
    assert lowerings(0, Counter(mul=3)) == "0 native, 3 by NumPy"
    assert lowerings(5, Counter(a=3, b=2)) == "5 native, 5 by NumPy (a 3, b 2)"
    assert lowerings(5, Counter(a=4, b=3, c=2, d=1)) == "5 native, 10 by NumPy (a 4, b 3, c 2, …)"


def test_coverage_has_a_row_per_program_and_tells_what_no_kernel_runs() -> None:
    kernels()
    code, output = bench("--coverage", "float64", "tiny", "--seconds", "0")
    assert code == 0
    numbers = dict(re.findall(r"^(float64|tiny) +[\d.]+ +([\d.]+%) +\d+ +\d+ ", output, re.MULTILINE))
    assert numbers == {"float64": "0.0%", "tiny": "0.0%"}
    assert re.search(r"^mul  +native: float32, float64$", output, re.MULTILINE)
    assert output.endswith("0 nodes by NumPy take over 2% of a step, in 0 of 2 programs\n")


def test_coverage_without_kernels_tells_what_numpy_runs() -> None:
    with override(cpu_tape=False):
        code, output = bench("--coverage", "tiny", "--seconds", "0")
    assert code == 0 and re.search(r"^mul  +NumPy: float32$", output, re.MULTILINE)
    assert re.search(r"^tiny +[\d.]+ +[1-9][\d.]*% ", output, re.MULTILINE)
    assert re.search(r"[1-9]\d* nodes by NumPy take over 2% of a step, in 1 of 1 programs\n$", output)


def test_coverage_of_an_unknown_program_costs_one_line() -> None:
    code, output = bench("--coverage", "huge")
    assert code == 2 and output.startswith("workbench bench: no program 'huge'; there are causal, ")
    assert output.count("\n") == 1
