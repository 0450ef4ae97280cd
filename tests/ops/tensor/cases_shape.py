"""Cases of the ops that change, join, cut, repeat and reorder shapes; references build entry by entry."""

import itertools

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(22)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def entries(shape):
    """All index tuples of a shape, in row-major order."""
    return itertools.product(*map(range, shape))


def refill(x, shape):
    """The entries of x in row-major order, written one by one into `shape`."""
    out = np.empty(shape)
    values = [x[i] for i in entries(x.shape)]
    for i, value in zip(entries(shape), values, strict=True):
        out[i] = value
    return out


def reshaped(id, x, shape, result, **more):
    return Case("reshape2", [x], {"shape": shape}, ref=lambda x, shape: refill(x, result), id=id, **more)


def ref_transpose(x, axis):
    out = np.empty([x.shape[a] for a in axis])
    for i in entries(x.shape):
        out[tuple(i[a] for a in axis)] = x[i]
    return out


def ref_concat(xs, axis=0):
    rows = [row for x in xs for row in np.moveaxis(x, axis, 0)]
    return np.moveaxis(np.array(rows), 0, axis)


def ref_split(x, axis=0, num=0, sections=()):
    moved = np.moveaxis(x, axis, 0)
    sizes = list(sections) or [len(moved) // num] * num
    rest = len(moved) - sum(s for s in sizes if s > 0)
    parts, rows = [], iter(moved)
    for size in sizes:
        part = list(itertools.islice(rows, size if size >= 0 else rest))
        parts.append(np.moveaxis(np.array(part).reshape(-1, *moved.shape[1:]), 0, axis))
    return (parts,)


def ref_stack(xs, axis=0):
    axis = axis % (xs[0].ndim + 1)
    shape = list(xs[0].shape)
    shape.insert(axis, len(xs))
    out = np.empty(shape)
    for i in entries(shape):
        out[i] = xs[i[axis]][i[:axis] + i[axis + 1 :]]
    return out


def ref_unstack(x, axis=0, num=0):
    axis = axis % x.ndim
    return (
        [
            np.array([x[i] for i in entries(x.shape) if i[axis] == k]).reshape(np.delete(x.shape, axis))
            for k in range(num)
        ],
    )


def ref_tile(x, repeat_times):
    rank = max(x.ndim, len(repeat_times))
    x = x.reshape((1,) * (rank - x.ndim) + x.shape)
    times = (1,) * (rank - len(repeat_times)) + tuple(repeat_times)
    out = np.empty([d * t for d, t in zip(x.shape, times, strict=True)])
    for i in entries(out.shape):
        out[i] = x[tuple(k % d for k, d in zip(i, x.shape, strict=True))]
    return out


def ref_expand(x, shape):
    kept = [d if s < 0 else s for s, d in zip(shape[::-1], x.shape[::-1], strict=False)][::-1]
    return np.ones((*shape[: len(shape) - x.ndim], *kept)) * x


def ref_flip(x, axis):
    out = np.empty_like(x)
    gone = [a % x.ndim for a in axis]
    for i in entries(x.shape):
        out[i] = x[tuple(x.shape[a] - 1 - k if a in gone else k for a, k in enumerate(i))]
    return out


def ref_roll(x, shifts, axis):
    out = np.empty_like(x)
    for i in entries(x.shape):
        to = list(i)
        for s, a in zip(shifts, axis, strict=True):
            to[a] = (to[a] + s) % x.shape[a]
        out[tuple(to)] = x[i]
    return out


CASES = [
    reshaped("known", draw(2, 6), [3, 4], (3, 4), size0=False),
    reshaped("rest", draw(2, 3, 4), [-1, 6], (4, 6), size0=[[np.zeros((0, 3, 4))]]),
    reshaped("copy", draw(5, 3, 4), [0, -1], (5, 12)),
    reshaped("copy_split", draw(2, 6, 4), [0, 2, -1, 4], (2, 2, 3, 4)),
    reshaped("one", draw(1), [], (), size0=False),
    reshaped("from_scalar", np.array(3.0), [1, -1], (1, 1), size0=False),
    Case(
        "reshape2",
        [RNG.integers(0, 9, (2, 3))],
        {"shape": [3, 2]},
        ref=lambda x, shape: refill(x, (3, 2)),
        id="int64",
        size0=False,
    ),
    Case(
        "reshape_like",
        [draw(2, 6), draw(3, 4)],
        ref=lambda x, like: refill(x, (3, 4)),
        size0=[[np.zeros((0, 6)), np.zeros((2, 0))]],
    ),
    Case("pylayer_gradient", [draw(3, 4), draw(3, 4)], {"function": "double", "of": "x"}, ref=lambda x, like, **_: x),
    Case(
        "flatten_contiguous_range",
        [draw(2, 3, 2)],
        {"start_axis": 0, "stop_axis": -1},
        ref=lambda x, **a: refill(x, (12,)),
        id="all",
    ),
    Case(
        "flatten_contiguous_range",
        [draw(2, 3, 2, 2)],
        {"start_axis": 1, "stop_axis": 2},
        ref=lambda x, **a: refill(x, (2, 6, 2)),
        id="middle",
    ),
    Case(
        "flatten_contiguous_range",
        [np.array(2.0)],
        {"start_axis": 0, "stop_axis": -1},
        ref=lambda x, **a: refill(x, (1,)),
        id="scalar",
    ),
    Case("squeeze2", [draw(3, 1, 2, 1)], {"axes": [1, -1]}, ref=lambda x, axes: refill(x, (3, 2))),
    Case("squeeze2", [draw(3, 2)], ref=lambda x: x, id="none"),
    Case("unsqueeze2", [draw(3, 2)], {"axes": [0, -1]}, ref=lambda x, axes: refill(x, (1, 3, 2, 1))),
    Case(
        "unsqueeze2",
        [draw(3, 2)],
        {"axes": [2, 0]},
        ref=lambda x, axes: refill(x, (1, 3, 2, 1)),
        id="one_by_one",
    ),
    Case("transpose2", [draw(2, 3, 4)], {"axis": [2, 0, 1]}, ref=ref_transpose),
    Case(
        "transpose2",
        [draw(2, 3, 4, 2)],
        {"axis": [0, 2, -3, -1]},
        ref=lambda x, axis: ref_transpose(x, [0, 2, 1, 3]),
        id="heads",
    ),
    Case("shape", [draw(4, 3, 2)], ref=lambda x: np.array([len(x), len(x[0]), len(x[0][0])])),
    Case("size", [draw(4, 3)], ref=lambda x: np.array([sum(1 for _ in x.flat)])),
    Case("concat", [[draw(2, 3), draw(4, 3)]], ref=ref_concat, size0=[[[np.zeros((0, 3)), draw(4, 3)]]]),
    Case("concat", [[draw(5, 2, 2), draw(5, 1, 2), draw(5, 3, 2)]], {"axis": -2}, ref=ref_concat, id="middle"),
    Case("concat", [[draw(5, 2)]], {"axis": 1}, ref=ref_concat, id="one"),
    Case(
        "split_like",
        [draw(6, 2), [draw(1, 2), draw(3, 2), draw(2, 2)]],
        ref=lambda x, likes: ref_split(x, 0, 0, (1, 3, 2)),
        size0=False,
    ),
    Case(
        "split_like",
        [draw(5, 4), [draw(5, 1), draw(5, 3)]],
        {"axis": -1},
        ref=lambda x, likes, axis: ref_split(x, -1, 0, (1, 3)),
        id="last",
    ),
    Case("split", [draw(6, 2)], {"num": 3}, ref=ref_split),
    Case("split", [draw(5, 7)], {"sections": [2, -1, 1], "axis": 1}, ref=ref_split, id="sections"),
    Case("split", [draw(5, 4, 2)], {"num": 2, "axis": -2}, ref=ref_split, id="middle"),
    Case("stack", [[draw(3, 2), draw(3, 2)]], ref=ref_stack),
    Case("stack", [[draw(3, 2), draw(3, 2), draw(3, 2)]], {"axis": -2}, ref=ref_stack, id="middle"),
    Case("unstack", [draw(3, 2)], {"num": 3}, ref=ref_unstack, known={"X": (0,)}, size0=False),
    Case("unstack", [draw(5, 3, 2)], {"num": 2, "axis": -1}, ref=ref_unstack, known={"X": (-1,)}, id="last"),
    Case("tile", [draw(3, 2)], {"repeat_times": [2, 3]}, ref=ref_tile),
    Case("tile", [draw(3, 2)], {"repeat_times": [2, 1, 2]}, ref=ref_tile, id="new_dims"),
    Case("tile", [draw(2, 3, 2)], {"repeat_times": [2]}, ref=ref_tile, id="last"),
    Case("expand_v2", [draw(3, 1)], {"shape": [3, 4]}, ref=ref_expand, size0=False),
    Case("expand_v2", [draw(3, 1, 2)], {"shape": [4, -1, 3, -1]}, ref=ref_expand, id="new_dims"),
    Case(
        "expand_as_v2",
        [draw(3, 1), draw(2, 3, 4)],
        ref=lambda x, y: ref_expand(x, [2, 3, 4]),
        size0=[[np.zeros((1, 1)), np.zeros((0, 3))]],
    ),
    Case("flip", [draw(3, 4)], {"axis": [1]}, ref=ref_flip),
    Case("flip", [draw(3, 4, 2)], {"axis": [0, -1]}, ref=ref_flip, id="two"),
    Case("roll", [draw(4, 3)], {"shifts": [1], "axis": [0]}, ref=ref_roll),
    Case("roll", [draw(4, 3)], {"shifts": [-5, 2], "axis": [0, 1]}, ref=ref_roll, id="two"),
]
