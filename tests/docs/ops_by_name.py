"""Uses the contributors' examples of ops by their public names: `python tests/docs/ops_by_name.py`, their package first
on the path.

It imports nothing of the tests, for they belong to another package than the one that it is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb
from workbench.experiments.bench.own_program import native_nodes
from workbench.experiments.bench.roofline import rows_by_lowering

Function = Callable[..., Any]
X = np.random.default_rng(3).standard_normal((6, 11)).astype(np.float32)
WEIGHT = np.random.default_rng(4).standard_normal((6, 11)).astype(np.float32)


def in_dynamic_mode(function: Function) -> list[np.ndarray]:
    """What a function gives, and the gradient of its weighted sum."""
    x = wb.to_tensor(X, stop_gradient=False)
    y = function(x)
    wb.sum(y * wb.to_tensor(WEIGHT)).backward()
    return [y.numpy(), x.grad.numpy()]


def in_static_mode(function: Function, type: str) -> list[np.ndarray]:
    """The same by a Program on one device, of which all nodes run in compiled kernels."""
    wb.enable_static()
    program = wb.static.Program()
    with wb.static.program_guard(program, wb.static.Program()):
        x, weight = wb.static.data("x", [None, 11]), wb.static.data("weight", [None, 11])
        x.stop_gradient = False
        y = function(x)
        loss = wb.sum(y * weight)
        (slope,) = wb.static.gradients(loss, x)
    executor = wb.static.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=program)
    results = executor.run([y, slope], feed={"x": X, "weight": WEIGHT})
    binding = executor.inspection.last
    native = {part for node in native_nodes(binding) for part in node.attrs.get("types", [node.type])}
    assert {type} <= native, f"{type} is not among {sorted(native)}"
    assert not (by_numpy := rows_by_lowering(binding)[1]), f"NumPy computes {dict(by_numpy)}"
    wb.disable_static()
    return list(results)


def check(name: str, function: Function, expected: list[np.ndarray]) -> None:
    assert function.__name__ == name
    for results in (in_dynamic_mode(function), in_static_mode(function, name)):
        for result, reference in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, reference, rtol=2e-5, atol=2e-6)
    print(f"{name} is right in both modes and runs in kernels")


def main() -> None:
    x, weight = X.astype(np.float64), WEIGHT.astype(np.float64)
    kept = np.abs(x) > 0.5
    check("hard_shrink", wb.nn.functional.hard_shrink, [np.where(kept, x, 0), np.where(kept, weight, 0)])
    away = x - x.mean(1, keepdims=True)
    most = np.abs(away).max(1, keepdims=True)
    check("spread_out", wb.spread_out, [away / most, weight / most])
    largest = np.maximum.accumulate(x, axis=1)
    places = np.maximum.accumulate(np.where(x == largest, np.arange(x.shape[1]), 0), axis=1)
    slope = np.zeros_like(weight)
    np.add.at(slope, (np.arange(len(x))[:, None], places), weight)
    check("running_max", wb.running_max, [largest, slope])


if __name__ == "__main__":
    main()
