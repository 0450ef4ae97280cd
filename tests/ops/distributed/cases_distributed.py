"""Cases of ops that transpilers write and that arrays alone are enough for."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(17)
X = RNG.standard_normal((5, 3))

CASES = [
    Case(
        "ref_by_trainer_id",
        [[X, 2 * X, 3 * X], np.array([1])],
        ref=lambda xs, trainer: xs[1],
        size0=False,
    ),
    Case("c_sync_calc_stream", [X], ref=lambda x: x),
    Case("c_sync_comm_stream", [X], attrs={"ring_id": 1}, ref=lambda x, ring_id: x),
    Case(
        "split_byref",
        [X],
        attrs={"sections": [2, 3]},
        ref=lambda x, sections: ([x[:2], x[2:]],),
        size0=False,
        known={"X": (0,)},
    ),
    Case(
        "split_byref",
        [X[:, 0]],
        attrs={"sections": [1, 1, 3]},
        ref=lambda x, sections: ([x[:1], x[1:2], x[2:]],),
        size0=False,
        known={"X": (0,)},
        id="vector",
    ),
]
