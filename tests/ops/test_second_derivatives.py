"""Gradients of gradients: a rule expanded in a program, against central differences of the first gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.program.guard import static_mode
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.loss.losses import sigmoid_cross_entropy_with_logits
from workbench.ops.math.reductions.reduce import sum as sum_of
from workbench.ops.nn.norm import BATCH_NORM

F = wb.nn.functional
rng = np.random.default_rng(40)
LABEL = np.array([[2], [0], [3]])
SOFT = rng.random((3, 4))
CHANNELS = [rng.random(4) + 0.5, rng.standard_normal(4), rng.standard_normal(4), rng.random(4) + 0.5]

FUNCTIONS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "softmax": lambda x, const: F.softmax(x),
    "log_softmax": lambda x, const: F.log_softmax(x, axis=0),
    "cross entropy, hard": lambda x, const: F.softmax_with_cross_entropy(x, const(LABEL)),
    "cross entropy, soft": lambda x, const: F.softmax_with_cross_entropy(x, const(SOFT), soft_label=True),
    "cross entropy, ignored": lambda x, const: F.cross_entropy(x, const(LABEL), ignore_index=0),
    "nll": lambda x, const: F.nll_loss(F.log_softmax(x), const(LABEL[:, 0])),
    "sigmoid cross entropy": lambda x, const: sigmoid_cross_entropy_with_logits(x, const(SOFT)),
    "bce": lambda x, const: F.binary_cross_entropy(F.softmax(x), const(SOFT), reduction="none"),
    "smooth l1": lambda x, const: F.smooth_l1_loss(x * x, const(SOFT), reduction="none"),
    "layer norm": lambda x, const: F.layer_norm(x, 4, const(CHANNELS[0]), const(CHANNELS[1])),
    "batch norm": lambda x, const: BATCH_NORM(x, *map(const, CHANNELS))[0],
    "batch norm, frozen": lambda x, const: BATCH_NORM(x * x, *map(const, CHANNELS), use_global_stats=True)[0],
    "embedding": lambda x, const: LOOKUP_TABLE(x * x, const(np.array([1, 1, 0]))),
    "dropout": lambda x, const: F.dropout(x * x, 0.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivative(name: str) -> None:
    x0, u0, v0 = rng.standard_normal((3, 3, 4))
    program, constants = wb.static.Program(), {"x": x0, "u": u0}
    program.random_seed = 5

    def const(value: np.ndarray) -> Any:
        key = f"c{len(constants)}"
        constants[key] = value
        return wb.static.data(key, value.shape, value.dtype.name)

    with static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(program, wb.static.Program()):
        x, u = (wb.static.data(n, [3, 4], "float64") for n in "xu")
        x.stop_gradient = False
        out = FUNCTIONS[name](x, const)
        weights = const(rng.standard_normal(out.shape))
        (first,) = wb.static.gradients(sum_of(out * weights), x)
        (second,) = wb.static.gradients(sum_of(first * u), x)
    scope, exe = wb.static.Scope(), wb.static.Executor()

    def run(at: np.ndarray) -> list[np.ndarray]:
        prepare(scope, program)
        return exe.run(program, feed={**constants, "x": at}, fetch_list=[first, second], scope=scope)

    _, got = run(x0)
    step = 1e-5
    plus, minus = run(x0 + step * v0)[0], run(x0 - step * v0)[0]
    numeric = float(np.sum(u0 * (plus - minus))) / (2 * step)
    assert abs(float(np.sum(got * v0)) - numeric) <= 1e-6 * max(float(np.sum(np.abs(got * v0))), 1e-2)


def prepare(scope: Any, program: Any) -> None:
    """Set the step counter that random ops draw with back to 0, so that every run drops the same elements."""
    if program.rng_step:
        scope.var(program.rng_step).get_tensor().set(np.zeros(1, np.int64), wb.CPUPlace())
