"""Layers of dynamic mode in the training loop of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import nn
from workbench.framework import names
from workbench.framework.notice import Notice
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader, TensorDataset

LOSS = nn.CrossEntropyLoss()


class Made:
    """A layer with an optimizer, a schedule and data, the same whenever it is made."""

    def __init__(self, rows: int = 24, dropout: float = 0.0, net: Any = None) -> None:
        with names.guard():
            wb.seed(3)
            self.norm = nn.BatchNorm1D(8)
            parts = [nn.Linear(4, 8), self.norm, nn.Dropout(dropout), nn.Linear(8, 2)]
            self.net: Any = net if net is not None else nn.Sequential(*parts)
        self.schedule = wb.optimizer.lr.StepDecay(0.05, 4)
        self.optimizer = wb.optimizer.Adam(self.schedule, parameters=self.net.parameters())
        rng = np.random.default_rng(0)
        self.data = TensorDataset([rng.standard_normal((rows, 4), np.float32), rng.integers(0, 2, (rows, 1))])
        self.batches = DataLoader(self.data, batch_size=8, shuffle=True, seed=1)

    def train(self, batches: Any = None, **options: Any) -> Any:
        given = {"loss": LOSS, "optimizer": self.optimizer, "progress": False, "record": False, **options}
        return wb.train(self.net, self.batches if batches is None else batches, **given)

    def loss(self, x: Any, y: Any) -> Any:
        return LOSS(self.net(wb.to_tensor(x)), wb.to_tensor(y))

    def values(self) -> list[np.ndarray]:
        return [value.numpy().copy() for value in self.net.state_dict().values()]


@pytest.fixture(autouse=True)
def _quiet(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    """Batches of two sizes are nothing to speak of."""
    yield
    assert not [warning for warning in recwarn if "recorded again" in str(warning.message)]


def test_it_learns_what_a_loop_by_hand_does() -> None:
    setup, twin = Made(rows=22), Made(rows=22)  # the last batch is smaller
    setup.net.eval()
    run = setup.train(epochs=3, fetch={"accuracy": wb.metric.accuracy}).wait(60)
    losses, accuracies = [], []
    for _ in range(3):
        for x, y in twin.batches:
            scores = twin.net(wb.to_tensor(x))
            loss = LOSS(scores, wb.to_tensor(y))
            loss.backward()
            twin.optimizer.step()
            twin.optimizer.clear_grad()
            twin.schedule.step()
            losses.append(loss.item())
            accuracies.append(float(wb.metric.accuracy(scores, wb.to_tensor(y))))
    assert (run.step, run.epoch, str(run.state)) == (9, 3, "done") and setup.net.training
    assert run.executor.inspection.steps == 6  # on the engine, those with eight rows
    np.testing.assert_allclose(run.history["loss"], losses, rtol=1e-4)
    np.testing.assert_allclose(run.history["accuracy"], accuracies, rtol=1e-6)
    assert setup.schedule.get_lr() == twin.schedule.get_lr() != 0.05


def test_validation_data_are_evaluated_as_after_eval() -> None:
    setup = Made(dropout=0.5)
    setup.norm.eval()
    kept: list[Any] = []

    def look(run: Any) -> None:
        if run.step == 1 and not kept:
            kept.extend([setup.net[2].training, setup.values()])

    run = setup.train(steps=4, valid=DataLoader(setup.data, batch_size=10), valid_every=4, on_step=look).wait(60)
    assert kept[0] is True and setup.net[2].training and run.validated == [4]
    setup.net.eval()
    losses = [(len(x), setup.loss(x, y).item()) for x, y in DataLoader(setup.data, batch_size=10)]
    mean = sum(rows * loss for rows, loss in losses) / sum(rows for rows, _ in losses)
    assert run.history["val_loss"] == [pytest.approx(mean, rel=1e-5)]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path, devices: int) -> None:
    reference = (whole := Made(dropout=0.3)).train(steps=7, devices=devices).wait(60)
    path = Made(dropout=0.3).train(steps=4, devices=devices).wait(60).save(tmp_path / "half.checkpoint")
    again = Made(dropout=0.3)
    Made(dropout=0.3).train(steps=1, devices=devices).wait(60)  # draws from the series of masks that was saved
    more = again.train(steps=7, devices=devices, checkpoint=path).wait(60)
    assert more.history == reference.history and len(more.history["loss"]) == 7
    assert again.schedule.get_lr() == whole.schedule.get_lr()
    for ours, theirs in zip(again.values(), whole.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0, 2), "the file has 'linear_1.b_0', the program 'linear_2.b_0'"),
        ((0,), "the file has 'linear_1.b_0', the program not"),
    ],
)
def test_a_checkpoint_of_a_layer_with_other_names_is_refused(
    tmp_path: Path, numbers: tuple[int, ...], said: str
) -> None:
    def setup_of(*used: int) -> Made:
        with names.guard():
            parts = [nn.Linear(4, 4) for _ in range(max(used) + 1)]
        return Made(net=nn.Sequential(*[parts[k] for k in used]))

    path = setup_of(0, 1).train(steps=1).wait(60).save(tmp_path / "one.checkpoint")
    other = setup_of(*numbers)
    with pytest.raises(wb.errors.InvalidArgument, match=f"another program than .*; {said}"):
        other.train(checkpoint=path)


@pytest.mark.parametrize(
    ("rows", "devices", "said"), [(4, 1, r"float32\[4, 4\].* on 1 device$"), (8, 2, r"float32\[4, 4\].* on 2 devices$")]
)
def test_a_checkpoint_of_other_batches_or_devices_is_refused_as_that(
    tmp_path: Path, rows: int, devices: int, said: str
) -> None:
    path = Made().train(steps=1).wait(60).save(tmp_path / "one.checkpoint")
    other = Made()
    batches = DataLoader(other.data, batch_size=rows, shuffle=True, seed=1)
    with pytest.raises(wb.errors.InvalidArgument) as refused:
        other.train(batches, checkpoint=path, devices=devices)
    took = r"that one took .*float32\[8, 4\].*int64\[8, 1\] on 1 device, this one takes .*"
    assert re.search(took + said, str(refused.value))


class Wilful(nn.Layer):
    """Looks at a value with Python, so that its steps cannot be recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        out = self.linear(x)
        return out if float(out.sum()) > 0 else out * 2.0


