"""Kernels of row programs on a simulated GPU, against their NumPy forms in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.ops  # fills the table of programs
from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.launch import Launch
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.rows import DeviceRows, rows_kernel, team_for
from workbench.framework.rows.arrays import numpy_form
from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES, RowKernel
from workbench.framework.rows.program import ROW_PROGRAMS, Operand
from workbench.framework.rows.recording import Per
from workbench.framework.values.dtype import as_dtype
from workbench.ops.loss.softmax import SOFTMAX, SOFTMAX_WITH_CROSS_ENTROPY

assert workbench.ops
NUMBERS = {"epsilon": 1e-3, "momentum": 0.8, "beta1": 0.9, "beta2": 0.95}
IGNORED = 2


def all_kernels() -> list[RowKernel]:
    """A kernel for every form of every program and every way rows may lie."""
    kernels = []
    for program in ROW_PROGRAMS.values():
        for form in program.forms:
            traced = program.traced(form)
            for layout in program.layouts:
                if any(r is not None and x.per is not Per.PLACE for r, x in zip(traced.results, program.outputs)):
                    kernels.append(RowKernel(program, form, layout))
                if traced.has_across:
                    kernels.append(RowKernel(program, form, COLUMNS if layout == LINES else PLANES, True))
    return list({k.name: k for k in kernels}.values())


KERNELS = {kernel.name: kernel for kernel in all_kernels()}
ONE_FORM = {k.program.name + k.layout: k for k in reversed(KERNELS.values())}
"""Of every program and layout the form with the most operands."""


def sizes_of(layout: str, dims: tuple[int, int, int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape of the elements, the axes of a row, and the sizes a kernel is told."""
    first, second, third = dims
    if layout == LINES:
        return (second, third), (1,), (1, second * third, second, third)
    if layout == PLANES:
        return dims, (0, 2), (first, second * third, second, third)
    return dims, (1,), (first, second, third, third)


class Run:
    """A kernel and random operands.

    Attributes:
        axes: of a row as the program sees it: of a sum across rows, those that the kernel's rows do not have.
    """

    def __init__(self, kernel: RowKernel, dims: tuple[int, int, int], seed: int, dtype: str = "float32") -> None:
        random = np.random.default_rng(seed)
        program = kernel.program
        self.kernel, self.dtype = kernel, dtype
        self.shape, axes, self.sizes = sizes_of(kernel.layout, dims)
        self.axes = tuple(a for a in range(len(self.shape)) if a not in axes) if kernel.is_across else axes
        self.given = [self._operand(x, random) for x in program.inputs]
        for n, x in enumerate(program.inputs):
            if x.slot == "Out" and x.per is Per.ROW:  # of extremes: some element is one
                self.given[n] = self.given[0].max(self.axes, keepdims=True)
        self.attrs = {name: NUMBERS.get(name, 0.7) for name in program.numbers}
        self.attrs |= dict.fromkeys(program.integers, IGNORED)
        self.shapes = {n: a.shape for n, a in self.expected().items()}

    def _operand(self, x: Operand, random: np.random.Generator) -> np.ndarray:
        dims = [d if (a in self.axes) == (x.per is Per.PLACE) else 1 for a, d in enumerate(self.shape)]
        dims = list(self.shape) if x.per is Per.ELEMENT else dims
        if x.is_integer:
            count = int(np.prod([self.shape[a] for a in self.axes]))
            return np.where(random.random(dims) < 0.2, IGNORED % count, random.integers(0, count, dims)).astype("int64")
        # what may be a variance or a deviation, or a mean of squares, is to be positive
        sign = random.choice([1, -1], dims) if x.per is Per.ELEMENT and x.slot != "Moment2" else 1
        size = 0.25 if x.slot.endswith("Pow") else 1.0  # of powers of beta: below 1
        return np.asarray((random.random(dims) + 0.5) * sign * size).astype(as_dtype(self.dtype).numpy)

    def made(self) -> tuple[DeviceRows, Launch]:
        dtypes = ["int64" if x.is_integer else self.dtype for _, x in self.kernel.inputs]
        dtypes += ["int64" if x.is_integer else self._shown_as(x.is_wide) for _, x in self.kernel.outputs]
        device = rows_kernel(self.kernel, dtypes, self.sizes)
        return device, device.launch(self.sizes, self.attrs)

    def _shown_as(self, is_wide: bool) -> str:
        return "float32" if is_wide and self.dtype != "float64" else self.dtype

    def results(self, seed: int = 0) -> tuple[dict[int, np.ndarray], Any, int]:
        """Outputs by number, what was counted, and the status."""
        device, how = self.made()
        read = [self.given[n] for n, _ in self.kernel.inputs]
        written = [
            (self.shapes[n], as_dtype(dtype).numpy)
            for (n, _), (_, dtype) in zip(self.kernel.outputs, device.kernel.operands[len(read) :])
        ]
        after, counted = run_kernel(device.kernel, how, [*read, *written, np.zeros(1, np.int32)], seed)
        numbers = [n for n, _ in self.kernel.outputs]
        return dict(zip(numbers, after[len(read) : -1], strict=True)), counted, int(after[-1][0])

    def expected(self, change: float = 0.0, seed: int = 0) -> dict[int, np.ndarray]:
        """What the body gives in float64, of operands that are changed by chance, each number by such a part of it."""
        program, form, random = self.kernel.program, self.kernel.form, np.random.default_rng(seed)
        if any(x.slot == "Out" and x.per is Per.ROW for x in program.inputs):
            change = 0.0
        wide = [
            None if not there else a if a.dtype == np.int64 else _moved(a, change, random)
            for a, there in zip(self.given, form.given, strict=True)
        ]
        told = {name: (lambda attrs, truth=truth: truth) for name, truth in zip(program.options, form.options)}
        body = replace(
            program, axes=lambda rank, attrs: self.axes, options=told, row_shape=None, instead=None,
            fixed={}, body=lambda rows, *ins, **attrs: program.body(rows, *ins, **attrs, **program.fixed),
        )  # fmt: skip
        with np.errstate(all="ignore"):
            results = numpy_form(body)(np, *wide, **self.attrs)
        results = results if isinstance(results, tuple) else (results,)
        return {n: results[n] for n, _ in self.kernel.outputs}


