"""Convolutions in all their forms, and the gradients, against sums over taps written out in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.native.one_row import kernels, run_inner_row, run_tape
from workbench.executors.lowering.tape.conv import costs, unfolding
from workbench.executors.lowering.tape.conv.convolutions import convolve, filter_gradient, input_gradient
from workbench.executors.lowering.tape.conv.forms import (
    convolve_forms,
    filter_form_of,
    filter_forms,
    form_of,
    input_form_of,
    input_forms,
)
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.footprint import kernel_for, kernel_of
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.blocks import BlockRow, blocks_of
from workbench.runtime.native.tape import Tape

GUARD = np.float32(-7.25)
ERROR: dict[Any, float] = {np.float32: 2e-5, np.float64: 4e-14}  # of the largest number of a result: terms cancel


ONE = ((1, 1), (1, 1))


class Writer:
    """What rules of convolutions ask of a writer; memory is not zero, and what lies behind it is watched."""

    images = None  # of a GPU

    def __init__(self) -> None:
        self.tape = Tape(kernels())
        self.watched: list[np.ndarray] = []

    def gemm(self, item: int) -> int:
        return gemm_address(item) or 0

    def row(self, kernel: str, *arguments: Any) -> None:
        self.tape.row(kernel, *arguments)

    def independent(self, kernel: str, rows: Sequence[Sequence[Any]]) -> None:
        for arguments in rows:
            self.tape.row(kernel, *arguments)

    def temporary(self, shape: Any, dtype: Any = np.float32) -> np.ndarray:
        count = int(np.prod(shape))
        memory = np.full(count + 16, np.nan, dtype)
        memory[count:] = GUARD
        self.tape.keep(memory)
        self.watched.append(memory[count:])
        return memory[:count].reshape(shape)

    def run(self) -> None:
        assert run_tape(self.tape) == 0
        for behind in self.watched:
            assert (behind == GUARD).all()


def geometry(
    samples: int, channels: int, image: tuple[int, int], kernels: int, kernel: tuple[int, int],
    strides: tuple[int, int] = (1, 1), pads: Any = ((0, 0), (0, 0)), dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Geometry:  # fmt: skip
    """Channels and kernels are those of a group."""
    sizes = zip(image, kernel, strides, pads, dilations, strict=True)
    out: Any = tuple((size + sum(p) - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes)
    return Geometry(samples, channels * groups, *image, kernels * groups, kernel, strides, dilations, pads, groups, out)


def taps(geo: Geometry) -> Any:
    """For every tap (row, column) of a kernel: the output pixels it takes part in, and the entries it meets there."""
    for i, j in np.ndindex(*geo.kernel):
        reached = []
        for axis, t in ((0, i), (1, j)):
            out = np.arange(geo.out[axis])
            entry = out * geo.strides[axis] + t * geo.dilations[axis] - geo.pads[axis][0]
            inside = (entry >= 0) & (entry < (geo.height, geo.width)[axis])
            reached.append((out[inside], entry[inside]))
        (rows, from_rows), (columns, from_columns) = reached
        yield i, j, np.ix_(rows, columns), np.ix_(from_rows, from_columns)


def expected(geo: Geometry, x: Any, w: Any, g: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The output, the gradient of the input and of the filter."""
    x, w, g = (a.astype(float) for a in (x, w, g))
    out, g_x, g_w = np.zeros(g.shape), np.zeros(x.shape), np.zeros(w.shape)
    own, kernels = geo.channels // geo.groups, geo.kernels // geo.groups
    for group in range(geo.groups):
        cs, os = slice(group * own, (group + 1) * own), slice(group * kernels, (group + 1) * kernels)
        for i, j, to, at in taps(geo):
            seen, weights = x[:, cs][:, :, *at], w[os, :, i, j]
            out[:, os][:, :, *to] += np.einsum("nchw,oc->nohw", seen, weights)
            given = g[:, os][:, :, *to]
            np.add.at(g_x[:, cs], (slice(None), slice(None), *at), np.einsum("nohw,oc->nchw", given, weights))
            g_w[os, :, i, j] = np.einsum("nohw,nchw->oc", given, seen)
    return out, g_x, g_w


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy with as much on both sides that is not to be used."""
    room = np.full((3, *array.shape), GUARD, array.dtype)
    room[1] = array
    return room[1]


def is_guarded(array: np.ndarray) -> bool:
    return bool((array.base[[0, 2]] == GUARD).all())


def check(geo: Geometry, form: str = "", dtype: Any = np.float32) -> None:
    """In a form where that can be, else in the one that is chosen."""
    rng = np.random.default_rng(0)
    shapes: Any = (
        (geo.samples, geo.channels, geo.height, geo.width),
        (geo.kernels, geo.channels // geo.groups, *geo.kernel),
        (geo.samples, geo.kernels, *geo.out),
    )
    x, w, g = (rng.standard_normal(shape, dtype) for shape in shapes)
    g_x, g_w, out = (guarded(np.full(shape, np.nan, dtype)) for shape in shapes)
    for write, possible, *operands, result in (
        (convolve, convolve_forms, x, w, out), (input_gradient, input_forms, g, w, g_x),
        (filter_gradient, filter_forms, x, g, g_w),
    ):  # fmt: skip
        writer: Any = Writer()
        write(writer, geo, *operands, result, form if form in possible(geo) else "")
        writer.run()
        assert is_guarded(result)
    for computed, wanted in zip((out, g_x, g_w), expected(geo, x, w, g), strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=0, atol=ERROR[dtype] * max(1.0, abs(wanted).max()))


SMALL = st.integers(1, 3)
PAIRS = st.tuples(SMALL, SMALL)
PADS = st.tuples(*[st.tuples(st.integers(0, 5), st.integers(0, 5))] * 2)
KERNEL = st.tuples(st.integers(1, 5), st.sampled_from([1, 2, 3, 5]))


@settings(max_examples=300, deadline=None)
@given(
    samples=SMALL, channels=st.integers(1, 7), image=st.tuples(st.integers(1, 20), st.integers(1, 36)),
    kernels=st.one_of(st.integers(1, 13), st.sampled_from([16, 17, 32, 35, 49])), kernel=KERNEL,
    strides=st.one_of(st.just((1, 1)), PAIRS), pads=PADS, dilations=st.one_of(st.just((1, 1)), PAIRS), groups=SMALL,
)  # fmt: skip
@example(4, 1, (28, 28), 6, (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 1)
@example(4, 6, (14, 14), 16, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
@example(2, 1, (9, 40), 1, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 8)
@example(2, 20, (13, 28), 33, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
@example(2, 3, (15, 15), 8, (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1)
@example(32, 3, (14, 14), 16, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
@example(12, 6, (14, 14), 16, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
@example(15, 6, (14, 14), 16, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
@example(16, 8, (9, 10), 4, (3, 3), (2, 1), ((1, 0), (0, 0)), (1, 1), 1)
@example(16, 8, (6, 10), 4, (3, 3), (3, 1), ((1, 1), (0, 0)), (1, 1), 1)
@example(1, 1, (1, 1), 1, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
@example(1, 2, (2, 12), 17, (2, 3), (1, 1), ((5, 4), (5, 4)), (1, 1), 1)
def test_convolutions(
    samples: int, channels: int, image: Any, kernels: int, kernel: Any, strides: Any, pads: Any, dilations: Any,
    groups: int,
) -> None:  # fmt: skip
    geo = geometry(samples, channels, image, kernels, kernel, strides, pads, dilations, groups)
    if min(geo.out) >= 1:
        check(geo)
        check(geo, dtype=np.float64)


@settings(max_examples=60, deadline=None)
@given(
    samples=st.integers(16, 33), channels=SMALL, image=st.tuples(st.integers(4, 9), st.integers(4, 20)),
    kernels=st.integers(1, 14), kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)), strides=PAIRS, pads=PADS,
    dilations=PAIRS, groups=st.integers(1, 2),
)  # fmt: skip
@example(16, 1, (4, 4), 1, (1, 3), (1, 1), ((5, 5), (5, 5)), (1, 1), 1)
@example(17, 2, (9, 20), 7, (3, 3), (2, 3), ((0, 0), (0, 0)), (1, 1), 1)
def test_lanes_can_be_samples(
    samples: int, channels: int, image: Any, kernels: int, kernel: Any, strides: Any, pads: Any, dilations: Any,
    groups: int,
) -> None:  # fmt: skip
    """Whatever strides and dilations, also where another form would be chosen."""
    geo = geometry(samples, channels, image, kernels, kernel, strides, pads, dilations, groups)
    if min(geo.out) < 1:
        return
    check(geo, "samples")


@settings(max_examples=60, deadline=None)
@given(
    channels=st.integers(1, 4), image=st.tuples(st.integers(5, 12), st.integers(12, 36)),
    kernels=st.integers(1, 40), kernel=KERNEL, pads=PADS, form=st.sampled_from(["pixels", "channels", "columns"]),
)  # fmt: skip
def test_every_form_computes_the_same(
    channels: int, image: Any, kernels: int, kernel: Any, pads: Any, form: str
) -> None:
    """Also where another would be chosen."""
    geo = geometry(2, channels, image, kernels, kernel, pads=pads)
    check(geo, form)


@settings(max_examples=60, deadline=None)
@given(
    samples=st.integers(1, 9), channels=st.integers(1, 7), kernels=st.integers(1, 40), kernel=KERNEL, strides=PAIRS,
    image=st.tuples(st.integers(1, 9), st.integers(1, 9)), pads=PADS, dilations=PAIRS,
    most=st.sampled_from([1, 2000, 1 << 20]),
)  # fmt: skip
@example(5, 3, 9, (3, 3), (1, 1), (2, 2), ((1, 1), (1, 1)), (1, 1), 2000)
@example(2, 40, 30, (1, 1), (2, 2), (9, 9), ((0, 0), (0, 0)), (1, 1), 1 << 20)
def test_the_columns_of_samples_together(
    samples: int, channels: int, kernels: int, kernel: Any, strides: Any, image: Any, pads: Any, dilations: Any,
    most: int,
) -> None:  # fmt: skip
    """In blocks of one sample, of some, and of all."""
    geo = geometry(samples, channels, image, kernels, kernel, strides, pads, dilations)
    if min(geo.out) < 1:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unfolding, "MOST_BYTES", most)
        check(geo, "together")
        check(geo, "together", np.float64)


@settings(max_examples=25, deadline=None)
@given(
    samples=st.sampled_from([1, 2, 17]), fours=st.tuples(st.integers(1, 9), st.integers(1, 9)), pads=PADS,
    image=st.tuples(st.integers(1, 12), st.integers(1, 40)),
)  # fmt: skip
@example(17, (2, 1), ((1, 1), (1, 1)), (2, 2))
@example(1, (1, 9), ((0, 5), (5, 0)), (4, 40))
def test_tiles_of_winograd(samples: int, fours: tuple[int, int], pads: Any, image: Any) -> None:
    """As close as sums in any other order, whatever part of a tile, a block or a register is left over."""
    geo = geometry(samples, 4 * fours[0], image, 4 * fours[1], (3, 3), pads=pads)
    if min(geo.out) >= 1:
        assert "winograd" in convolve_forms(geo).keys() & input_forms(geo).keys()
        check(geo, "winograd")


class DividedWriter(Writer):
    """Writes rows in three blocks where they divide."""

    blocks = 0

    def row(self, kernel: str, *arguments: Any) -> None:
        kernel = kernel_for(kernel, arguments)
        for block in blocks_of(kernel, arguments, 3, 3) or [arguments]:
            BlockRow(kernel, block).write(self.tape, self.temporary)
            self.blocks += 1


@pytest.mark.parametrize("size", [(3, 4), (19, 17)])  # sixteen samples fill a block; one does
def test_blocks_of_winograd_have_the_same_bits(size: tuple[int, int]) -> None:
    geo, rng = geometry(49, 4, size, 52, (3, 3), pads=ONE), np.random.default_rng(0)
    x, w = rng.standard_normal((49, 4, *size), np.float32), rng.standard_normal((52, 4, 3, 3), np.float32)
    outs = []
    for writer in (Writer(), DividedWriter()):
        outs.append(np.full((49, 52, *size), np.nan, np.float32))
        convolve(writer, geo, x, w, outs[-1], "winograd")  # type: ignore[arg-type]
        writer.run()
    assert writer.blocks == 6 and (outs[0] == outs[1]).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["columns", "together"])
@pytest.mark.parametrize("groups", [1, 4])
def test_blocks_of_products_have_the_same_bits(form: str, groups: int, dtype: Any) -> None:
    geo, rng = geometry(7, 6, (9, 11), 5, (3, 3), (2, 1), ONE, groups=groups), np.random.default_rng(0)
    shapes: Any = (7, 6 * groups, 9, 11), (5 * groups, 6, 3, 3), (7, 5 * groups, *geo.out)
    x, w, g = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    for write, a, like in ((convolve, x, g), (input_gradient, g, x)):
        outs = []
        for writer in (Writer(), DividedWriter()):
            outs.append(np.full_like(like, np.nan))
            write(writer, geo, a, w, outs[-1], form if groups == 1 else "columns")  # type: ignore[arg-type]
            writer.run()
        assert writer.blocks >= 3 and (outs[0] == outs[1]).all()  # type: ignore[attr-defined]


def test_the_gradient_by_winograd_is_the_difference_quotient() -> None:
    """A convolution is linear: central differences are the derivative, for steps of any length."""
    geo, rng = geometry(2, 8, (9, 11), 4, (3, 3), pads=ONE), np.random.default_rng(0)
    x, step = (rng.standard_normal((2, 8, 9, 11), np.float32) for _ in range(2))
    w, g = rng.standard_normal((4, 8, 3, 3), np.float32), rng.standard_normal((2, 4, 9, 11), np.float32)
    results = [np.empty_like(g), np.empty_like(g), np.empty_like(x)]
    for write, a, out in zip((convolve, convolve, input_gradient), (x + step, x - step, g), results, strict=True):
        writer: Any = Writer()
        write(writer, geo, a, w, out, "winograd")
        writer.run()
    quotient = np.sum((results[0].astype(float) - results[1]) / 2 * g)
    np.testing.assert_allclose(np.sum(results[2].astype(float) * step), quotient, rtol=1e-5)


@pytest.mark.parametrize(
    ("geo", "chosen"),
    [
        (geometry(32, 512, (2, 2), 512, (3, 3), pads=ONE), ("together", "together", "together")),
        (geometry(8, 128, (8, 8), 256, (3, 3), (2, 2), ONE), ("together", "together", "together")),
        (geometry(32, 16, (32, 32), 32, (3, 3), (2, 2), ONE), ("samples", "columns", "channels")),
        (geometry(32, 256, (4, 4), 256, (3, 3), pads=ONE), ("samples", "samples", "channels")),
        (geometry(32, 1, (28, 28), 6, (5, 5), pads=((2, 2), (2, 2))), ("pixels", "pixels", "pixels")),
        (geometry(8, 6, (14, 14), 16, (5, 5)), ("channels", "pixels", "channels")),
        (geometry(8, 64, (28, 28), 64, (3, 3), pads=ONE), ("channels", "channels", "channels")),
        (geometry(8, 1, (28, 28), 1, (3, 3), pads=ONE, groups=64), ("pixels", "pixels", "pixels")),
        (geometry(32, 256, (4, 4), 512, (1, 1), (2, 2)), ("together", "together", "together")),
        (geometry(8, 512, (7, 7), 512, (1, 2), (1, 2), groups=2), ("columns", "columns", "columns")),
    ],
)
def test_the_forms_that_are_chosen(geo: Geometry, chosen: tuple[str, str, str]) -> None:
    assert (form_of(geo), input_form_of(geo), filter_form_of(geo)) == chosen


@pytest.mark.parametrize(
    ("geo", "is_quicker"),
    [
        (geometry(32, 64, (16, 16), 64, (3, 3), pads=ONE), True),
        (geometry(8, 64, (56, 56), 64, (3, 3), pads=ONE), True),
        (geometry(32, 512, (2, 2), 512, (3, 3), pads=ONE), False),  # most of a filter is outside of such images
        (geometry(8, 8, (28, 28), 8, (3, 3), pads=ONE), False),
        (geometry(8, 64, (28, 28), 64, (3, 3), (2, 2), ONE), False),
        (geometry(8, 64, (28, 28), 62, (3, 3), pads=ONE, groups=2), False),
    ],
)
def test_where_winograd_is_chosen(geo: Geometry, is_quicker: bool) -> None:
    """Only if it is allowed, too."""
    assert [choose(geo, True) == "winograd" for choose in (form_of, input_form_of)] == [is_quicker] * 2
    assert form_of(geo) != "winograd" != input_form_of(geo)


def test_everything_that_is_counted_takes_some_time() -> None:
    """Of forms that are possible for some shape, and as much again where there is twice as much to do."""
    seen = set()
    for geo in (
        geometry(16, 32, (30, 30), 7, (3, 3), pads=ONE), geometry(16, 32, (31, 31), 48, (3, 3), (2, 2), ONE),
        geometry(16, 16, (32, 32), 16, (3, 3), pads=ONE),
    ):  # fmt: skip
        twice = geo._replace(samples=32)
        for possible, prefix in ((convolve_forms, ""), (input_forms, "input "), (filter_forms, "filter ")):
            before, after = possible(geo), possible(twice)
            assert before.keys() == after.keys()
            for form, nanoseconds in before.items():
                assert 1.8 * nanoseconds < after[form] < 2.01 * nanoseconds
                seen |= {form, prefix + form}
    assert seen >= costs.COUNTED.keys()


def test_a_sum_does_not_depend_on_what_else_is_computed() -> None:
    """Bits of one sample are the same in every batch."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 3, 14, 14), np.float32), rng.standard_normal((20, 3, 3, 3), np.float32)
    results = []
    for samples in (5, 2):
        out = np.empty((samples, 20, 12, 12), np.float32)
        writer: Any = Writer()
        convolve(writer, geometry(samples, 3, (14, 14), 20, (3, 3)), x[:samples], w, out)
        writer.run()
        results.append(out)
    assert (results[0][:2] == results[1]).all()


