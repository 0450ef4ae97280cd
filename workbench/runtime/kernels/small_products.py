"""Matrix products by register tiles: a few rows by up to four vectors of columns stay in registers over all of k.

Every element is one chain of fused multiply-adds over k in ascending order, whatever the tiles and however the operands
lie in memory; so bits depend on numbers and shapes alone. All strides are in bytes.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.intrinsics import INT, REAL, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.transposes import copy_floats, transpose_matrix
from workbench.runtime.kernels.vectors import F32, I64, MASK, WIDTH, Vectors, loop

# Rows of tiles by their vectors: sums, a row of B and an element of A fill the registers
if llvm.get_host_cpu_features().get("avx512f"):
    TILES = {1: (12, 8, 4, 2, 1), 2: (12, 8, 4, 2, 1), 3: (8, 4, 2, 1), 4: (6, 4, 2, 1)}
else:  # a vector is two registers, and there are sixteen
    TILES = {1: (6, 4, 2, 1)}
MOST_VECTORS = max(TILES)
ROW_GROUP = 3  # rows addressed from one pointer: x86 adds once or twice a register

BYTE = ir.IntType(8)


class _Tile:
    """The function `C = alpha A B + beta C` of one tile.

    Args:
        v: builder within it; arguments: of it, as `TILE_ARGUMENTS`.
    """

    def __init__(self, v: Vectors, rows: int, vectors: int, arguments: Any) -> None:
        self.v, self.builder, self.rows, self.vectors = v, v.builder, rows, vectors
        self.a, self.a_row, self.a_col, self.b, self.b_row, self.c, self.c_row = arguments[:7]
        self.depth, last, self.alpha, self.beta = arguments[7:]
        self.mask = v.first_lanes(last)
        self.starts = range(0, rows, ROW_GROUP)

    def emit(self) -> None:
        sums = self._sums()
        b = self.builder
        plain = b.and_(b.fcmp_ordered("==", self.alpha, F32(1.0)), b.fcmp_ordered("==", self.beta, F32(0.0)))
        with b.if_else(plain, likely=True) as (then, otherwise):
            with then:
                self._store(sums)
            with otherwise:
                self._store(self._scaled(sums))
        b.ret_void()

    def _sums(self) -> list[Any]:
        """The products, row by row."""
        b, count = self.builder, len(self.starts)
        right = b.inttoptr(self.b, BYTE.as_pointer())
        left = [b.inttoptr(self._at(self.a, self.a_row, i), BYTE.as_pointer()) for i in self.starts]
        zeros = [self.v.number(0.0)] * (self.rows * self.vectors)

        def step(_: Any, right: Any, *carried: Any) -> list[Any]:
            left, sums = carried[:count], carried[count:]
            row = [self._load(right, number) for number in range(self.vectors)]
            made = []
            for i in range(self.rows):
                x = self._element(left[i // ROW_GROUP], i % ROW_GROUP)
                made += [self.v.fma(x, y, sums[i * self.vectors + j]) for j, y in enumerate(row)]
            return [self._moved(right, self.b_row), *[self._moved(p, self.a_col) for p in left], *made]

        return loop(b, self.depth, [right, *left, *zeros], step)[1 + count :]

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

    def _scaled(self, sums: list[Any]) -> list[Any]:
        """With alpha and what C held; C is not read where beta is 0."""
        v, b = self.v, self.builder
        alpha, beta = v.splat(self.alpha), v.splat(self.beta)
        whole, none = ir.Constant(MASK, [1] * WIDTH), ir.Constant(MASK, [0] * WIDTH)
        added = b.fcmp_unordered("!=", self.beta, F32(0.0))
        made = []
        for position, x in enumerate(sums):
            at, mask = self._place(position)
            held = v.load(at, b.select(added, whole if mask is None else mask, none))
            made.append(v.fma(beta, held, v.multiply(x, alpha)))
        return made

    def _store(self, sums: list[Any]) -> None:
        for position, x in enumerate(sums):
            self.v.store(x, *self._place(position))


def _tile_function(module: Any, rows: int, vectors: int) -> Any:
    """A function of its own: inlined, its loop would share registers with what is around it."""
    kind = ir.FunctionType(ir.VoidType(), [*[I64] * 9, F32, F32])
    made = ir.Function(module, kind, f"tile.{rows}x{vectors}")
    made.linkage = "internal"
    made.attributes.add("noinline")
    builder = ir.IRBuilder(made.append_basic_block("entry"))
    _Tile(Vectors(builder), rows, vectors, made.args).emit()
    return made


@intrinsic
def tile(
    context: Any, rows: Any, vectors: Any, a: Any, a_row: Any, a_col: Any, b: Any, b_row: Any, c: Any, c_row: Any,
    depth: Any, last: Any, alpha: Any, beta: Any,
) -> Any:  # fmt: skip
    """`C = alpha A B + beta C` for one tile; `last` lanes of the last vector count."""

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

    return types.void(*[INT] * 11, REAL, REAL), generate


_TALLEST = tuple(TILES.get(vectors, (0,))[0] for vectors in range(5))
_WITH_EIGHT = tuple(8 in TILES.get(vectors, ()) for vectors in range(5))


@function
def height(vectors, rows):
    """Rows of the next tile."""
    most = _TALLEST[vectors]
    if rows >= most:
        return most
    if rows >= 8 and _WITH_EIGHT[vectors]:
        return 8
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


@kernel(*[INT] * 11, REAL, REAL, *[INT] * 10)
def product(
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, alpha, beta, left, panel,
    n0, a0, b0, c0, n1, a1, b1, c1,
):  # fmt: skip
    """`C[m, n] = alpha A[m, k] B[k, n] + beta C` for a batch of n0 x n1; columns of C lie side by side.

    Args:
        left: memory for m rows of A, each an odd number of cache lines, when it is to be copied; its columns lie one
            after the other then. 0 to read it where it is.
        panel: memory for k rows of 64 columns of B when it is to be copied: it has to be unless its columns lie side by
            side. If they do not, its rows do. 0 to read it where it is.
    """
    vectors = (n + 15) // 16
    panels = (vectors + MOST_VECTORS - 1) // MOST_VECTORS
    for i in range(n0 * n1):
        first, second = i // n1, i % n1
        rows, rows_pitch, step = a + first * a0 + second * a1, a_row, a_col
        if left != 0:
            rows_pitch, step = 64 * ((k + 15) // 16 | 1), 4
            transpose_matrix(rows, a_col, left, rows_pitch, k, m)
            rows = left
        for number in range(panels):
            begin, end = vectors * number // panels, vectors * (number + 1) // panels
            width = min(n, 16 * end) - 16 * begin
            right, right_pitch = b + first * b0 + second * b1 + 16 * begin * b_col, b_row
            if panel != 0:
                right_pitch = 64 * (end - begin)
                copy_panel(right, b_row, b_col, k, width, panel, right_pitch)
                right = panel
            out = c + first * c0 + second * c1 + 64 * begin
            row = 0
            while row < m:
                count = height(end - begin, m - row)
                tile(
                    count, end - begin, rows + row * rows_pitch, rows_pitch, step, right, right_pitch,
                    out + row * c_row, c_row, k, width - 16 * (end - begin - 1), alpha, beta,
                )  # fmt: skip
                row += count
    return 0
