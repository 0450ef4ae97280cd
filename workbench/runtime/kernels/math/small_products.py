"""Matrix products by register tiles: sums of a few rows by up to four vectors of columns stay in registers.

Every element is a sum of sums over DEPTH terms, each of them one chain of fused multiply-adds in ascending order,
whatever the tiles and however the operands lie in memory; so bits depend on numbers alone. One chain over all terms
would lose a digit of a sum of ten thousand positive ones. All strides are in bytes.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.arguments import Address, Along
from workbench.runtime.kernels.intrinsics import INT, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tensor.transposes import copy_floats, transpose_matrix
from workbench.runtime.kernels.vectors import F32, I64, WIDTH, Vectors, loop
from workbench.runtime.words import product as product_words
from workbench.runtime.words.product import DEPTH, PANEL, TALL, TILE

# Rows of tiles by their vectors: sums, a row of B and an element of A fill the registers
if llvm.get_host_cpu_features().get("avx512f"):
    TILES = {1: (12, 4, 2, 1), 2: (12, 4, 2, 1), 3: (8, 4, 2, 1), 4: (6, 4, 2, 1)}
else:  # a vector is two registers, and there are sixteen
    TILES = {1: (6, 4, 2, 1)}
MOST_VECTORS = max(TILES)
ROW_GROUP = 3  # rows addressed from one pointer: x86 adds once or twice a register

BYTE = ir.IntType(8)


class _Tile:
    """The function `C = A B`, or `C += A B`, of one tile.

    Args:
        v: builder within it; arguments: of it, those of `tile` but the first two.
    """

    def __init__(self, v: Vectors, rows: int, vectors: int, arguments: Any) -> None:
        self.v, self.builder, self.rows, self.vectors = v, v.builder, rows, vectors
        self.a, self.a_row, self.a_col, self.b, self.b_row, self.c, self.c_row = arguments[:7]
        self.depth, last, self.adds = arguments[7:]
        self.mask = v.first_lanes(last)
        self.starts = range(0, rows, ROW_GROUP)

    def emit(self) -> None:
        sums = self._sums([self.v.number(0.0)] * (self.rows * self.vectors))
        with self.builder.if_else(self.builder.icmp_signed("!=", self.adds, I64(0))) as (added, alone):
            with added:
                self._store([self.v.add(self.v.load(*self._place(i)), x) for i, x in enumerate(sums)])
            with alone:
                self._store(sums)
        self.builder.ret_void()

    def _store(self, results: list[Any]) -> None:
        for position, x in enumerate(results):
            self.v.store(x, *self._place(position))

    def _sums(self, first: list[Any]) -> list[Any]:
        """The products added to `first`, row by row."""
        b, count = self.builder, len(self.starts)
        right = b.inttoptr(self.b, BYTE.as_pointer())
        left = [b.inttoptr(self._at(self.a, self.a_row, i), BYTE.as_pointer()) for i in self.starts]

        def step(_: Any, right: Any, *carried: Any) -> list[Any]:
            left, sums = carried[:count], carried[count:]
            row = [self._load(right, number) for number in range(self.vectors)]
            totals = []
            for i in range(self.rows):
                x = self._element(left[i // ROW_GROUP], i % ROW_GROUP)
                totals += [self.v.fma(x, y, sums[i * self.vectors + j]) for j, y in enumerate(row)]
            return [self._moved(right, self.b_row), *[self._moved(p, self.a_col) for p in left], *totals]

        return loop(b, self.depth, [right, *left, *first], step)[1 + count :]

    def _at(self, start: Any, pitch: Any, row: int) -> Any:
        return self.builder.add(start, self.builder.mul(pitch, I64(row)))

    def _moved(self, pointer: Any, distance: Any) -> Any:
        return self.builder.gep(pointer, [distance], source_etype=BYTE)

    def _element(self, pointer: Any, row: int) -> Any:
        """An element of A in all lanes."""
        at = self._moved(pointer, self.builder.mul(self.a_row, I64(row))) if row else pointer
        x = self.builder.load(self.builder.bitcast(at, F32.as_pointer()))
        x.align = 4
        return self.v.splat(x)

    def _load(self, pointer: Any, number: int) -> Any:
        """A vector of a row of B."""
        at = self.builder.ptrtoint(self._moved(pointer, I64(4 * WIDTH * number)), I64)
        return self.v.load(at, self._mask_of(number))

    def _mask_of(self, number: int) -> Any:
        return self.mask if number == self.vectors - 1 else None

    def _place(self, position: int) -> tuple[Any, Any]:
        """Address and mask of a vector of C."""
        row, number = divmod(position, self.vectors)
        at = self.builder.add(self._at(self.c, self.c_row, row), I64(4 * WIDTH * number))
        return at, self._mask_of(number)


def _tile_function(module: Any, rows: int, vectors: int) -> Any:
    """A function of its own: inlined, its loop would share registers with what is around it."""
    kind = ir.FunctionType(ir.VoidType(), [I64] * 10)
    function = ir.Function(module, kind, f"tile.{rows}x{vectors}")
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _Tile(Vectors(builder), rows, vectors, function.args).emit()
    return function


@intrinsic
def tile(
    context: Any, rows: Any, vectors: Any, a: Any, a_row: Any, a_col: Any, b: Any, b_row: Any, c: Any, c_row: Any,
    depth: Any, last: Any, adds: Any,
) -> Any:  # fmt: skip
    """`C = A B`, or `C += A B`, for one tile; `last` lanes of the last vector count."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        behind = builder.append_basic_block("behind")
        number = builder.add(builder.mul(args[1], I64(WIDTH)), args[0])
        switch = builder.switch(number, behind)
        for vectors, heights in TILES.items():
            for rows in heights:
                block = builder.append_basic_block(f"tile.{rows}x{vectors}")
                switch.add_case(I64(vectors * WIDTH + rows), block)
                builder.position_at_end(block)
                builder.call(_tile_function(builder.module, rows, vectors), args[2:])
                builder.branch(behind)
        builder.position_at_end(behind)
        return cx.get_dummy_value()

    return types.void(*[INT] * 12), generate


