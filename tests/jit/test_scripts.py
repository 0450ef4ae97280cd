"""Scripts as one writes them for Paddle 2.x train, step by step and recorded, and to the same numbers."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import workbench as paddle
from tests.scripts import gan, gpt, lenet, text_classifier


@pytest.mark.parametrize(
    ("script", "steps", "at_most"),
    [(lenet, 26, 0.85), (text_classifier, 60, 0.3), (gpt, 30, 0.4), (gan, 300, 0.2)],
    ids=lambda value: value.__name__.split(".")[-1] if isinstance(value, ModuleType) else None,
)
def test_a_script_trains_step_by_step_and_recorded(script: ModuleType, steps: int, at_most: float) -> None:
    losses = script.train(lambda step: step, steps)
    assert losses[-1] < at_most * losses[0]
    np.testing.assert_allclose(script.train(paddle.jit.capture, steps), losses, rtol=1e-4, atol=1e-5)
