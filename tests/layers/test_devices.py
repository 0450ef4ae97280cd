"""A program of layers on several devices."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from tests.parallel.models import devices

nn = wb.nn
X = np.add.outer(np.arange(8.0), np.arange(3.0)).astype(np.float32) ** 1.5


@pytest.mark.parametrize("sync", [False, True])
def test_statistics_of_all_devices_together(sync: bool) -> None:
    """With `sync_batch_norm` outputs and running statistics are of the whole batch, else of each device's half."""
    scope = wb.static.Scope()
    with program(seed=1) as (main, startup), wb.static.scope_guard(scope), devices(2):
        net = nn.SyncBatchNorm(3)
        out = net(wb.static.data("x", [None, 3]))
        loss = wb.mean(out * out * out)
        wb.optimizer.SGD(0.1).minimize(loss)
        wb.static.Executor().run(startup)
        strategy = wb.static.BuildStrategy()
        strategy.sync_batch_norm = sync
        executor = wb.static.ParallelExecutor(
            use_cuda=False, loss_name=loss.name, main_program=main, scope=scope, build_strategy=strategy
        )
        normed = executor.run([out.name], feed={"x": X})[0]
        running = np.array(scope.find_var(net._mean.name).get_tensor())
    parts = [X] if sync else [X[:4], X[4:]]
    wanted = [(part - part.mean(0)) / np.sqrt(part.var(0) + 1e-5) for part in parts]
    np.testing.assert_allclose(normed, np.concatenate(wanted), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(running, 0.1 * parts[0].mean(0), rtol=1e-5)
