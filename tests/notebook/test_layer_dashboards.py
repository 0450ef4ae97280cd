"""Dashboards of layers and of what was recorded of functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.notebook.dashboard.conftest import of_kind
from workbench import nn
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject

BATCH = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((3, 1), np.float32)


class Trained:
    """A layer, its optimizer, and a step of both that is recorded."""

    def __init__(self) -> None:
        self.layer = nn.Linear(4, 1)
        self.optimizer = wb.optimizer.SGD(1e-4, parameters=self.layer.parameters())
        self.models: list[Model] = []

        def step(x: Any, y: Any) -> Any:
            loss = nn.MSELoss()(self.layer(x), y)
            loss.backward()
            self.optimizer.step()
            self.optimizer.clear_grad()
            return loss

        self.step = wb.jit.capture(step, devices=2)

    def train(self, **options: Any) -> Any:
        given = {"loss": nn.MSELoss(), "optimizer": self.optimizer, "progress": False, "record": False, **options}
        return wb.train(self.layer, [BATCH] * 4, **given)

    def model(self, target: Any) -> Model:
        names = {"net": self.layer, "step": self.step}
        self.models.append(Model(Subject.of(target, names), lambda: names, lambda program, name: None))
        return self.models[-1]


@pytest.fixture
def trained() -> Iterator[Trained]:
    trained = Trained()
    yield trained
    for model in trained.models:
        model.close()


@pytest.mark.parametrize("what", ["layer", "step"])
def test_a_captured_step_is_looked_at_like_an_executor(trained: Trained, what: str) -> None:
    trained.step(*BATCH)
    model = trained.model(getattr(trained, what))
    losses = [trained.step(*BATCH).numpy() for _ in range(3)]
    messages = model.everything()
    graph, sample = of_kind(messages, "graph"), of_kind(messages, "sample")
    assert "fused_all_reduce" in graph["tables"]["type"] and len(graph["devices"]) == 2
    assert (sample["step"], sample["feeds"]["rows"]) == (4, {"x": [1, 2], "y": [1, 2]}) and len(sample["spans"]["node"])
    (curve,) = [message for message in messages if message["type"] == "curves"]
    (series,) = curve["series"].values()
    np.testing.assert_allclose(series["mean"], [np.mean(loss) for loss in losses], rtol=1e-6)
    assert model.allowed() == ["drop"] and of_kind(messages, "state")["controls"]["values"]["program"] is None
    assert of_kind(messages, "scopes")["live_total"]["count"] > 0
    with pytest.raises(wb.errors.PreconditionNotMet, match="recorded from Python: run the cell"):
        model.command("run", {})


@pytest.mark.parametrize("what", ["layer", "step"])
def test_its_graph_is_shown_by_itself(trained: Trained, what: str) -> None:
    with pytest.raises(wb.errors.PreconditionNotMet, match="nothing was recorded"):
        wb.ssa(getattr(trained, what))
    trained.step(*BATCH)
    view = wb.ssa(getattr(trained, what))
    assert [node.type for node in view.graph.nodes if node.is_collective and node.type != "fetch"]
    with pytest.raises(wb.errors.InvalidType, match="a captured step or a Layer, got"):
        wb.ssa(trained.optimizer)


def test_the_layers_dashboard_follows_its_training(trained: Trained) -> None:
    ended = trained.train(steps=3).wait(60)
    model = trained.model(trained.layer)
    assert model.run is ended and len(of_kind(model.everything(), "curves")["series"]) == 1
    run = trained.train(steps=1000, paused=True)
    model.prepare()
    state = of_kind(model.news(), "state")
    assert model.run is run and (state["run"]["state"], state["run"]["name"]) == ("paused", "Linear")
    model.command("step", {})
    assert run.advance(2, timeout=30)
    assert {"pause", "stop", "save"} <= {*model.allowed(), "pause"}
    fed = [message for message in model.everything() if message["type"] in ("fed", "sample")]
    assert fed and fed[-1]["feeds"]["rows"] == {"input": [3], "label": [3]}
    model.command("stop", {})
    run.wait(30)
    assert "run" not in model.allowed()
