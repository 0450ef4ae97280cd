"""Attention. Strides are in bytes."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, Extent, reaches, span
from workbench.runtime.reach.divide import divides, owns
from workbench.runtime.words.attention import TALL, backward_memory, forward_memory


@divides("m", unit=TALL, q=("q_row",), mask=("mask_row",), out=("out_row",))
@divides("n1", q=("q1",), k=("k1",), v=("v1",), mask=("mask1",), out=("out1",))
@divides("n0", q=("q0",), k=("k0",), v=("v0",), mask=("mask0",), out=("out0",))
@owns("memory")
@reaches("q", "k", "v", "mask", "out", "memory")
def attention(
    q: Any, q_row: int, q_col: int, k: Any, k_row: int, k_col: int, v: Any, v_row: int, v_col: int,
    mask: Any, mask_row: int, out: Any, out_row: int, m: int, n: int, d: int, e: int, by: float, divides: int,
    memory: Any, n0: int, q0: int, k0: int, v0: int, mask0: int, out0: int,
    n1: int, q1: int, k1: int, v1: int, mask1: int, out1: int,
) -> Any:  # fmt: skip
    """Of queries, keys and values rows or columns lie side by side."""
    return (
        _matrices((m, q_row), (d, q_col), (n0, q0), (n1, q1)),
        _matrices((n, k_row), (d, k_col), (n0, k0), (n1, k1)),
        _matrices((n, v_row), (e, v_col), (n0, v0), (n1, v1)),
        span((m, mask_row), (n, FLOAT), (n0, mask0), (n1, mask1)) if mask is not None else 0,
        span((m, out_row), (e, FLOAT), (n0, out0), (n1, out1)),
        FLOAT * forward_memory(n, d, e),
    )


@divides("n1", q=("q1",), k=("k1",), v=("v1",), mask=("mask1",), g=("g1",), gq=("gq1",), gk=("gk1",), gv=("gv1",))
@divides("n0", q=("q0",), k=("k0",), v=("v0",), mask=("mask0",), g=("g0",), gq=("gq0",), gk=("gk0",), gv=("gv0",))
@owns("memory")
@reaches("q", "k", "v", "mask", "g", "gq", "gk", "gv", "memory")
def attention_grad(
    q: Any, q_row: int, q_col: int, k: Any, k_row: int, k_col: int, v: Any, v_row: int, v_col: int,
    mask: Any, mask_row: int, g: Any, g_row: int, g_col: int, gq: Any, gq_row: int,
    gk: Any, gk_row: int, gk_col: int, gv: Any, gv_row: int, m: int, n: int, d: int, e: int,
    by: float, divides: int, memory: Any,
    n0: int, q0: int, k0: int, v0: int, mask0: int, g0: int, gq0: int, gk0: int, gv0: int,
    n1: int, q1: int, k1: int, v1: int, mask1: int, g1: int, gq1: int, gk1: int, gv1: int,
) -> Any:  # fmt: skip
    """The same; rows or columns lie side by side of the gradient of keys, too."""
    return (
        _matrices((m, q_row), (d, q_col), (n0, q0), (n1, q1)),
        _matrices((n, k_row), (d, k_col), (n0, k0), (n1, k1)),
        _matrices((n, v_row), (e, v_col), (n0, v0), (n1, v1)),
        span((m, mask_row), (n, FLOAT), (n0, mask0), (n1, mask1)) if mask is not None else 0,
        _matrices((m, g_row), (e, g_col), (n0, g0), (n1, g1)),
        span((m, gq_row), (d, FLOAT), (n0, gq0), (n1, gq1)) if gq is not None else 0,
        _matrices((n, gk_row), (d, gk_col), (n0, gk0), (n1, gk1)) if gk is not None else 0,
        span((n, gv_row), (e, FLOAT), (n0, gv0), (n1, gv1)) if gv is not None else 0,
        FLOAT * backward_memory(n, d, e),
    )


def _matrices(rows: tuple[int, int], columns: tuple[int, int], *batch: tuple[int, int]) -> Extent:
    """What is read as rows or as columns that lie side by side: whichever do not have the other's stride."""
    (height, down), (width, right) = rows, columns
    if right != FLOAT:
        down = FLOAT
    return span((height, down), (width, right), *batch)