def _moved(array: np.ndarray, change: float, random: np.random.Generator) -> np.ndarray:
    return array.astype(np.float64) * (1 + change * random.choice([-1.0, 1.0], array.shape))


def check(kernel: RowKernel, dims: tuple[int, int, int], seed: int, dtype: str = "float32") -> None:
    """Results are near those of the body, and as near as those of operands that differ in their last bits."""
    near = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    run = Run(kernel, dims, seed, dtype)
    others = [run.expected(near / 10, n) for n in range(3)]
    got, _, status = run.results(seed)
    assert status == 0
    for number, expected in run.expected().items():
        scale = max(float(np.abs(expected).max(initial=0)), 1e-3)
        moved = max(float(np.abs(other[number] - expected).max(initial=0)) for other in others)
        result = got[number].astype(np.float64)
        np.testing.assert_allclose(result, expected.reshape(result.shape), near, 3 * max(near * scale, moved))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_agree_with_the_body_in_double_precision(name: str) -> None:
    check(KERNELS[name], (2, 5, 19), 1)


@pytest.mark.parametrize("name", ONE_FORM)
def test_short_and_long_rows(name: str) -> None:
    """One element and many, teams that are parts of warps, warps and blocks; registers and memory read again."""
    for seed, dims in enumerate([(1, 1, 3), (3, 2, 3), (1, 5, 300), (3, 300, 17), (2, 2, 5000)]):
        check(ONE_FORM[name], dims, seed)


@pytest.mark.parametrize("name", ONE_FORM)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes(name: str, dtype: str) -> None:
    check(ONE_FORM[name], (2, 7, 40), 3, dtype)


@pytest.mark.parametrize("layout", [LINES, COLUMNS])
def test_bits_are_the_same_whatever_the_order_of_threads(layout: str) -> None:
    program = SOFTMAX_WITH_CROSS_ENTROPY.rows
    assert program is not None
    for dims in [(2, 9, 33), (1, 3, 1500)]:
        run = Run(RowKernel(program, program.forms[0], layout), dims, 3)
        first = run.results(0)[0]
        for seed in range(1, 6):
            again = run.results(seed)[0]
            assert all(again[n].tobytes() == a.tobytes() for n, a in first.items())


@pytest.mark.parametrize("layout", [LINES, COLUMNS])
def test_labels_that_name_nothing_are_told_and_read_nothing(layout: str) -> None:
    program = SOFTMAX_WITH_CROSS_ENTROPY.rows
    assert program is not None
    for label in (-1, 7, 2**40, -(2**40)):
        run = Run(RowKernel(program, program.forms[0], layout), (2, 7, 7), 3)
        assert run.results()[2] == 0
        run.given[1].reshape(-1)[-1] = label
        assert run.results()[2] == 1


