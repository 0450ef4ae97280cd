"""Convolutions as products of matrices: windows unfolded into columns, a block of output rows at a time."""

from __future__ import annotations

from typing import Any

from workbench.runtime.footprint import DOUBLE, FLOAT, kernel_of
from workbench.runtime.kernels.arguments import Ints, Reals
from workbench.runtime.kernels.conv.tiles import accumulate, clear, move
from workbench.runtime.kernels.intrinsics import (
    ROW,
    address_of,
    behind,
    bytes_behind,
    call_row,
    doubles,
    floats,
    function,
    gemm,
    ints,
)
from workbench.runtime.kernels.registry import inner_kernel, kernel
from workbench.runtime.words import convolution as convolution_words
from workbench.runtime.words.convolution import (
    BLOCK,
    DILATION_HEIGHT,
    DILATION_WIDTH,
    END_ROW,
    GROUPS,
    HEIGHT,
    KERNEL_HEIGHT,
    KERNEL_WIDTH,
    KERNELS,
    LEFT,
    OUT_HEIGHT,
    OUT_WIDTH,
    PIXELS_OF,
    PLANES,
    SAMPLES,
    SIZES,
    START,
    STRIDE_HEIGHT,
    STRIDE_WIDTH,
    TAPS,
    TOP,
    UNFOLDED,
    WIDTH,
)
from workbench.runtime.words.product import AS_IT_IS, FLIPPED


@function
def first_inside(offset, stride):
    """The first output position whose entry, `offset` further on, is inside."""
    return 0 if offset >= 0 else (-offset + stride - 1) // stride


