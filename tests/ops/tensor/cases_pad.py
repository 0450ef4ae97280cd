"""Cases of padding; the reference looks every entry up by a rule for its position."""

import itertools

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(24)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def source(position, size, mode):
    """The entry that a padded position repeats, None for a constant."""
    if 0 <= position < size:
        return position
    if mode == "constant":
        return None
    if mode == "replicate":
        return 0 if position < 0 else size - 1
    if mode == "circular":
        return position % size
    return -position if position < 0 else 2 * (size - 1) - position


def ref_pad(x, paddings, mode="constant", value=0.0):
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    out = np.full([b + d + a for d, (b, a) in zip(x.shape, widths, strict=True)], value)
    for i in itertools.product(*map(range, out.shape)):
        at = [source(k - b, d, mode) for k, d, (b, _) in zip(i, x.shape, widths, strict=True)]
        if None not in at:
            out[i] = x[tuple(at)]
    return out


def ref_unpad(x, paddings, mode="constant"):
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    out = np.zeros([d - b - a for d, (b, a) in zip(x.shape, widths, strict=True)])
    for i in itertools.product(*map(range, x.shape)):
        at = [source(k - b, d, mode) for k, d, (b, _) in zip(i, out.shape, widths, strict=True)]
        if None not in at:
            out[tuple(at)] += x[i]
    return out


def modes(type, ref, x, paddings):
    return [
        Case(type, [x], {"paddings": paddings, "mode": mode}, ref=ref, id=mode, size0=False)
        for mode in ("reflect", "replicate", "circular")
    ]


CASES = [
    Case("pad", [draw(3, 2)], {"paddings": [1, 0, 2, 3]}, ref=ref_pad),
    Case("pad", [draw(2, 3, 2)], {"paddings": [0, 0, 1, 1, 0, 2], "value": -1.5}, ref=ref_pad, id="value"),
    Case("pad", [RNG.integers(0, 9, (2, 3))], {"paddings": [1, 1, 0, 2], "value": 7.0}, ref=ref_pad, id="int64"),
    *modes("pad", ref_pad, draw(3, 4, 2), [0, 2, 3, 1, 0, 0]),
    Case("unpad", [draw(6, 4)], {"paddings": [1, 2, 0, 1]}, ref=ref_unpad, size0=False),
    *modes("unpad", ref_unpad, draw(5, 7, 2), [0, 2, 2, 2, 0, 0]),
]
