"""Cases of slices, gathers, scatters and sorting; references go entry by entry or sort Python lists."""

import itertools

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(23)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def entries(shape):
    return itertools.product(*map(range, shape))


def ref_slice(x, axes, starts, ends, strides=None, decrease_axis=()):
    """Positions listed dimension by dimension with range()."""
    kept = [list(range(d)) for d in x.shape]
    for a, s, e, k in zip(axes, starts, ends, strides or [1] * len(axes), strict=True):
        kept[a] = kept[a][s:e:k]
    part = np.array([x[i] for i in itertools.product(*kept)]).reshape([len(k) for k in kept])
    shape = [d for a, d in enumerate(part.shape) if a not in [b % x.ndim for b in decrease_axis]]
    return part.reshape(shape or [1])


def ref_put(x, like, axes, starts, ends, strides, decrease_axis=()):
    places = ref_slice(np.arange(like.size).reshape(like.shape), axes, starts, ends, strides, decrease_axis)
    out = np.zeros(like.size)
    for place, value in zip(places.flat, x.flat, strict=True):
        out[int(place)] = value
    return out.reshape(like.shape)


def ref_gather(x, index, axis=0):
    moved = np.moveaxis(x, axis, 0)
    rows = np.array([moved[i] for i in index.flat]).reshape(*index.shape, *moved.shape[1:])
    return np.moveaxis(rows, range(index.ndim), range(axis % x.ndim, axis % x.ndim + index.ndim))


def ref_index_add(x, index, value, axis=0):
    out = np.moveaxis(x.copy(), axis, 0)
    axis = axis % x.ndim
    value = np.moveaxis(value, range(axis, axis + index.ndim), range(index.ndim)).reshape(-1, *out.shape[1:])
    for i, v in zip(index.flat, value, strict=True):
        out[i] += v
    return np.moveaxis(out, 0, axis)


def ref_gather_nd(x, index):
    depth = index.shape[-1]
    picked = [x[tuple(i)] for i in index.reshape(-1, depth)]
    return np.array(picked).reshape(*index.shape[:-1], *x.shape[depth:])


def ref_scatter_nd_add(x, index, updates):
    out, depth = x.copy(), index.shape[-1]
    for i, u in zip(index.reshape(-1, depth), updates.reshape(-1, *x.shape[depth:]), strict=True):
        out[tuple(i)] += u
    return out


def ref_scatter(x, ids, updates, overwrite=True):
    out = x.copy()
    if not overwrite:
        for i in ids:
            out[i] = 0
    for i, u in zip(ids, updates, strict=True):
        out[i] = u if overwrite else out[i] + u
    return out


def ref_take(x, index, axis=0):
    out = np.empty(index.shape)
    for i in entries(index.shape):
        at = list(i)
        at[axis] = index[i]
        out[i] = x[tuple(at)]
    return out


def ref_put_along(x, index, value, axis=0, reduce="assign"):
    out = x.copy()
    for i in entries(index.shape):
        at = list(i)
        at[axis] = index[i]
        out[tuple(at)] = value[i] + (out[tuple(at)] if reduce == "add" else 0)
    return out


def ref_order(x, axis, k, backwards):
    moved = np.moveaxis(x, axis, -1)
    shape = (*moved.shape[:-1], k)
    orders = [sorted(range(len(row)), key=lambda i: (-row[i] if backwards else row[i], i))[:k]
              for row in moved.reshape(-1, moved.shape[-1])]  # fmt: skip
    order = np.array(orders, np.int64).reshape(shape)
    values = np.array([row[i] for row, o in zip(moved.reshape(-1, moved.shape[-1]), orders, strict=True) for i in o])
    return np.moveaxis(values.reshape(shape), -1, axis), np.moveaxis(order, -1, axis)


def ref_argsort(x, axis=-1, descending=False):
    return ref_order(x, axis, x.shape[axis], descending)


def ref_topk(x, k=1, axis=-1, largest=True, sorted=True):
    return ref_order(x, axis, k, largest)


