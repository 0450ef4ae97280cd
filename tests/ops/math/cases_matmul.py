"""Cases of the matrix products; the references are sums written out with einsum."""

import math

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(21)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-9, 9, shape)


def ref_mul(x, y, x_num_col_dims=1, y_num_col_dims=1):
    rows, columns = x.shape[:x_num_col_dims], y.shape[y_num_col_dims:]
    inner = math.prod(x.shape[x_num_col_dims:])
    x, y = x.reshape(math.prod(rows), inner), y.reshape(inner, math.prod(columns))
    return (x[:, :, None] * y[None, :, :]).sum(axis=1).reshape(*rows, *columns)


def ref_matmul(x, y, trans_x=False, trans_y=False):
    letters_x = "k" if x.ndim == 1 else "...km" if trans_x else "...mk"
    letters_y = "k" if y.ndim == 1 else "...nk" if trans_y else "...kn"
    out = "..." * (x.ndim > 1 or y.ndim > 1) + "m" * (x.ndim > 1) + "n" * (y.ndim > 1)
    result = np.einsum(f"{letters_x},{letters_y}->{out}", x, y)
    return result if result.ndim else result.reshape(1)


def products(id, x, y, size0=True, **attrs):
    return Case("matmul_v2", [x, y], attrs, ref=ref_matmul, id=id, size0=size0)


CASES = [
    Case("mul", [draw(5, 4), draw(4, 3)], ref=ref_mul),
    Case("mul", [draw(5, 2, 3, 2), draw(6, 4)], {"x_num_col_dims": 2}, ref=ref_mul, id="rows"),
    Case(
        "mul",
        [draw(5, 3, 4), draw(3, 4, 2, 2)],
        {"y_num_col_dims": 2},
        ref=ref_mul,
        id="columns",
        known={"Y": True},
    ),
    Case(
        "mul",
        [draw(2, 3, 2, 2), draw(2, 2, 3)],
        {"x_num_col_dims": 2, "y_num_col_dims": 2},
        ref=ref_mul,
        id="both",
        size0=[[np.zeros((0, 3, 2, 2)), draw(2, 2, 3)], [np.zeros((2, 3, 0, 2)), np.zeros((0, 2, 3))]],
    ),
    Case("mul", [whole(3, 4), whole(4, 2)], ref=ref_mul, id="int64"),
    products("matrices", draw(5, 4), draw(4, 3)),
    products("trans_x", draw(4, 5), draw(4, 3), size0=[[np.zeros((4, 0)), draw(4, 3)]], trans_x=True),
    products("trans_y", draw(5, 4), draw(3, 4), trans_y=True),
    products(
        "trans_both",
        draw(4, 5),
        draw(3, 4),
        size0=[[np.zeros((0, 5)), np.zeros((3, 0))]],
        trans_x=True,
        trans_y=True,
    ),
    products("batch", draw(2, 3, 5, 4), draw(2, 3, 4, 6)),
    products("batch_trans_x", draw(2, 3, 4, 5), draw(2, 3, 4, 6), trans_x=True),
    products("batch_trans_y", draw(2, 3, 5, 4), draw(2, 3, 6, 4), trans_y=True),
    products("batch_trans_both", draw(2, 4, 5), draw(2, 6, 4), trans_x=True, trans_y=True),
    products("broadcast", draw(7, 1, 5, 4), draw(3, 4, 6)),
    products(
        "broadcast_trans",
        draw(3, 4, 5),
        draw(7, 1, 6, 4),
        trans_x=True,
        trans_y=True,
        size0=[[np.zeros((3, 4, 5)), np.zeros((0, 1, 6, 4))]],
    ),
    products("one_matrix_right", draw(7, 3, 5, 4), draw(4, 6)),
    products("one_matrix_right_trans", draw(7, 5, 4), draw(6, 4), trans_y=True),
    products("one_matrix_right_trans_x", draw(7, 4, 5), draw(4, 6), trans_x=True),
    products("one_matrix_left", draw(5, 4), draw(7, 4, 6), size0=[[np.zeros((5, 4)), np.zeros((0, 4, 6))]]),
    products("row", draw(4), draw(7, 4, 6), size0=[[draw(4), np.zeros((0, 4, 6))]]),
    products(
        "row_trans",
        draw(4),
        draw(7, 6, 4),
        size0=[[draw(4), np.zeros((0, 6, 4))]],
        trans_x=True,
        trans_y=True,
    ),
    products("row_matrix", draw(4), draw(4, 6)),
    products("column", draw(7, 5, 4), draw(4)),
    products("column_trans", draw(7, 4, 5), draw(4), trans_x=True, trans_y=True),
    products("matrix_column", draw(5, 4), draw(4)),
    products("vectors", draw(4), draw(4)),
    products("int32", whole(5, 4).astype("int32"), whole(4, 3).astype("int32")),
    Case("dot", [draw(6), draw(6)], ref=lambda x, y: np.array([math.fsum(x * y)])),
    Case("dot", [draw(3, 5), draw(3, 5)], ref=lambda x, y: np.einsum("ij,ij->i", x, y), id="rows"),
]
