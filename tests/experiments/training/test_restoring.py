"""Restoring a checkpoint: parameters, state, every device, loader, schedule and counters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.training.test_resume import dataset, drawing, saving
from tests.parallel.models import Model, build, devices
from workbench import static
from workbench.checkpoint.files import read_tensors
from workbench.errors import PreconditionNotMet
from workbench.experiments import Run
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


def batches(batch_size: int = 8, **options: Any) -> DataLoader:
    return DataLoader(dataset(), batch_size=batch_size, **{"shuffle": True, "seed": 5, **options})


def executor(model: Model, devices: int = 2, scope: Any = None, strategy: str = "AllReduce") -> Any:
    build = static.BuildStrategy()
    build.reduce_strategy = static.BuildStrategy.ReduceStrategy[strategy]
    bound = static.CompiledProgram(model.main).with_data_parallel(
        model.loss.name, build, places=static.cpu_places(devices)
    )
    bound.bind(model.scope if scope is None else scope)
    return bound


def begun(model: Model, runner: Any, loader: Any = None, **options: Any) -> Run:
    asked = {"steps": 9, "startup": model.startup, "record": False, "progress": False, **options}
    return wb.train(model.main, batches() if loader is None else loader, fetch=[model.loss], executor=runner, **asked)


def everything(model: Model, runner: Any, loader: Any) -> dict[Any, Any]:
    """All that a run carries on, as bytes and texts; made without what restores it."""
    inspection = runner.inspection
    state: dict[Any, Any] = {
        (v.name, place): np.array(inspection.tensor(v.name, place)).tobytes()
        for v in model.main.persistables()
        for place in range(len(inspection.places))
    }
    state["schedules"] = {name: s.state_dict() for name, s in model.main.lr_schedulers.items()}
    state["loader"] = loader.state_dict() if isinstance(loader, DataLoader) else None
    return state


def test_an_executor_that_has_run_is_restored_on_every_device(strategy: str, tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model, strategy=strategy)
    whole = begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    at_end = everything(model, runner, loader)
    again = begun(model, runner, loader, checkpoint=path, startup=None).wait(60)  # the same executor: far beyond step 4
    assert again.history == whole.history and again.step == 9
    assert everything(model, runner, loader) == at_end


def test_replicas_are_restored_where_device_1_has_no_values_of_its_own(tmp_path: Path) -> None:
    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(x, 3), y))

    model, path = build(body, wb.optimizer.Adam(0.05)), tmp_path / "x.checkpoint"
    runner = executor(model)
    begun(model, runner, on_step=saving(path, 4)).wait(60)
    begun(model, runner, steps=4, checkpoint=path).wait(60)
    for variable in model.main.persistables():
        first, second = (np.array(runner.inspection.tensor(variable.name, place)) for place in (0, 1))
        np.testing.assert_array_equal(first, second, err_msg=variable.name)


def test_an_executor_whose_devices_share_with_another_one(tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    first = model.start().parallel(2)
    begun(model, first, startup=None, on_step=saving(path, 4)).wait(60)
    with devices(2):
        second = static.ParallelExecutor(False, model.loss.name, model.main, share_vars_from=first)
    begun(model, second, batches(), steps=2).wait(60)
    loader = batches()
    begun(model, second, loader, checkpoint=path, steps=4).wait(60)
    other, other_loader = drawing(), batches()
    runner = executor(other)
    begun(other, runner, other_loader, steps=4).wait(60)
    expected, restored = everything(other, runner, other_loader), everything(model, first, loader)
    assert {key: value for key, value in restored.items() if key != "schedules"} == {
        key: value for key, value in expected.items() if key != "schedules"
    }


def plateau() -> Model:
    """A model whose rate follows its loss, which turns NaN where a batch has a row of ones."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        loss = wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(x, 3), y))
        return loss + wb.mean(wb.log(0.5 - x[:, :1])) * 0.0

    return build(body, wb.optimizer.SGD(wb.optimizer.lr.ReduceOnPlateau(0.1, patience=0)))


def feeds(nan_at: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    fed = [{"x": rng.random((4, 5), np.float32) * 0.4, "y": rng.integers(0, 3, (4, 1))} for _ in range(4)]
    fed[nan_at]["x"][0, 0] = 1.0
    return fed


@pytest.mark.parametrize("lr_step", ["epoch", "never", "step"])
def test_a_metric_that_is_nan_can_be_saved_and_gone_on_with(lr_step: Any, tmp_path: Path) -> None:
    path, asked = tmp_path / "x.checkpoint", {"steps": 10, "lr_step": lr_step}
    runs = []
    for options in ({"on_step": saving(path, 3)}, {"checkpoint": path}):
        model = plateau()
        scope = static.Scope()
        run = begun(model, static.Executor(), feeds(1), scope=scope, **asked, **options).wait(60)
        (schedule,) = model.main.lr_schedulers.values()
        runs.append((np.array(run.history[model.loss.name]).tobytes(), schedule.state_dict()))
    assert runs[0] == runs[1] and np.isnan(np.frombuffer(runs[0][0])).any()


def test_the_mean_over_an_epoch_moves_the_schedule(tmp_path: Path) -> None:
    model, told = plateau(), []
    (schedule,) = model.main.lr_schedulers.values()
    schedule.step = lambda metric: told.append(metric)
    run = begun(model, static.Executor(), feeds(0)[1:], steps=9, lr_step="epoch", scope=static.Scope()).wait(60)
    by_epoch = np.reshape(run.history[model.loss.name], (3, 3)).mean(axis=1)
    np.testing.assert_allclose(told, by_epoch, rtol=1e-12)


@pytest.mark.parametrize("lr_step", ["epoch", "never"])
def test_a_long_run_keeps_no_list_of_metrics(lr_step: Any, tmp_path: Path) -> None:
    sizes = []
    for steps in (20, 2_000):
        model, path = plateau(), tmp_path / f"{steps}.checkpoint"
        run = begun(model, static.Executor(), feeds(0)[1:] * 1000, steps=steps, lr_step=lr_step, scope=static.Scope())
        run.wait(60).save(path)
        sizes.append(len(json.dumps(read_tensors(path)[1])))
    assert abs(sizes[1] - sizes[0]) < 50


def test_a_schedule_that_runs_a_step_while_it_is_given_its_state_is_refused(tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    (schedule,) = model.main.lr_schedulers.values()
    given, told = schedule.set_state_dict, []

    def run_a_step(state: Any) -> None:
        with pytest.raises(PreconditionNotMet, match="cannot run a step"):
            static.Executor().run(model.startup, scope=model.scope)
        told.append(state)
        given(state)

    schedule.set_state_dict = run_a_step
    assert begun(model, runner, loader, checkpoint=path).wait(60).step == 9
    assert len(told) == 1
