"""`save_check_point` and `load_check_point` of collective fleets: whole or not at all, the newest one counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import fluid
from workbench.errors import InvalidArgument, InvalidForm, InvalidType, Unimplemented
from workbench.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
from workbench.fluid.incubate.fleet.collective import Collective, TrainStatus
from workbench.framework.notice import Notice
from workbench.parallel.fleet.collective import checkpoints

ENDPOINTS = ["127.0.0.1:6170", "127.0.0.1:6171"]
NAMES = ["fc_0.w_0", "fc_0.b_0", "fc_0.w_0_moment1_0", "fc_0.w_0_beta1_pow_acc_0", "learning_rate_0"]


@pytest.fixture(autouse=True)
def _afresh() -> Any:
    wb.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield
    wb.disable_static()


class Trained:
    """A fleet of one trainer, its program, and a scope for it."""

    def __init__(self, width: int = 3) -> None:
        self.fleet = Collective()
        self.fleet.init(UserDefinedCollectiveRoleMaker(0, ENDPOINTS[:1]))
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
            loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, width]), 2))
            self.fleet.distributed_optimizer(fluid.optimizer.Adam(0.1)).minimize(loss)
        self.feed = {"x": np.arange(2.0 * width, dtype=np.float32).reshape(2, width)}
        self.executor, self.scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        self.executor.run(self.fleet.startup_program, scope=self.scope)

    def step(self) -> None:
        self.executor.run(self.fleet.main_program, feed=self.feed, scope=self.scope)

    def values(self) -> dict[str, bytes]:
        return {name: np.array(self.scope.find_var(name).get_tensor()).tobytes() for name in NAMES}

    def save(self, folder: Path, epoch: int, **told: Any) -> None:
        with fluid.scope_guard(self.scope):
            self.fleet.save_check_point(self.executor, folder, TrainStatus(epoch), **told)

    def load(self, folder: Path, **told: Any) -> TrainStatus | None:
        with fluid.scope_guard(self.scope):
            return self.fleet.load_check_point(self.executor, folder, 0, **told)


def test_training_goes_on_where_the_newest_checkpoint_was(tmp_path: Path) -> None:
    first, folder = Trained(), tmp_path / "kept"
    first.step()
    first.save(folder, 0)
    first.step()
    first.save(folder, 1)
    first.step()
    other = Trained()
    status = other.load(folder)
    assert status == TrainStatus(1) and status.next() == 2
    other.step()
    assert other.values() == first.values()  # accumulators, too
    assert first.fleet._get_last_checkpoint_no(folder) == 1


def test_files_are_called_as_in_paddle(tmp_path: Path) -> None:
    Trained().save(tmp_path, 7)
    (file,) = tmp_path.iterdir()
    assert file.name == "__paddle_fleet_checkpoint__.0"
    assert sorted(one.name for one in file.iterdir()) == ["_paddle_fleet_param__", "fleet_train_status"]
    assert json.loads((file / "fleet_train_status").read_text()) == {"epoch_no": 7}


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    one = Trained()
    assert one.load(tmp_path / "nowhere") is None and one.load(tmp_path) is None
    with pytest.raises(AssertionError, match="no checkpoint"):
        one.load(tmp_path, ignore_empty=False)
    assert one.fleet._get_last_checkpoint_no(tmp_path) == -1


def test_only_the_newest_ones_are_kept(tmp_path: Path) -> None:
    one = Trained()
    for epoch in range(3):
        one.save(tmp_path, epoch)
    (tmp_path / "__paddle_fleet_checkpoint__.9.tmp").mkdir()
    (tmp_path / "of_somebody_else").mkdir()
    one.fleet.clean_redundant_check_points(tmp_path, checkpoint_num=2)
    assert {one.name for one in tmp_path.iterdir()} == {
        "__paddle_fleet_checkpoint__.1", "__paddle_fleet_checkpoint__.2", "of_somebody_else"
    }  # fmt: skip
    one.save(tmp_path, 3, remain_all_checkpoint=False)
    assert checkpoints.checkpoint_numbers(tmp_path) == [3]
    one.fleet.clean_redundant_check_points(tmp_path, checkpoint_num=0)
    assert one.load(tmp_path) == TrainStatus(3)


def test_one_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Trained()
    one.save(tmp_path, 0)

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "replace_file", full)
    with pytest.raises(OSError, match="No space left"):
        one.save(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["__paddle_fleet_checkpoint__.0"]
    assert one.load(tmp_path) == TrainStatus(0)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"epoch": 1}', '{"epoch_no": "x"}', '{"epoch_no": -5}', "\xff", pytest.param("[" * 4000, id="deep")],
)
def test_a_damaged_status_is_refused_before_anything_is_loaded(tmp_path: Path, text: str) -> None:
    one = Trained()
    one.save(tmp_path, 0)
    (tmp_path / "__paddle_fleet_checkpoint__.0" / "fleet_train_status").write_text(text, encoding="latin-1")
    one.step()
    before = one.values()
    with pytest.raises(InvalidArgument, match="fleet_train_status"):
        one.load(tmp_path)
    assert one.values() == before


def test_a_checkpoint_of_another_program_is_refused(tmp_path: Path) -> None:
    Trained(width=5).save(tmp_path, 0)
    one = Trained()
    before = one.values()
    with pytest.raises(InvalidArgument):
        one.load(tmp_path)
    assert one.values() == before


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    one = Trained()
    fleet, executor = one.fleet, one.executor
    with pytest.raises(InvalidType, match="TrainStatus"), fluid.scope_guard(one.scope):
        fleet.save_check_point(executor, tmp_path, 5)
    with pytest.raises(InvalidForm, match="Executor"):
        fleet.save_check_point(None, tmp_path, TrainStatus())
    with pytest.raises(Unimplemented, match="fs="):
        fleet.load_check_point(executor, tmp_path, 0, fs=object())
    with pytest.warns(Notice, match="local_cache_path"):
        one.load(tmp_path, local_cache_path="elsewhere")
    for wrong in (-2, True, 1.0):
        with pytest.raises(InvalidArgument, match="epoch"):
            TrainStatus(wrong)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_first_trainer_writes_for_all(tmp_path: Path) -> None:
    fleet = Collective()
    fleet.init(UserDefinedCollectiveRoleMaker(1, ENDPOINTS))
    fleet.save_check_point(fluid.Executor(), tmp_path, TrainStatus(), fluid.default_main_program())
    assert list(tmp_path.iterdir()) == []
