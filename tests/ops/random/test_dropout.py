"""Dropout: how much is dropped, and what decides which."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.errors import InvalidArgument
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op
from workbench.framework.values.random import RandomStream

F = wb.nn.functional
N = 200_000


def ones(*shape: int) -> Any:
    return wb.to_tensor(np.ones(shape, np.float32))


@given(st.floats(0, 1), st.sampled_from(["upscale_in_train", "downgrade_in_infer"]))
def test_share_and_scale(p: float, mode: str) -> None:
    out = F.dropout(ones(N), p, mode=mode).numpy()
    kept = out != 0
    spread = 6 * np.sqrt(p * (1 - p) / N)  # six standard deviations
    rare = 5 / N + 2.0**-24  # a few elements: where hardly any is dropped, or kept, the number is Poisson's
    assert abs(kept.mean() - (1 - p)) <= spread + rare
    factor = 1 / (1 - p) if mode == "upscale_in_train" and p < 1 else 1.0
    np.testing.assert_allclose(out[kept], factor, rtol=1e-5)


def test_outside_training() -> None:
    x = ones(5)
    np.testing.assert_array_equal(F.dropout(x, 0.25, training=False).numpy(), np.ones(5))
    down = F.dropout(x, 0.25, training=False, mode="downgrade_in_infer").numpy()
    np.testing.assert_array_equal(down, np.full(5, 0.75))
    same = F.dropout(x, 0.25, training=False, mode="downscale_in_infer").numpy()  # what 2.x calls it
    np.testing.assert_array_equal(same, down)


@pytest.mark.parametrize(("axis", "shared"), [(0, 1), (1, 0), ([1], 0), (-1, 0)])
def test_axis_shares_the_mask_along_the_others(axis: Any, shared: int) -> None:
    out = F.dropout(ones(50, 40), 0.5, axis=axis).numpy()
    line = np.take(out, [0], axis=shared)
    np.testing.assert_array_equal(out, np.broadcast_to(line, out.shape))
    assert 0 < (line != 0).mean() < 1


def test_the_mask_is_a_function_of_the_stream() -> None:
    op = find_op("dropout")
    x = np.ones(1000, np.float32)

    def mask(**key: int) -> np.ndarray:
        return op.forward(numpy_xp, x, rng=RandomStream(**{"seed": 1, **key}), **op.attrs)[1]

    np.testing.assert_array_equal(mask(), mask())
    for key in ({"seed": 2}, {"op": 1}, {"place": 1}, {"step": 1}):
        assert 0.4 < (mask(**key) != mask()).mean() < 0.6, key


def test_infinite_inputs_are_dropped_to_zero() -> None:
    x = wb.to_tensor(np.full(1000, np.inf, np.float32))
    assert set(F.dropout(x, 0.5).numpy().tolist()) == {0.0, np.inf}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 1.5}, r"a number in \[0, 1\]\n.*1\.5"),
        ({"p": -0.1}, r"a number in \[0, 1\]"),
        ({"mode": "upscale"}, "'upscale_in_train' or 'downscale_in_infer', got 'upscale'"),
        ({"axis": 2}, "axis is out of range"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        F.dropout(ones(3, 2), **options)


def test_integers_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="floating-point"):
        F.dropout(wb.to_tensor(np.arange(3)))
