"""Kernels of row programs against their NumPy forms in double precision, between fences, and divided."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.fences import Fenced
from tests.native.one_row import run_row
from workbench.framework.rows.arrays import numpy_form
from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES, SIZES, RowKernel
from workbench.framework.rows.program import Operand
from workbench.framework.rows.recording import Per
from workbench.ops.loss.softmax import LOG_SOFTMAX, SOFTMAX, SOFTMAX_WITH_CROSS_ENTROPY
from workbench.runtime.footprint import OutOfBounds, footprint_of
from workbench.runtime.native.blocks import block_of, blocks_along
from workbench.runtime.native.row_bodies import all_row_kernels
from workbench.runtime.native.tape import pointer
from workbench.runtime.row_kernels import row_kernel
from workbench.runtime.words.codes import DECLINED, DONE

KERNELS = {kernel.name: kernel for kernel in all_row_kernels()}
NUMBERS = {"epsilon": 1e-3, "momentum": 0.8, "beta1": 0.9, "beta2": 0.95}
IGNORED = 2


def sizes_of(
    layout: str, first: int, second: int, third: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape of the elements, the axes of a row, and the sizes a kernel is told."""
    if layout == LINES:
        return (second, third), (1,), (1, second * third, second, third)
    if layout == PLANES:
        return (first, second, third), (0, 2), (first, second * third, second, third)
    return (first, second, third), (1,), (first, second, third, third)


def operand(
    x: Operand, shape: tuple[int, ...], axes: tuple[int, ...], random: np.random.Generator, dtype: str
) -> np.ndarray:
    dims = [d if (a in axes) == (x.per is Per.PLACE) else 1 for a, d in enumerate(shape)]
    dims = list(shape) if x.per is Per.ELEMENT else dims
    if x.is_integer:
        count = int(np.prod([shape[a] for a in axes]))
        return np.where(random.random(dims) < 0.2, IGNORED, random.integers(0, count, dims)).astype(np.int64)
    # what may be a variance or a deviation, or a mean of squares, is to be positive
    sign = random.choice([1, -1], dims) if x.per is Per.ELEMENT and x.slot != "Moment2" else 1
    size = 0.25 if x.slot.endswith("Pow") else 1.0  # of powers of beta: below 1
    return np.asarray((random.random(dims) + 0.5) * sign * size, dtype)


class Run:
    """A kernel on random operands.

    Attributes:
        results: its outputs, by number. expected: the same of the NumPy form, in float64.
    """

    def __init__(self, kernel: RowKernel, dims: tuple[int, int, int], seed: int, at_end: bool | None = None) -> None:
        random = np.random.default_rng(seed)
        program, dtype = kernel.program, f"{'i' if kernel.is_whole else 'f'}{kernel.item}"
        shape, axes, sizes = sizes_of(kernel.layout, *dims)
        if kernel.is_across:
            axes = tuple(a for a in range(len(shape)) if a not in axes)
        self.given = [operand(x, shape, axes, random, dtype) for x in program.inputs]
        for n, x in enumerate(program.inputs):
            if x.slot == "Out" and x.per is Per.ROW:  # of extremes: some element is one
                self.given[n] = self.given[0].max(axes, keepdims=True)
        attrs = {name: NUMBERS.get(name, 0.7) for name in program.numbers} | dict.fromkeys(program.integers, IGNORED)
        self.arrays = {n: self._fenced(self.given[n], at_end) for n, _ in kernel.inputs}
        self.results = {
            n: self._fenced(np.full_like(operand(x, shape, axes, random, dtype), 7), at_end)
            for n, x in ((n, program.outputs[n]) for n, _ in kernel.outputs)
        }
        kept = self._fenced(np.empty(kernel.kept_elements(sizes), dtype), at_end) if kernel.kept else None
        told = [*(attrs[name] for name in program.numbers), *(attrs[name] for name in program.integers)]
        self.arguments = (*self.arrays.values(), *self.results.values(), kept, *told, *sizes)
        self.kernel, self.axes, self.attrs = kernel, axes, attrs

    def _fenced(self, array: np.ndarray, at_end: bool | None) -> np.ndarray:
        if at_end is None:
            return array
        copy = Fenced(array.nbytes, at_end).bytes.view(array.dtype).reshape(array.shape)
        copy[...] = array
        return copy

    def expected(self, change: float = 0.0, seed: int = 0) -> dict[int, np.ndarray]:
        """What the body gives in float64, of operands that are changed by chance, each number by such a part of it.

        Operands that have to go together, as elements and the largest of them, stay as they are.
        """
        program, form, random = self.kernel.program, self.kernel.form, np.random.default_rng(seed)
        if any(x.slot == "Out" and x.per is Per.ROW for x in program.inputs):
            change = 0.0
        wide = [
            None if not there else a if a.dtype == np.int64 else a * (1 + change * random.choice([-1.0, 1.0], a.shape))
            for a, there in zip(self.given, form.given, strict=True)
        ]
        body = _with_axes(program, self.axes, form.options)
        results = numpy_form(body)(np, *wide, **self.attrs)
        results = results if isinstance(results, tuple) else (results,)
        return {n: results[n] for n in self.results}


