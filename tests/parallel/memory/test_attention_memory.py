"""What a step of attention keeps: no scores."""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench as wb
from tests.parallel.models import devices
from workbench import static
from workbench.framework.names import guard
from workbench.framework.program.guard import static_mode

BATCH, LENGTH, WIDTH, HEADS = 2, 256, 32, 4
SCORES = 4 * BATCH * HEADS * LENGTH * LENGTH


def trained(fused: Any, blocks: int = 3) -> tuple[list[np.ndarray], int]:
    """Losses of two steps, and bytes of temporaries, of layers that look at what came before."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with static_mode(), guard(), static.program_guard(main, startup):
        h = static.data("x", [None, LENGTH, WIDTH])
        mask = wb.assign(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))
        for _ in range(blocks):
            h = h + wb.nn.MultiHeadAttention(WIDTH, HEADS)(h, attn_mask=mask)
        loss = wb.mean(h * h)
        wb.optimizer.Adam(0.01).minimize(loss)
    scope, strategy = static.Scope(), static.BuildStrategy()
    strategy.fused_attention = fused
    static.Executor().run(startup, scope=scope)
    with devices(1):
        exe = static.ParallelExecutor(False, loss.name, main, build_strategy=strategy, scope=scope)
    feed = {"x": np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH), np.float32)}
    losses = [exe.run([loss.name], feed=feed)[0] for _ in range(2)]
    return losses, sum(exe.inspection.plans[-1].memory.sizes.values())


def test_scores_are_not_kept() -> None:
    """Of each layer the weights were, and one more tensor like them was there at a time."""
    (losses, small), (others, large) = trained(None), trained(False)
    assert large > 3 * SCORES > 2 * small
    np.testing.assert_array_equal(losses, others)
