"""Cases of pooling; the reference walks over windows and looks at their entries one by one."""

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(26)


def distinct(*shape: int) -> np.ndarray:
    """Entries far enough apart that no difference quotient changes a maximum."""
    return RNG.permutation(int(np.prod(shape))).reshape(shape) / 7.0


def spans(size, axis, **a):
    """(start, stop, padded length) of the windows along one dimension, by Paddle's rules."""
    if a.get("global_pooling"):
        return [(0, size, size)]
    k = a["ksize"][axis]
    if a.get("adaptive"):
        ends = [(int(np.floor(i * size / k)), int(np.ceil((i + 1) * size / k))) for i in range(k)]
        return [(s, e, e - s) for s, e in ends]
    s = a.get("strides", [1, 1])[axis]
    algorithm = a.get("padding_algorithm", "EXPLICIT")
    pads = a.get("paddings", [0, 0])
    before, after = (pads[axis], pads[axis]) if len(pads) == 2 else pads[2 * axis : 2 * axis + 2]
    if algorithm == "VALID":
        before = after = 0
    if algorithm == "SAME":
        total = max((-(-size // s) - 1) * s + k - size, 0)
        before, after = total // 2, total - total // 2
    ranges, start = [], -before
    while start < size and (start + k <= size + after or (a.get("ceil_mode") and start + k < size + after + s)):
        ranges.append((max(start, 0), min(start + k, size), min(start + k, size + after) - start))
        start += s
    return ranges


def windows(shape, **a):
    """{(row, column): (pixels of the window in row-major order, padded size)}"""
    by_place = {}
    for r, (y0, y1, h) in enumerate(spans(shape[2], 0, **a)):
        for c, (x0, x1, w) in enumerate(spans(shape[3], 1, **a)):
            by_place[r, c] = [(y, x) for y in range(y0, y1) for x in range(x0, x1)], h * w
    return by_place


def first_maximum(plane, pixels):
    best = pixels[0]
    for p in pixels[1:]:
        if plane[p] > plane[best]:
            best = p
    return best


def shares(x, b, c, pixels, padded, pooling_type="max", exclusive=True, **a):
    """{pixel: weight} of one window in its output."""
    if pooling_type == "max":
        return {first_maximum(x[b, c], pixels): 1.0}
    return {p: 1.0 / (len(pixels) if exclusive else padded) for p in pixels}


def nchw(function):
    """Run a reference on channels first."""

    def ref(*arrays, data_format="NCHW", **attrs):
        if data_format == "NCHW":
            return function(*arrays, **attrs)
        return np.moveaxis(function(*(np.moveaxis(a, -1, 1) for a in arrays), **attrs), 1, -1)

    return ref


@nchw
def ref_pick(x, value, **a):
    by_place = windows(x.shape, **a)
    size = max(by_place)
    out = np.zeros((*x.shape[:2], size[0] + 1, size[1] + 1))
    for b, c in np.ndindex(*x.shape[:2]):
        for at, (pixels, padded) in by_place.items():
            out[(b, c, *at)] = sum(w * value[b, c][p] for p, w in shares(x, b, c, pixels, padded, **a).items())
    return out


@nchw
def ref_spread(x, g, **a):
    out = np.zeros(x.shape)
    for b, c in np.ndindex(*x.shape[:2]):
        for at, (pixels, padded) in windows(x.shape, **a).items():
            for p, w in shares(x, b, c, pixels, padded, **a).items():
                out[b, c][p] += w * g[(b, c, *at)]
    return out


def ref_pool(x, **a):
    return ref_pick(x, x, **a)


def ref_with_index(x, **a):
    places = np.broadcast_to(np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:]), x.shape)
    return ref_pick(x, x, **a), ref_pick(x, places, **a)


SETTINGS = {
    "2x2": ((3, 2, 4, 6), {"ksize": [2, 2], "strides": [2, 2]}),
    "cropped": ((2, 1, 5, 7), {"ksize": [2, 2], "strides": [2, 3]}),
    "overlapping": ((2, 2, 5, 6), {"ksize": [3, 2], "strides": [1, 1]}),
    "padded": ((2, 2, 5, 6), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}),
    "uneven": ((2, 1, 5, 6), {"ksize": [3, 4], "strides": [2, 1], "paddings": [0, 2, 1, 3]}),
    "ceil": ((2, 2, 6, 5), {"ksize": [3, 2], "strides": [2, 2], "ceil_mode": True}),
    "ceil_padded": (
        (2, 1, 6, 5),
        {"ksize": [3, 2], "strides": [4, 3], "paddings": [1, 1], "ceil_mode": True},
    ),
    "same": ((2, 1, 5, 6), {"ksize": [3, 2], "strides": [2, 2], "padding_algorithm": "SAME"}),
    "valid": (
        (2, 1, 5, 6),
        {"ksize": [3, 2], "strides": [2, 2], "padding_algorithm": "VALID", "paddings": [1, 1]},
    ),
    "global": ((2, 3, 4, 5), {"global_pooling": True}),
    "adaptive": ((2, 2, 7, 5), {"adaptive": True, "ksize": [3, 2]}),
    "adaptive_more": ((2, 1, 3, 4), {"adaptive": True, "ksize": [5, 4]}),
    "adaptive_even": ((2, 1, 6, 4), {"adaptive": True, "ksize": [3, 1]}),
    "channels_last": (
        (2, 5, 6, 3),
        {"ksize": [3, 2], "strides": [2, 2], "paddings": [1, 0], "data_format": "NHWC"},
    ),
}


