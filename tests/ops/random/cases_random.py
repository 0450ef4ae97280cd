"""Random ops: range, dtype and rough moments per case; the distributions are tested in test_random.py."""

import numpy as np

from tests.ops.case import Case

N = 4000


def within(low, high, mean, std):
    """The numbers lie in [low, high); mean and deviation are near the given ones (5 standard errors)."""

    def check(x):
        values = np.asarray(x, np.float64)
        assert values.min() >= low and values.max() < high
        assert abs(values.mean() - mean) < 5 * std / np.sqrt(values.size) + 1e-2 * std
        assert abs(values.std() / std - 1) < 0.1

    return check


def permutation(x):
    assert sorted(x.tolist()) == list(range(50)) and x.tolist() != list(range(50))


def coins(x):
    values = np.asarray(x, np.float64)
    assert set(np.unique(values)) <= {0.0, 1.0}
    assert (values[:, 0] == 0).all() and (values[:, 2] == 1).all()
    assert 0.2 < values[:, 1].mean() < 0.4


CASES = [
    *[
        Case(
            "uniform_random",
            [],
            {"shape": [N], "dtype": d, "min": -2.0, "max": 3.0},
            check=within(-2, 3, 0.5, 5 / 12**0.5),
            id=d,
        )
        for d in ("float16", "float32", "float64", "bfloat16")
    ],
    Case(
        "uniform_random",
        [],
        {"shape": [40, 100], "min": 0.0, "max": 1.0},
        check=within(0, 1, 0.5, 12**-0.5),
        id="unit",
    ),
    Case("uniform_random", [], {"shape": [0, 3]}, check=lambda x: None, id="empty"),
    *[
        Case(
            "gaussian_random",
            [],
            {"shape": [N], "dtype": d, "mean": 1.0, "std": 2.0},
            check=within(-11, 13, 1, 2),
            id=d,
        )
        for d in ("float16", "float32", "float64")
    ],
    Case("gaussian_random", [], {"shape": [7]}, check=lambda x: None, id="odd"),
    # the deviation of a standard normal number within (-2, 2) is 0.8796
    Case(
        "truncated_gaussian_random",
        [],
        {"shape": [N], "mean": 1.0, "std": 0.5},
        check=within(0, 2.000001, 1, 0.5 * 0.8796),
    ),
    Case("randint", [], {"shape": [N], "low": -3, "high": 5}, check=within(-3, 5, 0.5, (63 / 12) ** 0.5)),
    Case(
        "randint",
        [],
        {"shape": [N], "low": 0, "high": 256, "dtype": "uint8"},
        check=within(0, 256, 127.5, 73.9),
        id="uint8",
    ),
    Case("randperm", [], {"n": 50}, check=permutation),
    Case(
        "uniform_random_like",
        [np.zeros((N, 2))],
        {"min": -1.0, "max": 3.0},
        check=within(-1, 3, 1, 4 / 12**0.5),
        known={},
        dtypes=("float32", "float64"),
    ),
    Case(
        "uniform_random_like",
        [np.zeros((3, 2))],
        {"min": -1.0, "max": 3.0, "is_test": True},
        id="test",
        ref=lambda x, **attrs: np.full(x.shape, 1.0),
    ),
    Case(
        "uniform_random_batch_size_like",
        [np.zeros((2, N))],
        {"shape": [2, 1], "input_dim_idx": 1, "output_dim_idx": 1, "min": -1.0, "max": 3.0},
        check=within(-1, 3, 1, 4 / 12**0.5),
        dtypes=("float32",),
        size0=False,
    ),
    Case(
        "gaussian_random_batch_size_like",
        [np.zeros((N, 3))],
        {"shape": [-1, 2], "mean": 1.0, "std": 2.0},
        check=within(-11, 13, 1, 2),
        dtypes=("float32",),
        size0=False,
    ),
    Case("bernoulli", [np.tile([0.0, 0.3, 1.0], (500, 1))], check=coins, known={}),
]
