"""Checkpoints that do not fit, or are damaged, are refused with a reason, and nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.training.test_restoring import batches, begun, everything, executor
from tests.experiments.training.test_resume import dataset, drawing, saving
from tests.parallel.models import Model, build
from workbench import static
from workbench.checkpoint.files import read_tensors, write_tensors
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


def changed(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """A copy of a checkpoint with something else in it, whole and stamped."""
    tensors, metadata = read_tensors(path)
    metadata = json.loads(json.dumps(metadata))
    change(tensors, metadata)
    other = path.with_name("changed.checkpoint")
    write_tensors(other, tensors, metadata)
    return other


def _rename_schedule_state(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    (schedule,) = metadata["schedulers"].values()
    schedule["state"]["epoch"] = schedule["state"].pop("last_epoch")


def _lose_a_parameter(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    tensors.pop(next(name for name in tensors if name.endswith("w_0")))


def _widen_a_parameter(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    name = next(name for name in tensors if name.endswith("w_0") and "device" not in name)
    tensors[name] = np.zeros((3, 3), np.float32)


def _widen_a_value_of_device_1(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    name = next(name for name in tensors if name.startswith("device 1: "))
    tensors[name] = np.zeros((3, 3), np.float32)


def _own_value_of_a_stranger(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    tensors["device 1: nobody"] = np.zeros(3, np.float32)
    metadata["run"]["own"].append(["nobody", 1])


def _own_value_that_is_not_there(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    metadata["run"]["own"].append(["nobody", 1])


def _another_seed_kind(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    metadata["run"]["loader"]["seed"] = None


def _no_step(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    del metadata["run"]["step"]


def _a_step_that_is_none(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    metadata["run"]["step"] = "four"


def _more_steps_than_there_can_be(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    metadata["run"]["step"] = 10**400


def _recorded_values_in_a_table(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    tensors["history: 0"] = np.zeros((2, 2))


def _kept_without_a_folder(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    metadata["run"]["kept"] = {"best": [], "last": None, "epoch": 1, "looked": 1}


DAMAGES = (
    _rename_schedule_state, _lose_a_parameter, _widen_a_parameter, _widen_a_value_of_device_1, _own_value_of_a_stranger,
    _own_value_that_is_not_there, _another_seed_kind, _no_step, _a_step_that_is_none,
    _more_steps_than_there_can_be, _recorded_values_in_a_table, _kept_without_a_folder,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_a_checkpoint_that_does_not_fit_changes_nothing(damage: Any, strategy: str, tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model, strategy=strategy)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    before = everything(model, runner, loader)
    with pytest.raises(wb.errors.InvalidArgument, match=r"changed\.checkpoint"):
        begun(model, runner, loader, checkpoint=changed(path, damage))
    assert everything(model, runner, loader) == before


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"drop_last": True, "batch_size": 5}, {"shuffle": False}])
def test_another_loader_changes_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    other = batches(**{**options, **({"seed": None} if not options.get("shuffle", True) else {})})
    before = everything(model, runner, loader), other.state_dict()
    with pytest.raises(wb.errors.InvalidArgument, match=r"x\.checkpoint.*another DataLoader"):
        begun(model, runner, other, checkpoint=path)
    assert (everything(model, runner, loader), other.state_dict()) == before


def test_a_list_of_another_length_changes_nothing(tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    feeds, runner = list(batches()), executor(model)
    begun(model, runner, feeds, on_step=saving(path, 3)).wait(60)
    before = everything(model, runner, feeds)
    with pytest.raises(wb.errors.InvalidArgument, match=r"x\.checkpoint.*4 batches.*2"):
        begun(model, runner, feeds[:2], checkpoint=path)
    assert everything(model, runner, feeds) == before


@pytest.mark.parametrize("count", [1, 3, 4])
def test_another_number_of_devices_changes_nothing(count: int, tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    begun(model, executor(model), on_step=saving(path, 4)).wait(60)
    other, loader = executor(model, count, static.Scope()), batches()
    begun(model, other, loader, steps=1).wait(60)
    before = everything(model, other, loader)
    with pytest.raises(wb.errors.InvalidArgument, match=rf"x\.checkpoint.*2 devices.*{count}"):
        begun(model, other, loader, checkpoint=path)
    with pytest.raises(wb.errors.InvalidArgument, match=r"x\.checkpoint.*2 devices"):
        begun(model, static.Executor(), loader, checkpoint=path, scope=model.scope)
    assert everything(model, other, loader) == before


def test_a_refused_checkpoint_initialises_nothing(tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    begun(model, executor(model), on_step=saving(path, 2)).wait(60)
    scope = static.Scope()
    with pytest.raises(wb.errors.InvalidArgument):
        begun(model, executor(model, 2, scope), batches(4), checkpoint=path)
    assert not any(v.tensor.initialized for v in scope.vars.values())


def test_an_argument_that_is_refused_leaves_everything_as_it_was(tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    before = everything(model, runner, loader)
    with pytest.raises(wb.errors.InvalidArgument, match="subscribe takes a function"):
        begun(model, runner, loader, checkpoint=path, on_step=3)
    with pytest.raises(wb.errors.InvalidType, match="dict of names and values"):
        begun(model, runner, loader, checkpoint=path, settings=[3], record=tmp_path / "runs.sqlite")
    assert everything(model, runner, loader) == before


def cyclic() -> dict[str, Any]:
    settings: dict[str, Any] = {"rate": 0.1}
    settings["self"] = {"again": [settings]}
    return settings


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("settings", "text"),
    [(cyclic(), "'self' contains itself"), ({"fine": 1, "mute": Mute()}, "'mute' cannot be recorded.*no text")],
)
def test_a_setting_that_cannot_be_recorded_leaves_everything_as_it_was(
    settings: dict[str, Any], text: str, tmp_path: Path
) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    before = everything(model, runner, loader)
    with pytest.raises(wb.errors.InvalidArgument, match=text):
        begun(model, runner, loader, checkpoint=path, settings=settings)
    assert everything(model, runner, loader) == before


def test_a_bar_that_cannot_be_shown_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    before = everything(model, runner, loader)

    def fail(*given: Any, **options: Any) -> None:
        raise OSError("no terminal")

    monkeypatch.setattr("tqdm.tqdm", fail)
    with pytest.raises(OSError, match="no terminal"):
        begun(model, runner, loader, checkpoint=path, progress=True)
    assert everything(model, runner, loader) == before


class Refusing(DataLoader):
    """A loader of a user's that moves, and then does not take its state."""

    refuses = False

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict({**state, "seed": 77})
        if self.refuses:
            raise RuntimeError("not this one")


