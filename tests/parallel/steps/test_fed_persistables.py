"""Variables of the scope that are fed: the commit keeps what was fed, whatever becomes of it during the step (X-19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import in_both, same_numbers
from tests.parallel.memory.plan_checker import check_plan
from tests.parallel.models import Model, build
from tests.planning.stage_checkers import check_storage
from workbench import static

W = np.random.default_rng(3).standard_normal((1, 4, 6)).astype(np.float32)

CONSUMERS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "in a chain": (lambda w: wb.tanh(wb.exp(w)), lambda w: np.tanh(np.exp(w))),
    "seen differently": (
        lambda w: wb.exp(wb.tanh(wb.reshape(w, [-1, 8]))),
        lambda w: np.exp(np.tanh(w.reshape(-1, 8))),
    ),
    "twice": (lambda w: wb.exp(w) * w, lambda w: np.exp(w) * w),
    "by one op": (wb.exp, np.exp),
}


def reader_of(consume: Callable[[Any], Any]) -> Model:
    """A program that reads `w`, which the scope keeps, and never writes it."""

    def body() -> Any:
        w = static.create_global_var([1, 4, 6], 0.0, "float32", persistable=True, name="w")
        return consume(w)

    return build(body).start()


@in_both
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("how", CONSUMERS)
def test_what_was_fed_stays_though_ops_could_write_over_it(how: str, devices: int, fused: bool) -> None:
    """Nobody reads it any more, and its memory has the size of their results; but the scope has yet to get it."""
    consume, expected = CONSUMERS[how]
    model, strategy, fed = reader_of(consume), static.BuildStrategy(), W.copy()
    strategy.enable_auto_fusion = fused
    exe = model.parallel(devices, model.main, build_strategy=strategy)
    for scale in (1, 2):
        (fetched,) = exe.run([model.loss], feed=[{"w": scale * fed}] * devices)
        for device in range(devices):
            kept = np.array(exe.local_scope(device).find_var("w").get_tensor())
            np.testing.assert_array_equal(kept, scale * W, err_msg=f"device {device}")
            same_numbers(np.split(np.asarray(fetched), devices)[device], expected(kept))
    np.testing.assert_array_equal(fed, W, err_msg="the user's own array")
    check_plan(exe.inspection.last.plan)
    check_storage(exe.inspection.last.plan)
    (again,) = exe.run([model.loss])
    same_numbers(np.split(np.asarray(again), devices)[0], expected(2 * W))
