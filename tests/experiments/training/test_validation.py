"""Validation data: evaluated on the copy for testing, and nothing of the training changes by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.training.test_restoring import batches, everything, executor
from tests.experiments.training.test_resume import dataset, drawing, saving
from tests.parallel.models import Model, build
from workbench import static
from workbench.experiments import Run, runs, setup
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader, TensorDataset


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


def held_out(count: int = 21) -> TensorDataset:
    rng = np.random.default_rng(9)
    return TensorDataset([rng.standard_normal((count, 5), np.float32), rng.integers(0, 3, (count, 1))])


def trained(model: Model, loader: Any = None, **options: Any) -> Run:
    asked = {"fetch": {"loss": model.loss}, "startup": model.startup, "record": False, "progress": False, **options}
    return wb.train(model.main, batches() if loader is None else loader, **asked)


def reference(scope: Any, model: Model, data: TensorDataset) -> float:
    """The loss over all rows at once, in NumPy: fc, batch norm with its running statistics, no dropout, fc."""
    x, y = (np.asarray(field) for field in zip(*[data[i] for i in range(len(data))], strict=True))
    value = {v.name: np.array(scope.find_var(v.name).get_tensor(), np.float64) for v in model.main.persistables()}
    h = x @ value["fc_0.w_0"] + value["fc_0.b_0"]
    h = (h - value["batch_norm_0.w_1"]) / np.sqrt(value["batch_norm_0.w_2"] + 1e-5)
    h = h * value["batch_norm_0.w_0"] + value["batch_norm_0.b_0"]
    z = h @ value["fc_1.w_0"] + value["fc_1.b_0"]
    z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
    return float(-np.take_along_axis(z, y.reshape(-1, 1), axis=1).mean())


@pytest.mark.parametrize("devices", [None, 1, 2])
def test_it_is_the_loss_over_all_rows_after_every_epoch(devices: int | None) -> None:
    model, told = drawing(), []
    data = held_out()

    def look(run: Run) -> None:
        if run.validated[-1:] == [run.step] and len(told) < len(run.validated):
            told.append(reference(scope, model, data))

    scope = static.Scope()
    run = trained(
        model, epochs=3, valid=DataLoader(data, batch_size=8), scope=scope, devices=devices, on_step=look
    ).wait(60)
    assert run.validated == [4, 8, 12] and run.val_labels == ("val_loss",) and (run.epoch, run.epochs) == (3, 3)
    np.testing.assert_allclose(run.history["val_loss"], told, rtol=1e-5)
    assert run.curve("val_loss") == ([4, 8, 12], run.history["val_loss"])
    assert run.curve("loss") == (list(range(1, 13)), run.history["loss"])


def noisy() -> Model:
    """A model whose copy for testing draws numbers and counts its runs, too."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        noise = wb.uniform([1, 5], "float32", -1.0, 1.0)
        counter = static.create_global_var([1], 0.0, "float32", persistable=True, name="counter")
        wb.increment(counter)
        h = wb.nn.functional.dropout(static.nn.batch_norm(static.nn.fc(x + noise, 8)), 0.3)
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.05, 0.9)))


@pytest.mark.parametrize("devices", [1, 2])
def test_the_training_is_what_it_is_without_validation(devices: int) -> None:
    outcomes = []
    for options in ({}, {"valid_every": 2}):
        model, loader = noisy(), batches()
        runner = executor(model, devices)
        valid = DataLoader(held_out(), batch_size=8, shuffle=True, seed=1)
        if options:
            options = {**options, "valid": valid}
        run = trained(model, loader, steps=9, executor=runner, **options).wait(60)
        outcomes.append((run.history["loss"], everything(model, runner, loader)))
        assert valid.state_dict()["epoch"] == 0
    assert outcomes[0] == outcomes[1]
    assert len(run.history["val_loss"]) == 5 and run.validated == [2, 4, 6, 8, 9]


def test_a_stream_is_evaluated_at_the_end_of_its_passes_too() -> None:
    class Stream:
        def __iter__(self) -> Iterator[Any]:
            return iter(list(DataLoader(dataset(), batch_size=8)))

    model = drawing()
    run = trained(model, Stream(), epochs=2, valid=list(DataLoader(held_out(), batch_size=8)), scope=static.Scope())
    assert run.wait(60).validated == [4, 8] and run.steps is None and run.step == 8


def test_the_last_step_is_evaluated_in_the_middle_of_an_epoch() -> None:
    run = trained(drawing(), steps=6, valid=list(DataLoader(held_out(), batch_size=8)), scope=static.Scope()).wait(60)
    assert run.validated == [4, 6]