@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan])
def test_softmax_of_what_is_not_finite(special: float) -> None:
    program = SOFTMAX.rows
    assert program is not None
    for place in (0, 20):
        run = Run(RowKernel(program, program.forms[0], LINES), (1, 3, 21), 3)
        run.given[0][1, place] = special
        shares = run.results()[0][0]
        want = run.expected()[0]
        np.testing.assert_allclose(shares, want, rtol=3e-6)
        assert shares[1, place] == 0 if special == -np.inf else np.isnan(shares[1]).all()


def test_whole_numbers_are_not_computed_in_float() -> None:
    program = ROW_PROGRAMS["cumsum"]
    one = RowKernel(program, program.forms[0], LINES, item=8, is_whole=True)
    with pytest.raises(NoKernel, match="int64"):
        rows_kernel(one, ["int64", "int64"], (1, 15, 3, 5))


SCANNED = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")


@pytest.mark.parametrize("layout", [LINES, COLUMNS])
@pytest.mark.parametrize("name", SCANNED)
def test_scans_of_what_is_not_finite(name: str, layout: str) -> None:
    """Ties, zeros, infinities and NaN, in teams that are warps and blocks; the order of threads changes no bit."""
    program, random = ROW_PROGRAMS[name], np.random.default_rng(5)
    for form in program.forms:
        for count in (40, 600):
            run = Run(RowKernel(program, form, layout), (1, 2, count) if layout == LINES else (1, count, 2), 3)
            x = random.integers(-2, 3, run.shape).astype(np.float32) / 2
            x[x == 0] = random.choice([0.0, -0.0, 1.0], x[x == 0].shape)
            flat = x.reshape(-1)
            for at, special in zip(random.integers(count, 2 * count, 3), (np.inf, np.nan, -np.inf)):
                flat[at] = special
            run.given[0] = x
            want, (got, _, _) = run.expected(), run.results(1)
            again = run.results(2)[0]
            for number, expected in want.items():
                np.testing.assert_allclose(got[number], expected.reshape(got[number].shape), 2e-5, 2e-5)
                assert got[number].tobytes() == again[number].tobytes()


def test_a_long_sum_in_float_loses_nothing() -> None:
    program = ROW_PROGRAMS["reduce_sum"]
    run = Run(RowKernel(program, program.forms[0], LINES), (1, 1, 200_000), 3)
    run.given[0][...] = np.random.default_rng(0).random((1, 200_000), np.float32) + 0.1
    got = run.results()[0][0]
    want = run.given[0].astype(np.float64).sum()
    assert abs(float(got.reshape(())) - want) <= 2 * np.spacing(np.float32(want))


@pytest.mark.parametrize("dims", [(1, 64, 256), (1, 8, 2048), (2, 64, 64)])
@pytest.mark.parametrize("layout", [LINES, COLUMNS])
def test_aligned_rows_move_no_sector_more_than_they_have_to(layout: str, dims: tuple[int, int, int]) -> None:
    program = SOFTMAX.rows
    assert program is not None
    run = Run(RowKernel(program, program.forms[0], layout), dims, 3)
    _, counted, _ = run.results(1)
    assert counted.loads.sectors <= 1.1 * counted.loads.ideal
    assert counted.stores.sectors <= 1.1 * counted.stores.ideal
    assert counted.loads.nbytes == run.given[0].nbytes, "elements are read once"
    assert counted.bank_conflicts == 0


def test_a_kernel_refuses_rows_of_another_team() -> None:
    program = SOFTMAX.rows
    assert program is not None
    device, _ = Run(RowKernel(program, program.forms[0], LINES), (1, 4, 20), 3).made()
    assert device.launch((1, 120, 5, 24), {}).grid[0] == 2
    with pytest.raises(NoKernel):
        device.launch((1, 5000, 5, 1000), {})


def test_teams_hold_rows_up_to_a_length() -> None:
    for layout in (LINES, PLANES, COLUMNS):
        for count in (1, 2, 3, 31, 32, 33, 256, 257, 1024, 8192):
            team = team_for(layout, count)
            assert 32 <= team.threads <= 1024
            assert team.held * team.size >= count or (layout == COLUMNS and count > 256)
        assert team_for(layout, 10_000).held == 0


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_it_compiles_for_the_architectures_we_claim(architecture: str) -> None:
    for name in ("softmax_with_cross_entropy", "layer_norm_grad"):
        program = ROW_PROGRAMS[name]
        run = Run(RowKernel(program, program.forms[0], program.layouts[0]), (1, 4, 2000), 3)
        assert compile_cubin(run.made()[0].kernel.source, architecture)
