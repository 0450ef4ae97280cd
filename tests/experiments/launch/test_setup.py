"""Setups: the same run again, and with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, classifier
from workbench.experiments import runs
from workbench.experiments.launch.setup import Setup, setup
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader, TensorDataset


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


@pytest.fixture
def dataset() -> Any:
    rng = np.random.default_rng(0)
    return TensorDataset([rng.standard_normal((40, 5), np.float32), rng.integers(0, 3, (40, 1))])


def setup_of(model: Model, data: Any, **settings: Any) -> Setup:
    return setup(model.main, data, model.startup, [model.loss], **{"steps": 6, "seed": 3, **settings})


def history(given: Setup, tmp_path: Path) -> list[float]:
    run = given.start(record=tmp_path / "runs.sqlite", progress=False).wait(60)
    (values,) = run.history.values()
    assert run.setup is given and run.state == "done"
    return values


def test_a_setup_starts_from_the_beginning_every_time(dataset: Any, tmp_path: Path) -> None:
    loader = DataLoader(dataset, batch_size=8, shuffle=True, seed=5)
    base = setup_of(classifier(wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.1, 0.5))), loader, devices=2)
    first = history(base, tmp_path)
    assert first == history(base, tmp_path) and len(set(first)) > 1
    assert loader.epoch == 0  # the user's own loader is where it was
    assert history(base.with_(seed=4), tmp_path) != first


def test_what_is_changed_reaches_the_run(dataset: Any, tmp_path: Path) -> None:
    base = setup_of(classifier(wb.optimizer.SGD(0.1)), dataset, batch_size=8)
    changed = base.with_(devices=2, batch_size=10, learning_rate=0.25, reduce_strategy="Reduce", num_threads=1)
    history(changed, tmp_path)
    settings = runs(tmp_path / "runs.sqlite")[1].settings
    assert (settings["devices"], settings["batch_size"], settings["learning_rate"]) == (2, 10, 0.25)
    assert settings["reduce_strategy"] == "Reduce" and settings["num_threads"] == "1"
    assert (base.devices, base.batch_size, dict(base.build)) == (1, 8, {})


def test_reduce_and_allreduce_and_device_counts_agree(dataset: Any, tmp_path: Path) -> None:
    base = setup_of(classifier(wb.optimizer.SGD(0.1)), dataset, batch_size=8)
    one = np.mean(history(base, tmp_path))
    for settings in ({"devices": 2}, {"devices": 2, "reduce_strategy": "Reduce"}, {"devices": 4}):
        np.testing.assert_allclose(np.mean(history(base.with_(**settings), tmp_path)), one, rtol=1e-4)


def test_the_learning_rate_counts(dataset: Any, tmp_path: Path) -> None:
    still = history(setup_of(classifier(wb.optimizer.SGD(0.1)), dataset, batch_size=40, learning_rate=0.0), tmp_path)
    assert max(still) - min(still) < 1e-5
    scheduled = setup_of(
        classifier(wb.optimizer.SGD(wb.optimizer.lr.ExponentialDecay(0.1, 0.5))), dataset, batch_size=8
    )
    with pytest.raises(wb.errors.InvalidArgument, match="follows a schedule, ExponentialDecay"):
        scheduled.with_(learning_rate=0.1).start(record=False)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"batchsize": 3}, "no setting 'batchsize'. Did you mean 'batch_size'"),
        ({"reduce_strategy": "reduce"}, "reduce_strategy is one of AllReduce, Reduce"),
        ({"num_threads": -1}, "a whole number >= 0"),
    ],
)
def test_wrong_settings(dataset: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(wb.errors.InvalidArgument, match=text):
        setup_of(classifier(), dataset, **settings)


def test_batches_of_the_users_own(dataset: Any, tmp_path: Path) -> None:
    model = classifier(wb.optimizer.SGD(0.1))
    batches = list(DataLoader(dataset, batch_size=8))
    assert len(history(setup_of(model, batches), tmp_path)) == 6
    with pytest.raises(wb.errors.InvalidArgument, match="batch_size needs a DataLoader or a dataset"):
        setup_of(model, iter(batches), batch_size=8).start(record=False)
    for listed in batches, [dict(zip(("x", "label"), batch, strict=True)) for batch in batches]:
        with pytest.raises(wb.errors.InvalidArgument, match=r"they are batches already: 'x' is \[8, 5\] in the first"):
            setup_of(model, listed, batch_size=8).start(record=False)
    sampled = DataLoader(dataset, batch_sampler=[[0, 1], [2, 3]])
    with pytest.raises(wb.errors.InvalidArgument, match="come from a batch_sampler"):
        setup_of(model, sampled, batch_size=8).start(record=False)
