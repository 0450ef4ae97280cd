"""The gradient of `label_smooth` where labels are computed, beside differences of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.nn.functional as F
from workbench import static
from workbench.framework.program.guard import static_mode

RNG = np.random.default_rng(11)
X, TARGET, PRIOR = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4)), np.full((1, 4), 0.25)


def loss(x: Any, target: Any, prior: Any) -> Any:
    """Soft labels, which are computed, smoothed."""
    return (F.label_smooth(F.softmax(x), prior, 0.3) * target).sum()


def expected(has_prior: bool) -> np.ndarray:
    """What central differences of NumPy's values say."""

    def value(x: np.ndarray) -> float:
        soft = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        return float(((0.7 * soft + 0.3 * (PRIOR if has_prior else 1 / 4)) * TARGET).sum())

    slopes = np.zeros_like(X)
    for place in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[place] = 1e-5
        slopes[place] = (value(X + step) - value(X - step)) / 2e-5
    return slopes


def dynamic(function: Callable[..., Any], dtype: str, has_prior: bool) -> np.ndarray:
    x = wb.to_tensor(X.astype(dtype), stop_gradient=False)
    function(x, wb.to_tensor(TARGET.astype(dtype)), wb.to_tensor(PRIOR.astype(dtype)) if has_prior else None).backward()
    return np.asarray(x.grad.numpy())


def in_program(function: Callable[..., Any], dtype: str, has_prior: bool) -> np.ndarray:
    feed = {"x": X.astype(dtype), "target": TARGET.astype(dtype), "prior": PRIOR.astype(dtype)}
    program = static.Program()
    with static_mode(), static.program_guard(program):
        x, target, prior = (static.data(name, [-1, 4], dtype) for name in feed)
        x.stop_gradient = False
        slopes = static.gradients(function(x, target, prior if has_prior else None), [x])
        feed = feed if has_prior else {"x": feed["x"], "target": feed["target"]}
        return np.asarray(static.Executor().run(program, feed=feed, fetch_list=slopes)[0])


def recorded(function: Callable[..., Any], dtype: str, has_prior: bool) -> np.ndarray:
    return dynamic(wb.jit.to_static(function), dtype, has_prior)


@pytest.mark.parametrize("way", [dynamic, in_program, recorded])
@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-4), ("float64", 1e-8)])
def test_gradients_pass_through_smoothed_labels(way: Any, has_prior: bool, dtype: str, close: float) -> None:
    np.testing.assert_allclose(way(loss, dtype, has_prior), expected(has_prior), rtol=close, atol=close)


def test_smoothed_classes_as_labels_of_a_loss() -> None:
    logits = wb.to_tensor(X, stop_gradient=False)
    labels = F.label_smooth(F.one_hot(wb.to_tensor([0, 3, 1]), 4).astype("float64"), epsilon=0.1)
    F.cross_entropy(logits, labels, soft_label=True).backward()
    smooth = np.eye(4)[[0, 3, 1]] * 0.9 + 0.1 / 4
    soft = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
    np.testing.assert_allclose(logits.grad.numpy(), (soft - smooth) / 3, rtol=1e-8, atol=1e-10)