@pytest.mark.parametrize("step", [3, 4, 5, 8])
def test_a_run_that_goes_on_evaluates_what_the_whole_one_does(step: int, tmp_path: Path) -> None:
    path, outcomes = tmp_path / "x.checkpoint", []
    for options in ({"on_step": saving(path, step)}, {"checkpoint": path}):
        model = drawing()
        run = trained(model, epochs=3, valid=DataLoader(held_out(), batch_size=8), scope=static.Scope(), **options)
        run.wait(60)
        outcomes.append((run.history, run.validated, run.epoch))
    assert outcomes[0] == outcomes[1]


def test_it_is_recorded_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "runs.sqlite"
    run = trained(drawing(), epochs=2, valid=DataLoader(held_out(), batch_size=8), scope=static.Scope(), record=file)
    run.wait(60)
    (recorded,) = runs(file)
    steps, values = recorded.curve("val_loss")
    assert (steps.tolist(), values.tolist()) == run.curve("val_loss") and recorded.last == run.last
    assert (
        np.isnan(recorded.scalars["val_loss"][:3]).all() and recorded.value("val_loss") == run.history["val_loss"][-1]
    )


def test_nothing_fetched_evaluates_the_loss() -> None:
    run = trained(drawing(), epochs=1, fetch=(), valid=list(DataLoader(held_out(), batch_size=8)), scope=static.Scope())
    assert list(run.wait(60).history) == ["val_loss"] and len(run.history["val_loss"]) == 1


def test_stop_ends_a_long_evaluation() -> None:
    class Endless:
        def __iter__(self) -> Iterator[Any]:
            while True:
                yield from DataLoader(held_out(), batch_size=8)

    run = trained(drawing(), epochs=2, valid=Endless(), scope=static.Scope())
    deadline = time.monotonic() + 30
    while run.step < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    run.stop()
    assert run.wait(30).state == "stopped" and run.step == 4 and run.validated == []


def test_what_cannot_be_evaluated_is_told() -> None:
    model, valid = drawing(), list(DataLoader(held_out(), batch_size=8))
    for options, text in (
        ({"valid": 3}, "iterated over again"),
        ({"valid": iter(valid)}, "iterated over again"),
        ({"valid": valid, "fetch": ["fc_0.w_0@GRAD"]}, "computes none of 'fc_0.w_0@GRAD'"),
        ({"valid": valid, "fetch": {"loss": model.loss, "val_loss": model.loss}}, "called 'val_loss'"),
        ({"valid": valid, "valid_every": 0}, ">= 1 as valid_every, got 0"),
        ({"valid_every": 2}, "needs validation data"),
    ):
        with pytest.raises(wb.errors.InvalidArgument, match=text):
            trained(model, scope=static.Scope(), **options)
    for broken, text in (([], "no batch to evaluate"), ([{"x": np.ones((2, 4), np.float32)}], "'x'|'y'")):
        with pytest.raises(wb.errors.EnforceNotMet, match=text) as caught:
            trained(drawing(), epochs=1, valid=broken, scope=static.Scope()).wait(60)
        assert "valid" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_a_setup_has_validation_data_of_the_kinds_of_its_data() -> None:
    model = drawing()
    base = setup(model.main, dataset(), model.startup, {"loss": model.loss}, batch_size=8, epochs=2, seed=3)
    for valid in (held_out(), DataLoader(held_out(), batch_size=8), list(DataLoader(held_out(), batch_size=8))):
        run = base.with_(valid=valid).start(record=False, progress=False).wait(60)
        assert run.validated == [4, 8]
    run = base.with_(valid=held_out(), valid_every=3).start(record=False, progress=False).wait(60)
    assert run.validated == [3, 6, 8]


# How long a run is, and on how many devices


def test_ten_epochs_if_nothing_is_said() -> None:
    run = trained(drawing(), scope=static.Scope()).wait(60)
    assert (run.step, run.steps, run.epochs) == (40, 40, 10)
    feeds = list(DataLoader(dataset(), batch_size=8))
    once = trained(drawing(), (feed for feed in feeds), scope=static.Scope()).wait(60)
    assert (once.step, once.epochs, str(once.state)) == (4, 1, "done")
    both = trained(drawing(), feeds, steps=6, epochs=9, scope=static.Scope()).wait(60)
    assert (both.step, both.epochs, both.epoch) == (6, 9, 1)


def test_devices_train_as_a_compiled_program_does() -> None:
    model, other = drawing(), drawing()
    runner, scope = executor(other, 2), static.Scope()
    run = trained(model, steps=6, devices=2, scope=scope).wait(60)
    by_hand = trained(other, batches(), steps=6, executor=runner).wait(60)
    assert run.history == by_hand.history and run.executor.inspection.scope is scope
    assert len(run.executor.inspection.places) == 2
    for options, text in (({"devices": 0}, ">= 1 as devices"), ({"devices": 2, "executor": runner}, "leave one out")):
        with pytest.raises(wb.errors.InvalidArgument, match=text):
            trained(drawing(), **options)