def test_steps_that_cannot_be_recorded_run_op_by_op(tmp_path: Path) -> None:
    setup = Made(net=Wilful())
    before = setup.values()
    with pytest.warns(Notice, match=r"steps of Wilful cannot be recorded, and run op by op(.|\n)*test_train_layer.py"):
        run = setup.train(epochs=2, valid=setup.batches)
    run.wait(60)
    assert (run.name, run.step, run.validated) == ("Wilful", 6, [3, 6])
    assert not any(map(np.array_equal, setup.values(), before))
    with pytest.raises(wb.errors.PreconditionNotMet, match="need steps that can be recorded"):
        run.save(tmp_path / "no.checkpoint")
    with pytest.raises(wb.errors.InvalidArgument, match="no program to show"):
        wb.dashboard(run)


@pytest.mark.parametrize("options", [{"checkpoints": "best"}, {"checkpoint": "x"}, {"stop_on_nan": True}])
@pytest.mark.filterwarnings("ignore")
def test_what_needs_recorded_steps_is_refused_before_the_first(options: dict[str, Any]) -> None:
    setup = Made(net=Wilful())
    before = setup.values()
    with pytest.raises(wb.errors.PreconditionNotMet, match="need steps that can be recorded"):
        setup.train(**options)
    with pytest.raises(wb.errors.InvalidArgument, match="several devices"):
        setup.train(devices=2)
    assert all(map(np.array_equal, setup.values(), before))


def test_batches_that_come_once_are_all_used() -> None:
    setup = Made()
    assert setup.train(iter(list(setup.batches))).wait(60).step == 3
    feeds = [{"input": x, "label": y} for x, y in setup.batches]
    assert setup.train(feeds, steps=4).wait(60).step == 4


@pytest.mark.parametrize("spoilt", [1, 2])  # the last batch is smaller
def test_the_first_nan_is_found_and_stops_the_run(spoilt: int) -> None:
    setup = Made(rows=22)
    batches = [(np.array(x), y) for x, y in setup.batches]
    batches[spoilt][0][5] = np.nan
    run = setup.train(batches, epochs=1, stop_on_nan=True)
    with pytest.raises(wb.errors.EnforceNotMet, match=f"NaN from step {spoilt + 1}: it was fed as 'input', in row 5"):
        run.wait(60)
    assert run.step == spoilt and all(np.isfinite(value).all() for value in setup.values())


WRONG = {
    "no loss": ({"loss": None}, "takes loss= for a Layer"),
    "a class": ({"loss": nn.MSELoss}, r"class MSELoss; train takes an object of it: MSELoss\(\)"),
    "no number": ({"loss": lambda output, label: output}, r"one number for a batch, got a tensor of shape \[8, 2\]"),
    "no tensor": ({"loss": lambda output, label: 1.0}, "one number for a batch, got"),
    "no optimizer": ({"optimizer": None}, "takes optimizer= for a Layer"),
    "startup": ({"startup": wb.static.Program()}, "takes no startup for a Layer"),
    "scope": ({"scope": wb.static.Scope()}, "takes no scope for a Layer"),
    "fetch": ({"fetch": ["x"]}, "dict {label: function"),
    "loss twice": ({"fetch": {"loss": LOSS}}, "recorded in any case"),
    "no batch": ({"batches": []}, "gave no batch"),
    "no list": ({"batches": [np.ones((2, 4), np.float32)]}, "must give lists or dicts"),
    "columns": ({"batches": [(np.ones((2, 5), np.float32), np.zeros((2, 1), int))]}, r"layer sequential\.0"),
    "valid": ({"valid": iter([])}, "can be iterated over again"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_at_once(case: str) -> None:
    options, message = WRONG[case]
    with pytest.raises(wb.errors.EnforceNotMet, match=message):
        Made().train(**options)


def test_the_optimizer_has_to_be_its_own_and_the_mode_dynamic() -> None:
    setup = Made()
    with pytest.raises(wb.errors.InvalidArgument, match="updates no parameter of Sequential"):
        setup.train(optimizer=Made().optimizer)
    with static_mode(), pytest.raises(wb.errors.PreconditionNotMet, match="disable_static"):
        setup.train()
    with pytest.raises(wb.errors.InvalidArgument, match="are of a Layer"):
        wb.train(wb.static.Program(), [], loss=LOSS)
