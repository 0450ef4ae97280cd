"""The controls: what they take, and what stays of it from one run to the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.notebook.dashboard.test_model import begin
from tests.parallel.models import Model as Built
from workbench import static
from workbench.errors import InvalidArgument
from workbench.graph.settings import ReduceStrategy
from workbench.io import DataLoader
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject
from workbench.runtime.storage.scope import Scope, scope_guard

ModelOf = Callable[[Any], Model]


def shown_and_trained(model: Model, *names: str) -> list[tuple[Any, ...]]:
    """What the controls show before a run, with what it ran, and show after it, two runs long."""
    shown = []
    for _ in range(2):
        shown.append(tuple(model.controls.values()[name] for name in names))
        setup = begin(model).wait(30).setup
        of_run = {**setup.build, **setup.execution, **vars(setup)}
        shown.append(tuple(getattr(of_run[name], "name", of_run[name]) for name in names))
    return [*shown, tuple(model.controls.values()[name] for name in names)]


def test_a_programs_runs_keep_the_devices_that_are_shown(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    model.controls.set({"epochs": 1})
    assert shown_and_trained(model, "devices") == [(2,)] * 5


def test_the_devices_are_those_of_the_header_of_a_program_without_a_loss_too(built: Built, model_of: ModelOf) -> None:
    for program, devices in ((built.main, 2), (built.test, 1)):
        model = model_of(program)
        shown = len(model.state()["subject"]["devices"]), model.controls.values()["devices"]
        assert shown == (devices, devices)


def test_an_executors_runs_keep_what_it_has(built: Built, model_of: ModelOf) -> None:
    build, execution = static.BuildStrategy(), static.ExecutionStrategy()
    build.reduce_strategy, execution.num_threads = ReduceStrategy.Reduce, 3
    model = model_of(built.start().parallel(3, build_strategy=build, exec_strategy=execution))
    model.controls.set({"epochs": 1})
    names = "devices", "reduce_strategy", "num_threads"
    assert shown_and_trained(model, *names) == [(3, "Reduce", 3)] * 5


def test_other_data_and_another_program_leave_the_other_settings(built: Built, loader: DataLoader) -> None:
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((6, 5), np.float32), "y": rng.integers(0, 3, (6, 1))}]
    bound = {"net": built.main, "other": built.main.clone(), "batches": loader, "feeds": feeds}
    setup = wb.experiments.setup(built.main, loader, built.startup, devices=3, epochs=1, valid=feeds, stop_on_nan=True)
    model = Model(Subject.of(setup.start(progress=False).wait(30), bound), lambda: bound, lambda p, n: built.startup)
    names = "devices", "epochs", "stop_on_nan", "valid"
    for choice in ({"data": "feeds"}, {"program": "other"}):
        model.controls.set(choice)
        shown = model.controls.values()
        run = begin(model).wait(30)
        assert (run.setup.devices, run.setup.epochs, run.setup.valid is feeds) == (3, 1, True)
        assert [model.controls.values()[name] for name in names] == [shown[name] for name in names]
    assert shown["valid"] == "feeds" and shown["batch_size"] is None
    model.close()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"devices": 0}, "devices is a whole number >= 1, got 0"),
        ({"devices": "x"}, "devices is a whole number >= 1, got 'x'"),
        ({"batch_size": -1}, "batch_size is a whole number >= 1, got -1"),
        ({"steps": -3}, "steps is a whole number >= 0, got -3"),
        ({"steps": "abc"}, "steps is a whole number >= 0, got 'abc'"),
        ({"steps": True}, "steps is a whole number >= 0, got True"),
        ({"epochs": 2.5}, "epochs is a whole number >= 0, got 2.5"),
        ({"num_threads": -1}, "num_threads is a whole number >= 0, got -1"),
        ({"num_iteration_per_drop_scope": []}, "num_iteration_per_drop_scope is a whole number >= 0, got []"),
        ({"learning_rate": 10**400}, "learning_rate is a number of at least 0, got 1000"),
        ({"reduce_strategy": ["Sum"]}, "reduce_strategy is one of AllReduce, Reduce, got ['Sum']"),
        ({"stop_on_nan": "yes"}, "stop_on_nan is True or False, got 'yes'"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_chosen(
    built: Built, model_of: ModelOf, wrong: dict[str, Any], expected: str
) -> None:
    model = model_of(built.main)
    before = model.controls.values()
    with pytest.raises(InvalidArgument) as refused:
        model.command("run", {"devices": 3, "epochs": 7, **wrong})
    assert str(refused.value).startswith(expected) and "\n" not in str(refused.value)
    assert model.controls.values() == before and model.busy is None


def test_a_misspelt_setting_is_told_the_right_one(built: Built, model_of: ModelOf) -> None:
    with pytest.raises(InvalidArgument, match=r"no setting 'devics'.*Did you mean 'devices'\?"):
        model_of(built.main).controls.set({"devics": 2})


def test_runs_are_told_apart_by_what_differs(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)

    def labels() -> list[str]:
        return [shown["label"].split(": ")[-1] for shown in model.state()["runs"]]

    begin(model, epochs=1).wait(30)
    assert labels() == ["net, 2 devices, AllReduce"]
    begin(model, learning_rate=0.5).wait(30)
    same = "net, 2 devices, AllReduce, learning rate"
    assert labels() == [f"{same} as given", f"{same} 0.5"]
    begin(model, devices=1, batch_size=5).wait(30)
    assert labels() == [
        "net, 2 devices, AllReduce, batch size 7, learning rate as given",
        "net, 2 devices, AllReduce, batch size 7, learning rate 0.5",
        "net, 1 device, batch size 5, learning rate 0.5",
    ]


def test_a_notice_says_what_was_started_and_where_its_checkpoints_are(
    built: Built, model_of: ModelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = model_of(built.main)
    begin(model, epochs=1).wait(30)
    started = (
        "started net, 2 devices, AllReduce; its values are its own, wb.dashboard().run.scope, "
        "and those of the notebook stay as they are"
    )
    assert model.state()["notice"]["text"] == started
    begin(model, checkpoints="last").wait(30)
    said = model.state()["notice"]["text"]
    folder = Path(said.removeprefix(f"{started}; checkpoints go to "))
    assert [file.name for file in folder.iterdir()] == ["last.checkpoint"]


def test_what_the_page_trains_is_in_the_scope_of_its_run(built: Built, model_of: ModelOf) -> None:
    names = [parameter.name for parameter in built.main.all_parameters()]
    with scope_guard(Scope()):
        static.Executor().run(built.startup)
        before = {name: np.array(static.global_scope().get(name).get_tensor()) for name in names}
        run = begin(model_of(built.main), epochs=1).wait(30)
        for name, value in before.items():
            np.testing.assert_array_equal(static.global_scope().get(name).get_tensor(), value)
        assert run.scope is not static.global_scope()
    assert any((np.array(run.scope.get(name).get_tensor()) != value).any() for name, value in before.items())


def test_no_steps_are_a_choice(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    model.controls.set({"steps": 0})
    assert (model.controls.values()["steps"], model.controls.values()["epochs"]) == (0, None)
    run = begin(model).wait(30)
    assert (run.state, run.step) == ("done", 0) and model.state()["run"]["values"]["steps"] == 0


def test_numbers_of_numpy_and_members_of_enums_are_kept_as_the_page_has_them(built: Built, model_of: ModelOf) -> None:
    model = model_of(built.main)
    model.controls.set({"steps": np.int64(3), "reduce_strategy": ReduceStrategy.Reduce, "learning_rate": np.float32(0)})
    values = model.controls.values()
    kept = [values[name] for name in ("steps", "reduce_strategy", "learning_rate")]
    assert kept == [3, "Reduce", 0.0] and [type(value) for value in kept] == [int, str, float]