left_pitch = function(product_words.left_pitch)

_TALLEST = tuple(TILES.get(vectors, (0,))[0] for vectors in range(5))


@function
def height(vectors, rows):
    """Rows of the next tile."""
    most = _TALLEST[vectors]
    if rows >= most:
        return most
    if rows >= 4:
        return 4
    return 2 if rows >= 2 else 1


@function
def copy_panel(b, b_row, b_col, k, width, out, out_row):
    """Columns of B, one row after the other."""
    if b_col != 4:
        transpose_matrix(b, b_col, out, out_row, width, k)
    else:
        for i in range(k):
            copy_floats(b + i * b_row, out + i * out_row, width)


@function
def multiply(a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, adds, left, panel):
    """`C[m, n] = A[m, k] B[k, n]`, or `C += A B`, as `product` does it for each of a batch."""
    vectors = (n + 15) // 16
    panels = (vectors + MOST_VECTORS - 1) // MOST_VECTORS
    for done in range(0, k, DEPTH):
        depth = min(DEPTH, k - done)
        rows, rows_pitch, step = a + done * a_col, a_row, a_col
        if left != 0:
            rows, rows_pitch, step = left, 4 * left_pitch(k), 4
            transpose_matrix(a + done * a_col, a_col, left, rows_pitch, depth, m)
        for number in range(panels):
            begin, end = vectors * number // panels, vectors * (number + 1) // panels
            width = min(n, 16 * end) - 16 * begin
            right, right_pitch = b + done * b_row + 16 * begin * b_col, b_row
            if panel != 0:
                right_pitch = 64 * (end - begin)
                copy_panel(right, b_row, b_col, depth, width, panel, right_pitch)
                right = panel
            out, row = c + 64 * begin, 0
            while row < m:
                count = height(end - begin, m - row)
                tile(
                    count, end - begin, rows + row * rows_pitch, rows_pitch, step, right, right_pitch,
                    out + row * c_row, c_row, depth, width - 16 * (end - begin - 1), adds + done,
                )  # fmt: skip
                row += count


@kernel(words=product_words, divides=("n0", "n1", Along("n", unit=PANEL), Along("m", unit=TILE, least=TALL)))
def product(
    a: Address(("m", "4 if left is not None else a_row"), ("k", "a_col"), ("n0", "a0"), ("n1", "a1")), a_row, a_col,
    b: Address(
        ("k", "4 if panel is not None and b_col != 4 else b_row"), ("n", "4 if panel is None else b_col"),
        ("n0", "b0"), ("n1", "b1"),
    ),
    b_row, b_col, c: Address(("m", "c_row"), ("n", 4), ("n0", "c0"), ("n1", "c1")), c_row, m, n, k, adds,
    left: Address("m", "left_pitch(most_terms(k))", own=True, optional=True),
    panel: Address("most_terms(k)", "PANEL", own=True, optional=True), n0, a0, b0, c0, n1, a1, b1, c1,
):  # fmt: skip
    """`C[m, n] = A[m, k] B[k, n]` for a batch of n0 x n1; columns of C lie side by side.

    Args:
        adds: whether the products are added to C, which then is the first term of the sum of sums.
        left: memory for m rows of A, `left_pitch(k)` floats each, when it is to be copied; its columns lie one after
            the other then. 0 to read it where it is.
        panel: memory for DEPTH rows, or k, of PANEL columns of B when it is to be copied: it has to be unless its
            columns lie side by side. If they do not, its rows do. 0 to read it where it is.
    """
    for i in range(n0 * n1):
        first, second = i // n1, i % n1
        here, there, out = a + first * a0 + second * a1, b + first * b0 + second * b1, c + first * c0 + second * c1
        multiply(here, a_row, a_col, there, b_row, b_col, out, c_row, m, n, k, adds, left, panel)
    return 0
