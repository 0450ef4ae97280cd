"""Buckets and modes against loops."""

import collections

import numpy as np

from tests.ops.case import Case

R = np.random.default_rng(47)
smaller = min
EDGES = np.array([-1.0, 0.0, 0.0, 2.0, 3.5])
ROWS = np.sort(R.normal(size=(2, 3, 5)), axis=-1)
ASKED = R.normal(size=(2, 3, 4))
VALUES = np.array([[-2.0, -1.0, 0.0], [1.0, 3.5, 9.0]])
FREQUENT = np.array([[2.0, 3.0, 2.0, 3.0, 1.0], [4.0, 5.0, 6.0, 5.0, 5.0]])


def below(edges, values, out_int32=False, right=False):
    out = np.empty(values.shape, np.int32 if out_int32 else np.int64)
    for index in np.ndindex(*values.shape):
        row = edges if edges.ndim == 1 else edges[index[:-1]]
        out[index] = sum(e <= values[index] if right else e < values[index] for e in row)
    return out


def histogram(x, bins=100, min=0.0, max=0.0):
    low, high = (min, max) if min != max else (x.min(), x.max())
    out = np.zeros(bins, np.int64)
    for value in x.ravel():
        if low <= value <= high:
            out[smaller(int((value - low) / (high - low) * bins), bins - 1)] += 1
    return out


def mode(x, axis=-1, keepdim=False):
    moved = np.moveaxis(x, axis, -1)
    values, places = np.empty(moved.shape[:-1]), np.empty(moved.shape[:-1], np.int64)
    for index in np.ndindex(*values.shape):
        row = moved[index].tolist()
        counts = collections.Counter(row)
        values[index] = min(v for v in counts if counts[v] == max(counts.values()))
        places[index] = max(i for i, v in enumerate(row) if v == values[index])
    if keepdim:
        return np.expand_dims(values, axis), np.expand_dims(places, axis)
    return values, places


CASES = [
    Case("searchsorted", [EDGES, VALUES], ref=below, size0=[[EDGES, VALUES[:0]]]),
    Case("searchsorted", [EDGES, VALUES], {"right": True, "out_int32": True}, ref=below, id="right", size0=False),
    Case("searchsorted", [ROWS, ASKED], ref=below, id="rows", dtypes=("float64",), size0=[[ROWS[:0], ASKED[:0]]]),
    Case("histogram", [VALUES], {"bins": 4, "min": -1.0, "max": 3.0}, ref=histogram),
    Case("histogram", [VALUES], {"bins": 5}, ref=histogram, id="whole range", dtypes=("float64",)),
    Case("mode", [VALUES], ref=mode),
    Case("mode", [FREQUENT], ref=mode, grad=False, id="frequent"),
    Case("mode", [FREQUENT.T], {"axis": 0, "keepdim": True}, ref=mode, id="kept", size0=False, grad=False),
]