def settings(*names, **more):
    return [(n, SETTINGS[n][0], {**SETTINGS[n][1], **more}) for n in names or SETTINGS]


def out_shape(shape, a):
    return ref_pool(np.zeros(shape), **a).shape


CASES = [
    *(Case("pool2d", [distinct(*s)], a, ref=ref_pool, id=f"max_{n}") for n, s, a in settings()),
    *(Case("pool2d", [distinct(*s)], a, ref=ref_pool, id=f"avg_{n}") for n, s, a in settings(pooling_type="avg")),
    *(
        Case("pool2d", [distinct(*s)], a, ref=ref_pool, id=f"inclusive_{n}")
        for n, s, a in settings("padded", "uneven", "ceil_padded", "same", pooling_type="avg", exclusive=False)
    ),
    Case("pool2d", [RNG.integers(-9, 9, (2, 1, 5, 4))], SETTINGS["padded"][1], ref=ref_pool, id="int64"),
    *(
        Case(
            "pool2d_spread",
            [RNG.integers(0, 3, s) * 1.0, RNG.standard_normal(out_shape(s, a))],
            a,
            ref=ref_spread,
            id=f"max_{n}",
        )
        for n, s, a in settings("2x2", "uneven", "global", "adaptive", "channels_last")
    ),
    *(
        Case(
            "pool2d_spread",
            [distinct(*s), RNG.standard_normal(out_shape(s, a))],
            a,
            ref=ref_spread,
            id=f"avg_{n}",
        )
        for n, s, a in settings("uneven", "global", "adaptive", pooling_type="avg")
    ),
    *(
        Case(
            "pool2d_pick",
            [RNG.integers(0, 3, s) * 1.0, RNG.standard_normal(s)],
            a,
            ref=ref_pick,
            id=f"max_{n}",
        )
        for n, s, a in settings("2x2", "uneven", "global", "adaptive", "channels_last")
    ),
    Case(
        "pool2d_pick",
        [distinct(2, 1, 5, 6), RNG.standard_normal((2, 1, 5, 6))],
        {**SETTINGS["uneven"][1], "pooling_type": "avg"},
        ref=ref_pick,
        id="avg",
    ),
    *(
        Case("max_pool2d_with_index", [distinct(*s)], a, ref=ref_with_index, id=n)
        for n, s, a in settings("2x2", "uneven", "global", "adaptive")
    ),
]