ALONG = RNG.integers(0, 4, (3, 5))
TIES = RNG.integers(0, 4, (4, 9))


def ref_put_at(x, positions, values):
    out = x.reshape(-1).tolist()
    for position, value in zip(positions.flat, np.broadcast_to(values, positions.shape).flat, strict=True):
        out[int(position)] = value
    return np.array(out).reshape(x.shape)


CASES = [
    Case("put_at", [draw(3, 4), np.array([[0, 5], [11, 2]]), draw(2, 2)], ref=ref_put_at, size0=False),
    Case("put_at", [draw(3, 4), np.array([[7, 5, 3], [11, 2, 0]]), draw(3)], ref=ref_put_at, size0=False, id="rows"),
    Case("put_at", [draw(3, 4), np.array(6), draw()], ref=ref_put_at, size0=False, id="one"),
    Case("slice", [draw(5, 4)], {"axes": [0], "starts": [1], "ends": [3]}, ref=ref_slice),
    Case(
        "slice",
        [draw(5, 4, 3)],
        {"axes": [0, -1], "starts": [-4, 0], "ends": [-1, 99]},
        ref=ref_slice,
        id="negative",
    ),
    Case(
        "slice",
        [draw(5, 4)],
        {"axes": [1], "starts": [2], "ends": [3], "decrease_axis": [1]},
        ref=ref_slice,
        id="column",
    ),
    Case(
        "slice",
        [draw(3, 2)],
        {"axes": [0, 1], "starts": [-1, 0], "ends": [2**31 - 1, 1], "decrease_axis": [0, 1]},
        ref=ref_slice,
        id="entry",
        size0=False,
    ),
    Case(
        "slice",
        [draw(3, 2)],
        {"axes": [0], "starts": [2], "ends": [1]},
        ref=lambda x, **a: np.zeros((0, 2)),
        id="nothing",
    ),
    Case("slice", [draw(3, 2)], ref=lambda x: x, id="all"),
    Case(
        "strided_slice",
        [draw(7, 4)],
        {"axes": [0], "starts": [1], "ends": [7], "strides": [2]},
        ref=ref_slice,
    ),
    Case(
        "strided_slice",
        [draw(5, 4)],
        {"axes": [0, 1], "starts": [5, -1], "ends": [-(2**31), -99], "strides": [-2, -1]},
        ref=ref_slice,
        id="backwards",
    ),
    Case(
        "strided_slice",
        [draw(5, 4)],
        {"axes": [0, 1], "starts": [3, 0], "ends": [4, 4], "strides": [1, 3], "decrease_axis": [0]},
        ref=ref_slice,
        id="row",
        size0=False,
    ),
    Case(
        "slice_put",
        [draw(2, 4), draw(5, 4)],
        {"axes": [0], "starts": [1], "ends": [4], "strides": [2]},
        ref=ref_put,
        size0=[[np.zeros((0, 4)), np.zeros((0, 4))]],
    ),
    Case(
        "slice_put",
        [draw(5), draw(5, 4)],
        {"axes": [1], "starts": [-1], "ends": [9], "strides": [1], "decrease_axis": [1]},
        ref=ref_put,
        id="column",
    ),
    Case(
        "gather",
        [draw(6, 3), np.array([4, 0, 4, 2])],
        ref=ref_gather,
        size0=[[draw(6, 3), np.zeros(0, np.int64)], [np.zeros((6, 0)), np.array([1, 2])]],
    ),
    Case(
        "gather",
        [draw(5, 4, 2), np.array([[3, 0], [3, 3], [1, 2]], np.int32)],
        {"axis": -2},
        ref=ref_gather,
        id="axis",
        size0=[[np.zeros((0, 4, 2)), np.array([[3, 0]])]],
    ),
    Case("gather", [draw(5, 4), np.array(2)], {"axis": 1}, ref=ref_gather, id="one"),
    Case(
        "index_add",
        [draw(6, 3), np.array([4, 0, 4]), draw(3, 3)],
        ref=ref_index_add,
        size0=[[draw(6, 3), np.zeros(0, np.int64), np.zeros((0, 3))]],
    ),
    Case(
        "index_add",
        [draw(5, 4, 2), np.array([[3, 0, 3]]), draw(5, 1, 3, 2)],
        {"axis": 1},
        ref=ref_index_add,
        id="axis",
    ),
    Case(
        "index_add",
        [np.zeros((4, 2), np.int64), np.array([1, 1, 3]), RNG.integers(0, 9, (3, 2))],
        ref=ref_index_add,
        id="int64",
        size0=False,
    ),
    Case(
        "gather_nd",
        [draw(5, 4, 2), np.array([[1, 3], [0, 0], [1, 3]])],
        ref=ref_gather_nd,
        known={"Index": (-1,)},
        size0=[[draw(5, 4), np.zeros((0, 2), np.int64)]],
    ),
    Case(
        "gather_nd",
        [draw(5, 4), np.array([[[4], [0]], [[4], [1]], [[3], [3]]], np.int32)],
        ref=ref_gather_nd,
        known={"Index": (-1,)},
        id="rows",
        size0=[[draw(5, 4), np.zeros((0, 2, 1), np.int64)]],
    ),
    Case(
        "scatter_nd_add",
        [draw(5, 4, 2), np.array([[1, 3], [0, 0], [1, 3]]), draw(3, 2)],
        ref=ref_scatter_nd_add,
        known={"Index": (-1,)},
        size0=False,
    ),
    Case(
        "scatter",
        [draw(6, 3), np.array([4, 0, 2]), draw(3, 3)],
        ref=ref_scatter,
        size0=[[draw(6, 3), np.zeros(0, np.int64), np.zeros((0, 3))]],
    ),
    Case(
        "scatter",
        [draw(6, 3), np.array([4, 0, 4], np.int32), draw(3, 3)],
        {"overwrite": False},
        ref=ref_scatter,
        id="add",
        size0=False,
    ),
    Case(
        "scatter",
        [draw(6, 3), np.array([4, 0, 4]), draw(3, 3)],
        ref=ref_scatter,
        id="last_stays",
        grad=("X",),
        size0=False,
    ),
    Case(
        "take_along_axis",
        [draw(4, 5), ALONG],
        ref=ref_take,
        size0=[[np.zeros((4, 0)), np.zeros((3, 0), np.int64)]],
    ),
    Case(
        "take_along_axis",
        [draw(3, 4, 2), RNG.integers(0, 4, (3, 6, 2))],
        {"axis": 1},
        ref=ref_take,
        id="middle",
    ),
    Case("put_along_axis", [draw(4, 3), np.array([[3, 1, 0]]), draw(1, 3)], ref=ref_put_along, size0=False),
    Case(
        "put_along_axis",
        [draw(4, 5), ALONG, draw(3, 5)],
        {"reduce": "add"},
        ref=ref_put_along,
        id="add",
        size0=False,
    ),
    Case("argsort", [draw(4, 6)], ref=ref_argsort),
    Case("argsort", [draw(4, 5, 2)], {"axis": 1, "descending": True}, ref=ref_argsort, id="descending"),
    Case("argsort", [TIES], ref=ref_argsort, id="ties"),
    Case(
        "argsort",
        [TIES.astype(np.uint8)],
        {"descending": True},
        ref=lambda x, **a: ref_argsort(x.astype(int), **a),
        id="ties_descending",
    ),
    Case("top_k_v2", [draw(4, 6)], {"k": 3}, ref=ref_topk),
    Case("top_k", [draw(4, 6)], {"k": 3}, ref=ref_topk),
    Case("top_k_v2", [draw(5, 4, 2)], {"k": 2, "axis": -2, "largest": False}, ref=ref_topk, id="smallest"),
    Case("top_k_v2", [TIES], {"k": 5}, ref=ref_topk, id="ties"),
]
