"""Models of dashboards, and what they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model as Built
from tests.parallel.models import classifier
from workbench.framework import names
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader, TensorDataset
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode(), names.guard():
        yield


@pytest.fixture
def built() -> Built:
    return classifier(wb.optimizer.SGD(0.1))


@pytest.fixture
def batch() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((7, 5), np.float32), "y": rng.integers(0, 3, (7, 1))}


@pytest.fixture
def loader() -> DataLoader:
    rng = np.random.default_rng(0)
    data = TensorDataset([rng.standard_normal((70, 5), np.float32), rng.integers(0, 3, (70, 1))])
    return DataLoader(data, batch_size=7)


@pytest.fixture
def model_of(built: Built, loader: DataLoader) -> Iterator[Callable[[Any], Model]]:
    """A model of a target in a notebook that has the program as `net` and the loader as `batches`."""
    bound = {"net": built.main, "net_startup": built.startup, "batches": loader, "cost": built.loss}
    models = []

    def make(target: Any) -> Model:
        models.append(Model(Subject.of(target, bound), lambda: bound, lambda program, name: bound[f"{name}_startup"]))
        return models[-1]

    yield make
    for model in models:
        if model.run is not None:
            model.run.stop()
            model.run.wait(30)
        model.close()


def of_kind(messages: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The only message of a kind."""
    (answer,) = [message for message in messages if message["type"] == kind]
    return answer
