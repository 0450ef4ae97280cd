"""Embedding, its adjoint, and one-hot vectors; references by loops over the ids."""

from typing import Any

import numpy as np

from tests.ops.case import Case
from workbench.framework.values.rows import Rows

rng = np.random.default_rng(21)
TABLE = rng.standard_normal((7, 3))
IDS = np.array([[1, 4, 1], [0, 6, 4]], np.int64)


def lookup(table: np.ndarray, ids: np.ndarray, padding_idx: int = -1, is_sparse: bool = False) -> np.ndarray:
    out = np.zeros((*ids.shape, table.shape[1]))
    for place in np.ndindex(ids.shape):
        if ids[place] != padding_idx:
            out[place] = table[ids[place]]
    return out


def scatter(ids: np.ndarray, x: np.ndarray, like: np.ndarray, padding_idx: int = -1) -> np.ndarray:
    out = np.zeros(like.shape)
    for place in np.ndindex(ids.shape):
        if ids[place] != padding_idx:
            out[ids[place]] += x[place]
    return out


def one_hot(x: np.ndarray, depth: int, **attrs: Any) -> np.ndarray:
    out = np.zeros((*x.shape, depth))
    for place in np.ndindex(x.shape):
        if 0 <= x[place] < depth:
            out[place][x[place]] = 1
    return out


NO_IDS = [[TABLE, np.zeros((0,), np.int64)], [TABLE, np.zeros((2, 0), np.int64)]]

CASES = [
    Case("lookup_table_v2", [TABLE, IDS], ref=lookup, size0=NO_IDS),
    Case(
        "lookup_table_v2",
        [TABLE, IDS[0].astype(np.int32)],
        {"padding_idx": 1},
        lookup,
        id="padding",
        size0=NO_IDS,
    ),
    Case("lookup_table_v2", [TABLE, IDS], {"is_sparse": True}, lookup, id="sparse", size0=NO_IDS),
    Case(
        "lookup_table_v2",
        [TABLE, IDS],
        {"is_sparse": True, "padding_idx": 4},
        lookup,
        id="sparse, padding",
        size0=NO_IDS,
    ),
    Case("lookup_table_v2", [TABLE, np.array(5)], {}, lookup, id="one id", size0=False),
    Case(
        "lookup_table",
        [TABLE, IDS[..., None]],
        {"padding_idx": 6},
        lambda table, ids, **attrs: lookup(table, ids[..., 0], **attrs),
        known={"Ids": (2,)},
        size0=[[TABLE, np.zeros((0, 1), np.int64)]],
    ),
    Case(
        "lookup_table",
        [TABLE, IDS[..., None]],
        {"is_sparse": True},
        lambda table, ids, **attrs: lookup(table, ids[..., 0], **attrs),
        id="sparse",
        known={"Ids": (2,)},
        size0=False,
    ),
    Case(
        "scatter_rows",
        [IDS, rng.standard_normal((2, 3, 3)), TABLE],
        ref=scatter,
        size0=[[IDS[:0], np.zeros((0, 3, 3)), TABLE]],
    ),
    Case(
        "scatter_rows",
        [IDS, rng.standard_normal((2, 3, 3)), TABLE],
        {"padding_idx": 1},
        scatter,
        id="padding",
        size0=False,
    ),
    Case("get_tensor_from_selected_rows", [TABLE], ref=lambda x: x, id="dense"),
    Case(
        "get_tensor_from_selected_rows",
        [Rows(np.array([2, 0, 2]), TABLE[:3], 4)],
        ref=lambda x: np.stack([x.values[1], 0 * x.values[1], x.values[0] + x.values[2], 0 * x.values[1]]),
        grad=False,
        size0=False,
    ),
    Case("one_hot_v2", [IDS], {"depth": 7}, one_hot),
    Case("one_hot", [IDS[..., None]], {"depth": 7}, lambda x, **attrs: one_hot(x[..., 0], **attrs)),
    Case(
        "one_hot_v2",
        [np.array([0, 9, -1, 2])],
        {"depth": 3, "allow_out_of_range": True},
        one_hot,
        id="out of range",
    ),
]
