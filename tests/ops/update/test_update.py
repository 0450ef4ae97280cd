"""Parameter updates over several steps, to the digit where digits were observed in Paddle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from workbench.errors import InvalidArgument
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import OPS, find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import Spec
from workbench.ops.update.traced_formula import traced
from workbench.ops.update.update import update_op


def train(type: str, state: list[Any], steps: int, **attrs: Any) -> list[float]:
    """The parameter after every update: it starts at 1, the gradient is 2 and the rate 0.1."""
    op = find_op(type)
    attrs = op.complete(attrs)
    held = [np.ones(2), *state]
    grad = np.full(2, 2.0)
    seen = []
    for _ in range(steps):
        param, *rest = held
        inputs = (param, grad, np.array([0.1]), *rest)
        new = op.forward(numpy_xp, *inputs, **attrs)
        held = list(new) if isinstance(new, tuple) else [new]
        seen.append(float(held[0][0]))
    return seen


def zeros(n: int) -> list[np.ndarray]:
    return [np.zeros(2) for _ in range(n)]


def powers() -> list[np.ndarray]:
    return [np.array([0.9]), np.array([0.999])]


OBSERVED = [
    ("momentum", zeros(1), {"mu": 0.9}, [0.8, 0.42, -0.122], 1e-12),
    ("momentum", zeros(1), {"mu": 0.9, "use_nesterov": True}, [0.62, 0.078, -0.6098], 1e-12),
    ("adam", [*zeros(2), *powers()], {"epsilon": 0.5}, [0.92, 0.84, 0.76], 1e-12),
    ("adagrad", zeros(1), {"epsilon": 0.5}, [0.92, 0.85991], 5e-6),
    (
        "rmsprop",
        [*zeros(2), None],
        {"epsilon": 0.5, "decay": 0.95, "momentum": 0.9},
        [0.76095, 0.33381],
        5e-6,
    ),
    ("adamax", [*zeros(2), powers()[0]], {"epsilon": 0.5}, [0.9, 0.81994], 5e-6),
    ("sgd", [], {}, [0.8, 0.6, 0.4], 1e-12),
]


@pytest.mark.parametrize(("type", "state", "attrs", "observed", "digits"), OBSERVED)
def test_observed_values(
    type: str, state: list[Any], attrs: dict[str, Any], observed: list[float], digits: float
) -> None:
    """Gradient 2, rate 0.1, from 1: the values Paddle 1.8 and 2.6 gave."""
    fresh = [None if a is None else a.copy() for a in state]
    got = train(type, fresh, len(observed), **attrs)
    np.testing.assert_allclose(got, observed, rtol=0, atol=digits)


def test_adam_epsilon_is_that_of_paddle_2() -> None:
    """Paddle 1.8 adds epsilon to the uncorrected root, which gives 0.98877 (trap 20)."""
    (first,) = train("adam", [*zeros(2), *powers()], 1, epsilon=0.5)
    assert abs(first - 0.98877) > 0.06


def test_adam_converges_where_a_scalar_loop_does() -> None:
    """200 steps on (x - 3)^2, against the algorithm in plain Python."""
    op = find_op("adam")
    x, m, v, p1, p2 = 0.0, 0.0, 0.0, 1.0, 1.0
    held = [np.zeros(1), *(np.zeros(1) for _ in range(2)), *powers()]
    for _ in range(200):
        g = 2 * (x - 3)
        m, v, p1, p2 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, p1 * 0.9, p2 * 0.999
        x -= 0.1 * (m / (1 - p1)) / ((v / (1 - p2)) ** 0.5 + 1e-8)
        grad = 2 * (held[0] - 3)
        held = list(op.forward(numpy_xp, held[0], grad, np.array([0.1]), *held[1:], **op.attrs))
    np.testing.assert_allclose(held[0], [x], rtol=1e-9)
    assert abs(x - 3) < 0.3


@given(
    st.lists(st.integers(0, 5), max_size=12),
    st.integers(0, 2**31),
    st.sampled_from(["sgd", "adagrad", "adam"]),
)
def test_rows_move_only_what_they_name(rows: list[int], seed: int, type: str) -> None:
    """Untouched rows keep their bits; touched ones go where the dense gradient sends them (trap 28)."""
    r = np.random.default_rng(seed)
    grad = Rows(np.array(rows, np.int64), r.standard_normal((len(rows), 2)), 6)
    op = find_op(type)
    attrs = op.complete({"lazy_mode": True} if type == "adam" else {})
    state = {"sgd": [], "adagrad": [r.random((6, 2))], "adam": [*r.random((2, 6, 2)), *powers()]}[type]
    param = r.standard_normal((6, 2))
    by_rows = op.forward(numpy_xp, param, grad, np.array([0.1]), *state, **attrs)
    by_dense = op.forward(numpy_xp, param, grad.to_dense(np), np.array([0.1]), *state, **attrs)
    got, dense = (r if isinstance(r, tuple) else (r,) for r in (by_rows, by_dense))
    touched = sorted(set(rows))
    untouched = [i for i in range(6) if i not in touched]
    for new, other, old in zip(got, dense, [param, *state][: len(got)], strict=True):
        if new.shape == (1,):  # a power of beta
            np.testing.assert_array_equal(new, other)
            continue
        np.testing.assert_allclose(new[touched], other[touched], rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(new[untouched], old[untouched])


def test_momentum_with_rows_still_moves_every_row() -> None:
    op = find_op("momentum")
    grad = Rows(np.array([1]), np.ones((1, 1)), 3)
    param, velocity = np.zeros((3, 1)), np.ones((3, 1))
    new, _ = op.forward(numpy_xp, param, grad, np.array([1.0]), velocity, **op.attrs)
    np.testing.assert_allclose(new, [[-0.9], [-1.9], [-0.9]])


def test_blocks_give_the_bits_of_the_whole() -> None:
    """Element-wise formulas do not depend on how they are cut up."""
    r = np.random.default_rng(2)
    size = 40_000
    op = find_op("adam")
    arrays = [r.standard_normal(size).astype(np.float32) for _ in range(3)] + [r.random(size).astype(np.float32)]
    param, grad, m, v = arrays
    rest = [np.array([0.5], np.float32), np.array([0.9], np.float32)]
    whole = op.forward(numpy_xp, param, grad, np.array([0.01], np.float32), m, v, *rest, **op.attrs)
    for start in range(0, size, 9973):
        part = slice(start, start + 9973)
        cut = op.forward(
            numpy_xp,
            param[part],
            grad[part],
            np.array([0.01], np.float32),
            m[part],
            v[part],
            *rest,
            **op.attrs,
        )
        for a, b in zip(whole[:3], cut[:3], strict=True):
            np.testing.assert_array_equal(a[part], b)


def test_half_precision_survives_small_epsilon_and_large_gradients() -> None:
    """1e-8 is 0 in float16, and 1000 squared is infinite."""
    op = find_op("adam")
    half = np.float16
    for g in (0.0, 1000.0):
        zeros_ = [np.zeros(2, half) for _ in range(2)]
        rest = [np.array([0.9], np.float32), np.array([0.999], np.float32)]
        new, *_ = op.forward(
            numpy_xp,
            np.ones(2, half),
            np.full(2, g, half),
            np.array([0.1], np.float32),
            *zeros_,
            *rest,
            **op.attrs,
        )
        assert new.dtype == half
        np.testing.assert_allclose(new, 1.0 if g == 0 else 0.9, rtol=2e-3)


def spec(*shape: int, dtype: str = "float32", kind: str = "dense") -> Spec:
    return Spec(shape, as_dtype(dtype), kind)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([spec(3, 2), spec(3, 1), spec(1), spec(3, 2)], r"gradient and parameter.*\n.*\[3, 2\]\n.*\[3, 1\]"),
        ([spec(3, 2), spec(3, 2), spec(1), spec(2, 3)], "accumulator and parameter have different shapes"),
        ([spec(3, 2), spec(3, 2), spec(2), spec(3, 2)], r"learning rate is one number.*\n.*\[1\]"),
        ([spec(3, dtype="int64"), spec(3), spec(1), spec(3)], "floating-point"),
        ([spec(3, kind="rows"), spec(3), spec(1), spec(3)], "updates a dense parameter"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[Spec], message: str) -> None:
    op = find_op("momentum")
    with pytest.raises(InvalidArgument, match=message):
        op.infer(*inputs, **op.attrs)


def test_centred_rmsprop_needs_its_mean_gradient() -> None:
    op = find_op("rmsprop")
    with pytest.raises(InvalidArgument, match="MeanGrad"):
        op.infer(*([spec(2), spec(2), spec(1), spec(2), spec(2), None]), **op.complete({"centered": True}))


@pytest.mark.parametrize(
    ("formula", "count"), [(lambda xp, p, g, lr, m: (p - lr * g,), 1), (lambda xp, p, g, lr: p, 0)]
)
def test_a_formula_that_returns_too_little_is_refused(formula: Any, count: int) -> None:
    """In kernels as by NumPy: what it leaves out would stay as it is."""
    record = update_op("toy_forgetful", "Moment" * count)(formula)
    try:
        arrays = [np.ones(3), np.ones(3), np.ones(1), *[np.zeros(3)] * count]
        with pytest.raises(TypeError, match="returns a tuple of the new Param"):
            record.forward(numpy_xp, *arrays)
        held, scalars = [arrays[0], arrays[1], *arrays[3:]], [arrays[2]]
        with pytest.raises(TypeError, match="returns a tuple of the new Param"):
            traced(record.update.formula, held, scalars, {})
    finally:
        del OPS["toy_forgetful"]