@settings(max_examples=40, deadline=None)
@given(geo=st.builds(geometry, SMALL, SMALL, st.tuples(st.integers(1, 9), st.integers(1, 20)), SMALL, st.just((2, 3)),
                     PAIRS, PADS, PAIRS), dtype=st.sampled_from([np.float32, np.float64]))  # fmt: skip
def test_unfolding_and_folding(geo: Geometry, dtype: Any) -> None:
    """Unfolding is the sum over taps with a filter of ones and zeros; folding is its transpose."""
    if min(geo.out) < 1:
        return
    from workbench.executors.lowering.tape.conv.convolution_tables import sizes_of
    from workbench.runtime.native.tape import address

    x = np.random.default_rng(0).standard_normal((geo.channels, geo.height, geo.width)).astype(dtype)
    columns = np.full((geo.channels, *geo.kernel, *geo.out), np.nan, dtype)
    row = address(sizes := sizes_of(geo)), address(x), columns, 0, geo.out[0], *[0] * 6
    assert run_inner_row(kernel_of("unfold", x.itemsize), *row) == 0
    wanted = np.zeros(columns.shape)
    for i, j, to, at in taps(geo):
        wanted[:, i, j][:, *to] = x[:, *at]
    np.testing.assert_array_equal(columns, wanted)
    back, total = np.zeros_like(x), np.zeros(x.shape)
    assert run_inner_row(kernel_of("fold", x.itemsize), sizes, back, *row[2:]) == 0
    for i, j, to, at in taps(geo):
        np.add.at(total, (slice(None), *at), wanted[:, i, j][:, *to])
    np.testing.assert_allclose(back, total, rtol=8 * np.finfo(dtype).eps)
