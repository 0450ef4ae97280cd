"""`Model`: training by hand and in one call give the same, and callbacks are called at every stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.program.guard import static_mode

nn, callbacks = wb.nn, wb.callbacks
rng = np.random.default_rng(0)
FEATURES = rng.standard_normal((20, 4)).astype(np.float32)
LABELS = (FEATURES.sum(axis=1) > 0).astype(np.int64)[:, None]


def data(rows: int = 20) -> Any:
    return wb.io.TensorDataset([FEATURES[:rows], LABELS[:rows]])


def network() -> Any:
    wb.seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def prepared(**options: Any) -> Any:
    model = wb.Model(network())
    optimizer = wb.optimizer.Adam(0.05, parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), wb.metric.Accuracy(), **options)
    return model


class Told(callbacks.Callback):
    """Remembers what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *args: self.calls.append((name[3:], *args))
        return super().__getattribute__(name)

    @property
    def stages(self) -> list[str]:
        return [call[0] for call in self.calls]


def test_fit_is_the_loop_one_would_write() -> None:
    told, model = Told(), prepared()
    model.fit(data(), epochs=2, batch_size=8, shuffle=False, verbose=0, callbacks=told)
    net = network()
    optimizer, loss_of, losses = wb.optimizer.Adam(0.05, parameters=net.parameters()), nn.CrossEntropyLoss(), []
    for _ in range(2):
        for x, y in wb.io.DataLoader(data(), batch_size=8):
            loss = loss_of(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
    fitted = [call[2]["loss"][0] for call in told.calls if call[0] == "train_batch_end"]
    assert fitted == losses
    for name, value in net.state_dict().items():
        assert np.array_equal(value.numpy(), model.network.state_dict()[name].numpy())


def test_the_stages_of_a_fit() -> None:
    """Observed in Paddle 2.6."""
    told, model = Told(), prepared()
    model.fit(data(20), data(8), batch_size=8, verbose=0, callbacks=[told])
    batch = ["train_batch_begin", "train_batch_end"]
    evaluation = ["eval_begin", "eval_batch_begin", "eval_batch_end", "eval_end"]
    assert told.stages == ["train_begin", "epoch_begin", *batch * 3, "epoch_end", *evaluation, "train_end"]
    begin = next(call for call in told.calls if call[0] == "eval_begin")
    assert begin == ("eval_begin", {"steps": 1, "metrics": ["loss", "acc"]})
    logs = [call[2] for call in told.calls if call[0] == "train_batch_end"]
    assert [(log["step"], log["batch_size"], sorted(log)) for log in logs] == [
        (0, 8, ["acc", "batch_size", "loss", "step"]),
        (1, 8, ["acc", "batch_size", "loss", "step"]),
        (2, 4, ["acc", "batch_size", "loss", "step"]),
    ]
    assert told.params == {"batch_size": 8, "epochs": 1, "steps": 3, "verbose": 0, "metrics": ["loss", "acc"]}
    assert told.model is model


def test_evaluate_and_predict() -> None:
    model = prepared()
    model.fit(data(), epochs=20, batch_size=4, verbose=0)
    evaluated = model.evaluate(data(), batch_size=8, verbose=0)
    outputs = model.predict(data(), batch_size=8, verbose=0)
    assert len(outputs) == 1 and [part.shape for part in outputs[0]] == [(8, 2), (8, 2), (4, 2)]
    (stacked,) = model.predict(data(), batch_size=8, stack_outputs=True, verbose=0)
    assert np.array_equal(stacked, np.concatenate(outputs[0]))
    assert evaluated["acc"] == np.mean(stacked.argmax(axis=1) == LABELS[:, 0]) > 0.9
    assert isinstance(evaluated["loss"], list)


def test_batches_by_hand() -> None:
    model = prepared()
    losses, metrics = model.train_batch([FEATURES], [LABELS])
    assert losses[0].shape == () and 0 <= metrics[0] <= 1
    model.prepare(model._optimizer, nn.CrossEntropyLoss())
    (before,) = model.eval_batch(FEATURES, LABELS)
    model.train_batch(FEATURES[:10], LABELS[:10], update=False)
    assert model.eval_batch(FEATURES, LABELS)[0] == before
    model.train_batch(FEATURES[10:], LABELS[10:])
    assert model.eval_batch(FEATURES, LABELS)[0] != before
    assert [output.shape for output in model.predict_batch(FEATURES[:3])] == [(3, 2)]


def test_gradients_of_several_batches_are_added_up() -> None:
    one, other = prepared(), prepared()
    one.fit(data(16), batch_size=4, accumulate_grad_batches=4, shuffle=False, verbose=0)
    for start in range(0, 16, 4):
        part = slice(start, start + 4)
        other.train_batch(FEATURES[part], LABELS[part], update=start == 12)
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        assert np.array_equal(left.numpy(), right.numpy())


def test_num_iters_counts_batches_of_all_epochs() -> None:
    told = Told()
    prepared().fit(data(), epochs=5, batch_size=8, num_iters=4, verbose=0, callbacks=told)
    assert told.stages.count("train_batch_end") == 4 and told.stages.count("epoch_end") == 2


def test_a_saved_model_goes_on_exactly(tmp_path: Path) -> None:
    with wb.utils.unique_name.guard():
        model = prepared()
    model.fit(data(), batch_size=8, shuffle=False, verbose=0)
    model.save(tmp_path / "folder" / "m")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["m.pdopt", "m.pdparams"]
    with wb.utils.unique_name.guard():  # as in another process
        other = prepared()
    other.load(str(tmp_path / "folder" / "m"))
    for each in (model, other):
        each.fit(data(), batch_size=8, shuffle=False, verbose=0)
    for left, right in zip(model.parameters(), other.parameters(), strict=True):
        assert np.array_equal(left.numpy(), right.numpy())


def test_what_does_not_fit_is_refused_or_passed_over(tmp_path: Path) -> None:
    prepared().save(tmp_path / "m")
    wb.seed(4)
    wider = wb.Model(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))
    before = wider.network.state_dict()["2.weight"].numpy()
    with pytest.raises(InvalidArgument, match=r"'2.weight'\n  expected: shape \[8, 3\]\n  got:      shape \[8, 2\]"):
        wider.load(tmp_path / "m")
    wider.load(tmp_path / "m", skip_mismatch=True)
    state = wider.network.state_dict()
    assert np.array_equal(state["2.weight"].numpy(), before)
    assert np.array_equal(state["0.weight"].numpy(), wb.load(tmp_path / "m.pdparams")["0.weight"].numpy())