def _with_axes(program: Any, axes: tuple[int, ...], options: tuple[bool, ...]) -> Any:
    """The program with rows along these axes and these options, whatever the attributes say."""
    told = {name: (lambda attrs, truth=truth: truth) for name, truth in zip(program.options, options, strict=True)}
    return replace(
        program, axes=lambda rank, attrs: axes, options=told, row_shape=None, instead=None,
        fixed={}, body=lambda rows, *ins, **attrs: program.body(rows, *ins, **attrs, **program.fixed),
    )  # fmt: skip


def check(kernel: RowKernel, dims: tuple[int, int, int], seed: int) -> None:
    """Results are near those of the body, and as near as those of operands that differ in their last bits."""
    run, near = Run(kernel, dims, seed), 1e-5 if kernel.item == 4 else 1e-13
    assert run_row(kernel.name, *run.arguments) == DONE
    others = [run.expected(near / 10, seed) for seed in range(3)]
    for number, expected in run.expected().items():
        scale = max(float(np.abs(expected).max(initial=0)), 1e-3)
        moved = max(float(np.abs(other[number] - expected).max(initial=0)) for other in others)
        result = run.results[number]
        np.testing.assert_allclose(result, expected.reshape(result.shape), near, 3 * max(near * scale, moved))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_agree_with_the_body_in_double_precision(name: str) -> None:
    """Short and long rows, whole vectors and parts of one, one row and many, one sample and several."""
    for seed, dims in enumerate(
        [(1, 1, 1), (2, 3, 5), (1, 33, 16), (3, 4, 129), (1, 2, 5000), (2, 300, 17), (9, 2, 600)]
    ):
        check(KERNELS[name], dims, seed)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(KERNELS)), first=st.integers(1, 5), second=st.integers(1, 70),
    third=st.integers(1, 150), seed=st.integers(0, 999),
)  # fmt: skip
def test_kernels_agree_for_any_sizes(name: str, first: int, second: int, third: int, seed: int) -> None:
    check(KERNELS[name], (first, second, third), seed)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_touch_what_they_declare(name: str) -> None:
    """What follows the last byte, or precedes the first one, is a page that nobody may touch."""
    kernel = KERNELS[name]
    for at_end in (True, False):
        for dims in ((1, 1, 1), (2, 5, 19), (1, 3, 131)):
            run = Run(kernel, dims, 1, at_end)
            assert run_row(name, *run.arguments) == DONE


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dims", [(3, 7, 20), (1, 9, 300), (4, 2, 129)])
def test_blocks_of_a_row_do_what_it_does(name: str, dims: tuple[int, int, int]) -> None:
    kernel = KERNELS[name]
    for division in footprint_of(name).divisions:
        whole, parts = Run(kernel, dims, 5), Run(kernel, dims, 5)
        assert run_row(name, *whole.arguments) == DONE
        for arguments in reversed(blocks_along(division, parts.arguments, 3, 3)):
            assert run_row(name, *arguments) == DONE
        for number, array in whole.results.items():
            assert array.tobytes() == parts.results[number].tobytes()


@pytest.mark.parametrize("name", KERNELS)
def test_an_empty_block_touches_nothing(name: str) -> None:
    """Where sizes are open there are as many blocks for all of them: of short ones some have nothing to do."""
    for division, at_end in product(footprint_of(name).divisions, (True, False)):
        run = Run(KERNELS[name], (3, 7, 20), 5, at_end)
        for at in (0, division.size(run.arguments)):
            assert run_row(name, *block_of(division, run.arguments, at, at)) == DONE
        assert all((array == 7).all() for array in run.results.values())