def test_a_loader_that_fails_to_take_its_state_leaves_everything_as_it_was(strategy: str, tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = Refusing(dataset(), batch_size=8, shuffle=True, seed=5), executor(model, strategy=strategy)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    before = everything(model, runner, loader)
    loader.refuses = True
    with pytest.raises(RuntimeError, match="not this one"):
        begun(model, runner, loader, checkpoint=path)
    assert everything(model, runner, loader) == before


def test_the_rate_that_is_recorded_is_the_restored_one(tmp_path: Path) -> None:
    model, path = linear(), tmp_path / "x.checkpoint"
    (rate,) = {n for op in model.main.all_ops() for n in op.inputs.get("LearningRate", ())}
    runner = executor(model)
    begun(model, runner, on_step=saving(path, 4), steps=4).wait(60)
    model.scope.get(rate).set(np.array([0.125], np.float32))
    begun(model, runner, checkpoint=path, record=tmp_path / "runs.sqlite", startup=None, steps=5).wait(60)
    assert wb.runs(tmp_path / "runs.sqlite")[1].settings["learning_rate"] == 0.25


def linear() -> Model:
    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(x, 3), y))

    return build(body, wb.optimizer.SGD(0.25))


def test_a_schedule_that_fails_to_take_its_state_is_as_it_was(tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model)
    begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    (schedule,) = model.main.lr_schedulers.values()
    before = everything(model, runner, loader)

    def fail(state: Any) -> None:
        schedule.last_epoch = -7
        raise RuntimeError("no room")

    schedule.set_state_dict = fail
    with pytest.raises(RuntimeError, match="no room"):
        begun(model, runner, loader, checkpoint=path)
    assert everything(model, runner, loader) == before


def test_replicas_that_were_dropped_are_made_again(strategy: str, tmp_path: Path) -> None:
    model, path = drawing(), tmp_path / "x.checkpoint"
    loader, runner = batches(), executor(model, strategy=strategy)
    whole = begun(model, runner, loader, on_step=saving(path, 4)).wait(60)
    at_end = everything(model, runner, loader)
    model.scope.drop_kids()
    again = begun(model, runner, loader, checkpoint=path).wait(60)
    assert again.history == whole.history and everything(model, runner, loader) == at_end


def test_a_value_of_device_1_is_refused_where_devices_share_it(tmp_path: Path) -> None:
    def own_weight(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        name = next(name for name in tensors if name.endswith("fc_0.w_0"))
        tensors[f"device 1: {name}"] = tensors[name] + 1
        metadata["run"]["own"].append([name, 1])

    path = tmp_path / "x.checkpoint"
    model = drawing()
    begun(model, executor(model), on_step=saving(path, 4)).wait(60)
    apart, shared = (executor(model, 2, static.Scope(), strategy) for strategy in ("AllReduce", "Reduce"))
    with pytest.raises(wb.errors.InvalidArgument, match=r"changed\.checkpoint.*'fc_0\.w_0', which all share here"):
        begun(model, shared, checkpoint=changed(path, own_weight))
    begun(model, apart, steps=4, checkpoint=changed(path, own_weight)).wait(60)
    first, second = (np.array(apart.inspection.tensor("fc_0.w_0", place)) for place in (0, 1))
    np.testing.assert_array_equal(second, first + 1)