def test_progress_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    model = prepared()
    model.fit(data(), data(8), epochs=1, batch_size=8, verbose=2, log_freq=2)
    lines = [line.split(" - ") for line in capsys.readouterr().out.splitlines()]
    heads = [line[0] for line in lines]
    assert heads == [
        "The loss value printed in the log is the current step, and the metric is the average value of previous steps.",
        "Epoch 1/1", "step 2/3", "step 3/3", "Eval begin...", "step 1/1", "Eval samples: 8",
    ]  # fmt: skip
    assert lines[2][1].startswith("loss: 0.") and lines[2][2].startswith("acc: ") and lines[2][3].endswith("s/step")
    model.predict(data(), batch_size=8, verbose=1)
    bars = capsys.readouterr().out
    assert "step 1/3 [=========>....................]" in bars and f"step 3/3 [{'=' * 30}]" in bars


def test_a_schedule_is_moved_on_by_batch_or_by_epoch() -> None:
    for by_epoch, expected in ((False, 6), (True, 2)):
        model = wb.Model(network())
        schedule = wb.optimizer.lr.StepDecay(0.1, step_size=100)
        model.prepare(wb.optimizer.SGD(schedule, parameters=model.parameters()), nn.CrossEntropyLoss())
        given = callbacks.LRScheduler(by_step=not by_epoch, by_epoch=by_epoch) if by_epoch else None
        model.fit(data(), epochs=2, batch_size=8, verbose=0, callbacks=given)
        assert schedule.last_epoch == expected


