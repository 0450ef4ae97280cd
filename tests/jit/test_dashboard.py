"""The dashboard of a layer or a captured step shows the graph that runs."""

from typing import Any

import pytest

import workbench as wb
from workbench import nn
from workbench.errors import PreconditionNotMet


def test_a_layer_and_the_step_it_is_trained_in() -> None:
    net = nn.Linear(4, 2)
    updates = wb.optimizer.SGD(0.1, parameters=net.parameters())
    with pytest.raises(PreconditionNotMet, match="nothing was recorded of this Linear"):
        wb.dashboard(net)

    @wb.jit.capture
    def train_step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    train_step(wb.ones([3, 4]))
    for target in (net, train_step):
        dash = wb.dashboard(target)
        try:
            graph = dash.messages()["graph"]
            assert graph["title"] == "train_step" and "matmul_v2_grad" in str(graph)
        finally:
            dash.close()
