"""Where values lie: results of ops that are no views lie row by row, in the serial executor as in planned buffers."""

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import same_numbers
from workbench import static
from workbench.executors.api.parallel import ParallelExecutor
from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program

X = np.random.default_rng(4).standard_normal((64, 37, 11)).astype("float32")


@pytest.fixture
def fetched() -> tuple[Program, list[str]]:
    """Sums over what became of a transposed view; NumPy alone would let the products follow its layout."""
    program = Program()
    with names.guard(), program_guard(program, Program()), static_mode():
        x = static.data("x", list(X.shape), "float32")
        turned = wb.transpose(x, [2, 0, 1]) * 1.7
        sums = [wb.sum(turned, axis=[0]), wb.sum(turned, axis=[1, 2]), wb.mean(turned)]
    return program, [s.name for s in sums]


def expected() -> list[np.ndarray]:
    turned = np.ascontiguousarray(X.transpose(2, 0, 1)) * np.float32(1.7)
    return [turned.sum(axis=0), turned.sum(axis=(1, 2)), turned.sum().reshape(1) / np.float32(turned.size)]


@pytest.mark.usefixtures("reference")
def test_serial_sums_of_transposed_values(fetched: tuple[Program, list[str]]) -> None:
    program, names_ = fetched
    for got, want in zip(static.Executor().run(program, feed={"x": X}, fetch_list=names_), expected(), strict=True):
        assert np.array_equal(got, want)


@pytest.mark.usefixtures("lowering")
def test_planned_sums_of_transposed_values(fetched: tuple[Program, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "1")
    program, names_ = fetched
    parallel = ParallelExecutor(use_cuda=False, main_program=program)
    for got, want in zip(parallel.run(fetch_list=names_, feed={"x": X}), expected(), strict=True):
        same_numbers(got, want)
