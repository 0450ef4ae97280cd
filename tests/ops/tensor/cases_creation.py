"""New tensors against lists built in Python."""

import numpy as np

from tests.ops.case import Case

R = np.random.default_rng(31)
X = R.normal(size=(3, 4))


def full(shape=(), value=0.0, dtype="float32"):
    count = int(np.prod(shape))
    return np.array([value] * count, dtype=dtype).reshape(shape)


def counted(start=0, end=0, step=1, dtype="int64"):
    values, value = [], start
    while (value < end) if step > 0 else (value > end):
        values.append(value)
        value = start + len(values) * step
    return np.array(values, dtype=dtype)


def linspace(start=0.0, stop=0.0, num=1, dtype="float32"):
    return np.array([start + (stop - start) * i / max(num - 1, 1) for i in range(num)], dtype=dtype)


def eye(num_rows=0, num_columns=0, dtype="float32"):
    return np.array([[i == j for j in range(num_columns)] for i in range(num_rows)], dtype=dtype)


def triangle(x, diagonal=0, lower=True):
    rows, columns = np.indices(x.shape[-2:])
    keep = columns - rows <= diagonal if lower else columns - rows >= diagonal
    return np.where(keep, x, 0)


VALUES = np.array([[1, 2, 3], [4, 5, 6]], np.int32)

CASES = [
    Case("fill_constant", [], {"shape": [2, 3], "value": 1.5}, ref=full),
    Case("fill_constant", [], {"value": 2.0, "dtype": "float16"}, ref=full, id="no dims"),
    Case("fill_constant", [], {"shape": (0, 4), "value": 1.0}, ref=full, id="empty"),
    Case(
        "fill_constant",
        [],
        {"shape": [2], "value": 2**53 + 1, "dtype": "int64"},
        ref=full,
        id="large integer",
    ),
    Case("fill_constant", [], {"shape": [2], "value": True, "dtype": "bool"}, ref=full, id="bool"),
    Case("fill_constant", [], {"shape": [2], "value": float("inf")}, ref=full, id="infinite"),
    Case("fill_any_like", [X], {"value": 3.0}, ref=lambda x, value: np.array([[3.0] * 4] * 3)),
    Case(
        "fill_any_like",
        [X],
        {"value": 7, "dtype": "int32"},
        ref=lambda x, value, dtype: np.array([[7] * 4] * 3),
        id="dtype",
    ),
    Case(
        "fill_constant_batch_size_like",
        [X],
        {"shape": [2, -1], "input_dim_idx": 0, "output_dim_idx": 1, "value": 5, "dtype": "int64"},
        ref=lambda x, **attrs: np.array([[5] * 3] * 2),
        size0=[[np.zeros((0, 4))]],
    ),
    Case(
        "assign_value",
        [],
        {"values": VALUES, "shape": (2, 3), "dtype": "int32"},
        ref=lambda values, shape, dtype: np.arange(1, 7, dtype=np.int32).reshape(2, 3),
    ),
    Case(
        "assign_value",
        [],
        {"values": [0.5, -1.0], "shape": [2], "dtype": "float32"},
        ref=lambda values, shape, dtype: np.array([0.5, -1.0], np.float32),
        id="list",
    ),
    Case("detach", [np.arange(6.0).reshape(2, 3)], ref=lambda x: x),
    Case("assign", [X], ref=lambda x: x),
    Case("assign", [VALUES], ref=lambda x: x, id="integers"),
    Case("range", [], {"end": 5}, ref=counted),
    Case("range", [], {"start": 7, "end": -2, "step": -3}, ref=counted, id="down"),
    Case("range", [], {"start": 0.5, "end": 2.0, "step": 0.25, "dtype": "float32"}, ref=counted, id="fractions"),
    Case("range", [], {"start": 3, "end": 3}, ref=counted, id="empty"),
    Case("linspace", [], {"start": -1.0, "stop": 2.0, "num": 7}, ref=linspace),
    Case("linspace", [], {"start": 4.0, "stop": 2.0, "num": 1, "dtype": "float64"}, ref=linspace, id="one"),
    Case("eye", [], {"num_rows": 3, "num_columns": 4}, ref=eye),
    Case("eye", [], {"num_rows": 2, "num_columns": 2, "dtype": "int32"}, ref=eye, id="integers"),
    Case("tril_triu", [X], ref=triangle),
    Case("tril_triu", [X], {"diagonal": -1}, ref=triangle, id="below"),
    Case("tril_triu", [np.stack([X, -X])], {"diagonal": 1, "lower": False}, ref=triangle, id="upper batch"),
]