class Falling(wb.metric.Metric):
    """Gives the numbers it was made with, one per pass."""

    def __init__(self, values: list[float]) -> None:
        self.values, self.passes = values, -1

    def reset(self) -> None:
        self.passes += 1

    def update(self, *args: Any) -> float:
        return 0.0

    def accumulate(self) -> float:
        return self.values[self.passes // 2]

    def name(self) -> str:
        return "quality"


@pytest.mark.parametrize(
    ("values", "patience", "epochs"), [([3, 2, 1, 5, 5, 5], 2, 5), ([3, 4, 2, 4, 4, 4], 2, 5), ([1, 2, 3, 4], 1, 2)]
)
def test_early_stopping(values: list[float], patience: int, epochs: int, tmp_path: Path) -> None:
    model, told = prepared(), Told()
    model.prepare(model._optimizer, nn.CrossEntropyLoss(), Falling(values))
    stopping = callbacks.EarlyStopping("quality", "min", patience=patience, verbose=0)
    model.fit(data(8), data(8), epochs=9, batch_size=8, verbose=0, callbacks=[stopping, told], save_dir=str(tmp_path))
    assert told.stages.count("epoch_end") == epochs
    assert {"best_model.pdparams", "final.pdparams", "0.pdparams"} <= {path.name for path in tmp_path.iterdir()}


def test_the_rate_is_reduced_on_a_plateau() -> None:
    model = prepared()
    model.prepare(model._optimizer, nn.CrossEntropyLoss(), Falling([3, 3, 3, 3, 3, 3]))
    reducing = callbacks.ReduceLROnPlateau("quality", factor=0.5, patience=2, verbose=0, mode="min", min_lr=0.02)
    model.fit(data(8), data(8), epochs=6, batch_size=8, verbose=0, callbacks=reducing)
    assert model._optimizer.get_lr() == 0.02  # 0.05, 0.025 after three passes, 0.02 after five


def test_files_every_few_epochs(tmp_path: Path) -> None:
    prepared().fit(data(8), epochs=5, batch_size=8, verbose=0, save_dir=str(tmp_path), save_freq=2)
    assert {path.stem for path in tmp_path.glob("*.pdparams")} == {"0", "2", "4", "final"}


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_half_precision(level: str) -> None:
    model = prepared(amp_configs={"level": level, "dtype": "bfloat16", "init_loss_scaling": 128.0})
    model.fit(data(), epochs=20, batch_size=4, verbose=0)
    assert model.evaluate(data(), batch_size=20, verbose=0)["acc"] > 0.85
    assert model._scaler.get_init_loss_scaling() == 128.0


def test_decorated_models_keep_their_normalisations() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    optimizer = wb.optimizer.Adam(0.01, parameters=net.parameters())
    net, optimizer = wb.amp.decorate(net, optimizer, level="O2", dtype="bfloat16")
    dtypes = [parameter.dtype.name for parameter in net.parameters()]
    assert dtypes == ["bfloat16", "bfloat16", "float32", "float32", "bfloat16", "bfloat16"]
    with wb.amp.auto_cast(level="O2", dtype="bfloat16"):
        loss = nn.CrossEntropyLoss()(net(wb.to_tensor(FEATURES)), wb.to_tensor(LABELS))
    loss.backward()
    optimizer.step()
    assert len(optimizer.state_dict()["master_weights"]) == 4


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: wb.Model(3), InvalidType, "a Layer, got int"),
        (lambda: prepared().prepare(loss=3), TypeError, "'loss' must be sub classes"),
        (lambda: prepared().prepare(metrics=[3]), InvalidType, "metric.Metric, got int"),
        (lambda: prepared().prepare(optimizer="sgd"), InvalidType, "an Optimizer, got str"),
        (lambda: prepared(amp_configs="O7"), InvalidArgument, "'O0', 'O1' and 'O2', got 'O7'"),
        (lambda: wb.Model(network()).train_batch(FEATURES), PreconditionNotMet, "model not ready"),
        (lambda: prepared().fit(3), InvalidType, "train_data is a Dataset, a DataLoader or batches, got int"),
        (lambda: prepared().fit(data(), callbacks=[3]), InvalidType, "callbacks.Callback, got 3"),
        (lambda: prepared().save("folder/"), InvalidArgument, "FOLDER/NAME"),
        (lambda: callbacks.LRScheduler(True, True), InvalidArgument, "mutually exclusive"),
        (lambda: callbacks.EarlyStopping(mode="down"), InvalidArgument, "'min' or 'max', got 'down'"),
        (lambda: callbacks.ReduceLROnPlateau(factor=1.0), InvalidArgument, "factor >= 1.0"),
        (lambda: wb.amp.decorate(3, level="O2"), InvalidType, "a Layer, or a list of them, as models, got 3"),
        (lambda: wb.amp.decorate(network(), level="O5"), InvalidArgument, "'O1' and 'O2', got 'O5'"),
    ],
)
def test_wrong_input_is_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_programs_are_not_for_models() -> None:
    net = network()
    with static_mode(), pytest.raises(PreconditionNotMet, match=r"disable_static\(\)"):
        wb.Model(net)