@function
def end_inside(offset, stride, size, count):
    """One past the last such position."""
    return 0 if offset >= size else min(count, (size - 1 - offset) // stride + 1)


@function
def unfold_line(x, out, first, end, count, offset, stride):
    """One output row of one tap: zeros where it is outside of the image."""
    clear(out, first)
    if stride == 1:
        move(behind(x, first + offset), behind(out, first), end - first)
    else:
        for i in range(first, end):
            out[i] = x[i * stride + offset]
    clear(behind(out, end), count - end)


@function
def fold_line(line, x, first, end, offset, stride):
    """Add it to where it came from."""
    if stride == 1:
        accumulate(behind(line, first), behind(x, first + offset), end - first)
        return
    for i in range(first, end):
        x[i * stride + offset] += line[i]


@function
def column_range(size, j):
    """The output columns whose entry, of column j of the kernel, is inside the image; and how far away it is."""
    offset = j * size[DILATION_WIDTH] - size[LEFT]
    end = end_inside(offset, size[STRIDE_WIDTH], size[WIDTH], size[OUT_WIDTH])
    return min(first_inside(offset, size[STRIDE_WIDTH]), end), end, offset


def _declare_walks(item: int, numbers: Any) -> None:
    """`unfold` and `fold`.

    Args:
        item: bytes of a number. numbers: makes a pointer of an address.
    """

    def unfold(row):
        """The windows of output rows of a group's planes, as [taps, output rows, output width]."""
        size, image, line = ints(row[SIZES]), numbers(row[PIXELS_OF]), numbers(row[UNFOLDED])
        count = size[OUT_WIDTH]
        for p in range(size[PLANES]):
            for i in range(size[KERNEL_HEIGHT]):
                for j in range(size[KERNEL_WIDTH]):
                    first, end, offset = column_range(size, j)
                    for h in range(row[START], row[END_ROW]):
                        at = h * size[STRIDE_HEIGHT] + i * size[DILATION_HEIGHT] - size[TOP]
                        if 0 <= at < size[HEIGHT]:
                            source = behind(image, (p * size[HEIGHT] + at) * size[WIDTH])
                            unfold_line(source, line, first, end, count, offset, size[STRIDE_WIDTH])
                        else:
                            clear(line, count)
                        line = behind(line, count)
        return 0

    def fold(row):
        """Add what `unfold` would have put there to where it comes from."""
        size, image, line = ints(row[SIZES]), numbers(row[PIXELS_OF]), numbers(row[UNFOLDED])
        for p in range(size[PLANES]):
            for i in range(size[KERNEL_HEIGHT]):
                for j in range(size[KERNEL_WIDTH]):
                    first, end, offset = column_range(size, j)
                    for h in range(row[START], row[END_ROW]):
                        at = h * size[STRIDE_HEIGHT] + i * size[DILATION_HEIGHT] - size[TOP]
                        if 0 <= at < size[HEIGHT]:
                            target = behind(image, (p * size[HEIGHT] + at) * size[WIDTH])
                            fold_line(line, target, first, end, offset, size[STRIDE_WIDTH])
                        line = behind(line, size[OUT_WIDTH])
        return 0

    for walk in (unfold, fold):
        walk.__name__ = kernel_of(walk.__name__, item)
        inner_kernel(ROW)(walk)


_declare_walks(FLOAT, floats)
_declare_walks(DOUBLE, doubles)


@function
def row_inside(size, i, h):
    """The row of the image that output row h meets with row i of the kernel; -1 if that is outside."""
    at = h * size[STRIDE_HEIGHT] + i * size[DILATION_HEIGHT] - size[TOP]
    return at if at < size[HEIGHT] else -1


@kernel(words=convolution_words, divides=("size[PLANES]",))
def unfold_samples(
    size: Ints("SIZE_WORDS"),
    x: Reals(
        ("size[PLANES]", "item * size[HEIGHT] * size[WIDTH]"), ("size[SAMPLES]", "sample"),
        ("size[HEIGHT] * size[WIDTH]", "item"),
    ),
    columns: Reals("size[PLANES]", "in_windows_of_plane(size)"), sample,
):  # fmt: skip
    """The windows of planes of all samples, as [taps, samples, output height, output width].

    sample: bytes from one to the next. Lines are short: calls for each would take longer than what they move.
    """
    count, stride = size[OUT_WIDTH], size[STRIDE_WIDTH]
    line = 0
    for p in range(size[PLANES]):
        for i in range(size[KERNEL_HEIGHT]):
            for j in range(size[KERNEL_WIDTH]):
                first, end, offset = column_range(size, j)
                for n in range(size[SAMPLES]):
                    for h in range(size[OUT_HEIGHT]):
                        at = row_inside(size, i, h)
                        source = behind(bytes_behind(x, n * sample), (p * size[HEIGHT] + max(at, 0)) * size[WIDTH])
                        begin, stop = (first, end) if at >= 0 else (count, count)
                        for w in range(begin):
                            columns[line + w] = 0
                        for w in range(begin, stop):
                            columns[line + w] = source[w * stride + offset]
                        for w in range(stop, count):
                            columns[line + w] = 0
                        line += count
    return 0


@kernel(words=convolution_words, divides=("size[PLANES]",))
def fold_samples(
    size: Ints("SIZE_WORDS"),
    x: Reals(
        ("size[PLANES]", "item * size[HEIGHT] * size[WIDTH]"), ("size[SAMPLES]", "sample"),
        ("size[HEIGHT] * size[WIDTH]", "item"),
    ),
    columns: Reals("size[PLANES]", "in_windows_of_plane(size)"), sample,
):  # fmt: skip
    """Add up in images what `unfold_samples` would have put there."""
    count, stride = size[OUT_WIDTH], size[STRIDE_WIDTH]
    line = 0
    for n in range(size[SAMPLES]):
        clear(bytes_behind(x, n * sample), size[PLANES] * size[HEIGHT] * size[WIDTH])
    for p in range(size[PLANES]):
        for i in range(size[KERNEL_HEIGHT]):
            for j in range(size[KERNEL_WIDTH]):
                first, end, offset = column_range(size, j)
                for n in range(size[SAMPLES]):
                    for h in range(size[OUT_HEIGHT]):
                        at = row_inside(size, i, h)
                        if at >= 0:
                            target = behind(bytes_behind(x, n * sample), (p * size[HEIGHT] + at) * size[WIDTH])
                            for w in range(first, end):
                                target[w * stride + offset] += columns[line + w]
                        line += count
    return 0


@function
def in_group(size):
    """Numbers of the images of a group."""
    return size[PLANES] * size[HEIGHT] * size[WIDTH]


@function
def describe_unfolding(size, unfolded, row):
    """What all blocks have in common."""
    row[SIZES], row[UNFOLDED] = address_of(size), address_of(unfolded)


@function
def describe_block(size, pixels, row, start):
    """The row of `unfold` and `fold`; returns how many output pixels the block has."""
    row[PIXELS_OF], row[START], row[END_ROW] = address_of(pixels), start, min(start + size[BLOCK], size[OUT_HEIGHT])
    return (row[END_ROW] - start) * size[OUT_WIDTH]


@kernel(words=convolution_words, divides=("size[SAMPLES]",))
def convolve_columns(
    size: Ints("SIZE_WORDS"), blas,
    x: Reals(
        ("size[SAMPLES]", "item * in_sample(size)"), ("size[GROUPS]", "item * (in_sample(size) // size[GROUPS])"),
        ("in_images(size, unfolding)", "item"),
    ),
    w: Reals("in_filter(size)"),
    out: Reals("size[SAMPLES]", "in_result(size)"), unfolding,
    unfolded: Reals("in_columns(size, unfolding)", own=True), row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """Any convolution.

    unfolding: the address of `unfold`, 0 if the images are the columns;
    unfolded: [taps, output rows of a block, output width]; row: of unfolding.
    """
    kernels, taps, plane = size[KERNELS], size[TAPS], size[OUT_HEIGHT] * size[OUT_WIDTH]
    describe_unfolding(size, unfolded, row)
    for n in range(size[SAMPLES] * size[GROUPS]):
        source, filter = behind(x, n * in_group(size)), behind(w, (n % size[GROUPS]) * kernels * taps)
        for start in range(0, size[OUT_HEIGHT], size[BLOCK]):
            count = describe_block(size, source, row, start)
            columns, distance = source, plane
            if unfolding != 0:
                call_row(unfolding, address_of(row))
                columns, distance = unfolded, count
            gemm(
                blas, AS_IT_IS, AS_IT_IS, kernels, count, taps, 1.0, filter, taps, columns, distance, 0.0,
                behind(out, n * kernels * plane + start * size[OUT_WIDTH]), plane,
            )  # fmt: skip
    return 0


@kernel(words=convolution_words)
def filter_gradient_columns(
    size: Ints("SIZE_WORDS"), blas,
    x: Reals(
        ("size[SAMPLES]", "item * in_sample(size)"), ("size[GROUPS]", "item * (in_sample(size) // size[GROUPS])"),
        ("in_images(size, unfolding)", "item"),
    ),
    g: Reals("size[SAMPLES]", "in_result(size)"),
    out: Reals("in_filter(size)"), unfolding,
    unfolded: Reals("in_columns(size, unfolding)", own=True), row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """The gradient of the filter of any convolution, else as `convolve_columns`."""
    kernels, taps, plane = size[KERNELS], size[TAPS], size[OUT_HEIGHT] * size[OUT_WIDTH]
    describe_unfolding(size, unfolded, row)
    clear(out, size[GROUPS] * kernels * taps)
    for n in range(size[SAMPLES] * size[GROUPS]):
        source, result = behind(x, n * in_group(size)), behind(out, (n % size[GROUPS]) * kernels * taps)
        for start in range(0, size[OUT_HEIGHT], size[BLOCK]):
            count = describe_block(size, source, row, start)
            columns, distance = source, plane
            if unfolding != 0:
                call_row(unfolding, address_of(row))
                columns, distance = unfolded, count
            gemm(
                blas, AS_IT_IS, FLIPPED, kernels, taps, count, 1.0,
                behind(g, n * kernels * plane + start * size[OUT_WIDTH]), plane, columns, distance, 1.0, result, taps,
            )  # fmt: skip
    return 0


@kernel(words=convolution_words, divides=("size[SAMPLES]",))
def input_gradient_columns(
    size: Ints("SIZE_WORDS"), blas,
    g: Reals("size[SAMPLES]", "in_result(size)"),
    w: Reals("in_filter(size)"),
    out: Reals(
        ("size[SAMPLES]", "item * in_sample(size)"), ("size[GROUPS]", "item * (in_sample(size) // size[GROUPS])"),
        ("in_images(size, folding)", "item"),
    ), folding,
    unfolded: Reals("in_columns(size, folding)", own=True), row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """The gradient of the input of any convolution. folding: the address of `fold`, else as `convolve_columns`."""
    kernels, taps, plane = size[KERNELS], size[TAPS], size[OUT_HEIGHT] * size[OUT_WIDTH]
    describe_unfolding(size, unfolded, row)
    if folding != 0:
        clear(out, size[SAMPLES] * size[GROUPS] * in_group(size))
    for n in range(size[SAMPLES] * size[GROUPS]):
        target, filter = behind(out, n * in_group(size)), behind(w, (n % size[GROUPS]) * kernels * taps)
        for start in range(0, size[OUT_HEIGHT], size[BLOCK]):
            count = describe_block(size, target, row, start)
            columns, distance = (unfolded, count) if folding != 0 else (target, plane)
            gemm(
                blas, FLIPPED, AS_IT_IS, taps, count, kernels, 1.0, filter, taps,
                behind(g, n * kernels * plane + start * size[OUT_WIDTH]), plane, 0.0, columns, distance,
            )  # fmt: skip
            if folding != 0:
                call_row(folding, address_of(row))
    return 0