@pytest.mark.parametrize("layout", [LINES, COLUMNS])
def test_labels_that_name_nothing_are_declined_before_anything_is_written(layout: str) -> None:
    program = SOFTMAX_WITH_CROSS_ENTROPY.rows
    assert program is not None
    kernel = row_kernel(program, program.forms[0], layout, False)
    for label in (-1, 7, 2**40, -(2**40)):
        run = Run(kernel, (2, 7, 7), 3)
        run.arrays[1].reshape(-1)[-1] = label
        assert run_row(kernel.name, *run.arguments) == DECLINED
        assert all((array == 7).all() for array in run.results.values())


@pytest.mark.parametrize("layout", [LINES, COLUMNS])
@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan])
def test_softmax_of_what_is_not_finite(special: float, layout: str) -> None:
    """A masked place is exactly 0; infinity and NaN make all of their row NaN, as in NumPy; other rows are as ever."""
    program = SOFTMAX.rows
    assert program is not None
    kernel = row_kernel(program, program.forms[0], layout, False)
    for place in (0, 5, 16, 20):
        run = Run(kernel, (1, 21, 21), 3)
        rows = run.arrays[0] if layout == LINES else run.arrays[0][0].T
        shares = run.results[0] if layout == LINES else run.results[0][0].T
        rows[1, place] = special
        assert run_row(kernel.name, *run.arguments) == DONE
        with np.errstate(all="ignore"):
            grown = np.exp(rows.astype(np.float64) - rows.max(1, keepdims=True))
        np.testing.assert_allclose(shares, grown / grown.sum(1, keepdims=True), rtol=2e-6)
        assert shares[1, place] == 0 if special == -np.inf else np.isnan(shares[1]).all()


SPECIAL = st.sampled_from([0.0, -0.0, 1.0, -1.0, 3e38, -3e38, np.inf, -np.inf, np.nan])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 40))
def test_cross_entropy_of_any_logits(data: st.DataObject, rows: int, classes: int) -> None:
    """Ties, zeros of both signs, infinities, NaN: what is NaN in NumPy is NaN, all else is as there."""
    count = rows * classes
    logits = np.array(data.draw(st.lists(SPECIAL | st.floats(-50, 50), min_size=count, max_size=count)), np.float32)
    labels = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows)))[:, None]
    x, shares, losses = logits.reshape(rows, classes), np.empty((rows, classes), "f"), np.empty((rows, 1), "f")
    program = SOFTMAX_WITH_CROSS_ENTROPY.rows
    assert program is not None
    kernel = row_kernel(program, program.forms[0], LINES, False)
    assert run_row(kernel.name, x, labels, shares, losses, None, -100, 1, count, rows, classes) == DONE
    with np.errstate(all="ignore"):
        expected = SOFTMAX_WITH_CROSS_ENTROPY.forward(np, x, labels, **SOFTMAX_WITH_CROSS_ENTROPY.attrs)
    np.testing.assert_allclose(shares, expected[0], rtol=1e-5, atol=1e-37)
    np.testing.assert_allclose(losses, expected[1], rtol=1e-5, atol=1e-6)


def test_softmax_of_numbers_far_apart() -> None:
    x = np.zeros((1, 300), np.float32)
    x[0, 1:] = -np.linspace(0, 120, 299)
    for op, exact in ((SOFTMAX, np.exp), (LOG_SOFTMAX, lambda t: t)):
        program = op.rows
        assert program is not None
        out = np.empty_like(x)
        kernel = row_kernel(program, program.forms[0], LINES, False)
        assert run_row(kernel.name, x, out, None, 1, 300, 1, 300) == DONE
        logarithms = x.astype(np.float64) - np.log(np.exp(x.astype(np.float64)).sum())
        np.testing.assert_allclose(out, exact(logarithms), rtol=4e-6, atol=2e-38)


def test_a_kernel_keeps_to_its_operands() -> None:
    """The sizes it is told and the arrays it is given have to fit."""
    program = SOFTMAX.rows
    assert program is not None
    kernel = row_kernel(program, program.forms[0], LINES, False)
    assert SIZES[LINES][2:] == ("rows", "width")
    x = np.zeros((4, 5), np.float32)
    with pytest.raises(OutOfBounds):
        run_row(kernel.name, x, np.empty_like(x), None, 1, 25, 5, 5)
    with pytest.raises(OutOfBounds):
        run_row(kernel.name, pointer(x).moved(4), np.empty_like(x), None, 1, 20, 4, 5)
