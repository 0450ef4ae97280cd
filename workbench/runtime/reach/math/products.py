"""Matrix products. Strides are in bytes, leading dimensions in elements."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, reaches, span
from workbench.runtime.reach.divide import divides, owns
from workbench.runtime.words.product import PANEL, TALL, TILE, left_pitch, most_terms

FLIPPED = 112  # as CBLAS numbers it


@divides("m", unit=TILE, least=TALL, a=("a_row",), c=("c_row",))
@divides("n", unit=PANEL, b=("b_col",), c=(FLOAT,))
@divides("n1", a=("a1",), b=("b1",), c=("c1",))
@divides("n0", a=("a0",), b=("b0",), c=("c0",))
@owns("left", "panel")
@reaches("a", "b", "c", "left", "panel")
def product(
    a: Any, a_row: int, a_col: int, b: Any, b_row: int, b_col: int, c: Any, c_row: int, m: int, n: int, k: int,
    adds: int, left: Any, panel: Any, n0: int, a0: int, b0: int, c0: int, n1: int, a1: int, b1: int, c1: int,
) -> Any:  # fmt: skip
    """Columns of C lie side by side; so do rows of a left side that is copied, and those of a right side that is not.

    Of a right side that is copied either columns or rows do.
    """
    if left is not None:
        a_row = FLOAT
    if panel is None:
        b_col = FLOAT
    elif b_col != FLOAT:
        b_row = FLOAT
    return (
        span((m, a_row), (k, a_col), (n0, a0), (n1, a1)),
        span((k, b_row), (n, b_col), (n0, b0), (n1, b1)),
        span((m, c_row), (n, FLOAT), (n0, c0), (n1, c1)),
        FLOAT * m * left_pitch(most_terms(k)) if left is not None else 0,
        FLOAT * most_terms(k) * PANEL if panel is not None else 0,
    )


@divides("n1", a=("a1",), b=("b1",), c=("c1",))
@divides("n0", a=("a0",), b=("b0",), c=("c0",))
@reaches("a", "b", "c")
def gemm_batch(
    a: Any, flip_a: int, lda: int, b: Any, flip_b: int, ldb: int, c: Any, ldc: int, m: int, n: int, k: int, adds: int,
    target: int, n0: int, a0: int, b0: int, c0: int, n1: int, a1: int, b1: int, c1: int,
) -> Any:  # fmt: skip
    return (
        span(*_matrix(m, k, flip_a, lda), (n0, a0), (n1, a1)),
        span(*_matrix(k, n, flip_b, ldb), (n0, b0), (n1, b1)),
        span(*_matrix(m, n, 0, ldc), (n0, c0), (n1, c1)),
    )


def _matrix(rows: int, cols: int, flip: int, leading: int) -> tuple[tuple[int, int], tuple[int, int]]:
    down, right = (FLOAT, FLOAT * leading) if flip == FLIPPED else (FLOAT * leading, FLOAT)
    return (rows, down), (cols, right)
