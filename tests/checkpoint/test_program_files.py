"""`static.save`, `static.load` and relatives: exact resumption, what is written, parts of a program."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench.ops  # noqa: F401  (the op table)
from workbench.builders.data import data
from workbench.builders.nn.dense import fc
from workbench.builders.nn.norm import batch_norm
from workbench.checkpoint import objects
from workbench.checkpoint.program_files import (
    load,
    load_persistables,
    load_vars,
    save,
    save_persistables,
    save_vars,
)
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet
from workbench.executors.api.executor import Executor
from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.ops.loss.losses import mse_loss
from workbench.ops.random.dropout import dropout
from workbench.optimizer import Adam, lr
from workbench.optimizer.optimizer import Optimizer
from workbench.runtime.storage.scope import Scope, global_scope, scope_guard

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


class Model:
    """A small training program with statistics, dropout, Adam and a schedule, in a scope of its own."""

    def __init__(self, rate: Any = None, width: int = 3, train: bool = True, dtype: str = "float32") -> None:
        self.main, self.startup, self.scope = Program(), Program(), Scope()
        self.main.random_seed = self.startup.random_seed = 7
        self.optimizer: Optimizer | None = None
        with static_mode(), names.guard(), program_guard(self.main, self.startup):
            x, y = data("x", [None, 4], dtype), data("y", [None, 1], dtype)
            hidden = dropout(batch_norm(fc(x, width, activation="relu")), 0.5)
            self.loss = mse_loss(fc(hidden, 1), y)
            if train:
                self.optimizer = Adam(lr.StepDecay(0.1, 2, 0.5) if rate is None else rate)
                self.optimizer.minimize(self.loss)
        self.executor = Executor()

    def start(self) -> "Model":
        self.executor.run(self.startup, scope=self.scope)
        return self

    def train(self, steps: int) -> list[float]:
        """Losses of the next steps; the schedule goes on with every step."""
        losses = []
        for _ in range(steps):
            feed = {"x": X, "y": Y}
            (loss,) = self.executor.run(self.main, feed=feed, fetch_list=[self.loss], scope=self.scope)
            losses.append(float(loss[0]))
            for schedule in self.main.lr_schedulers.values():
                schedule.step()
        return losses

    def values(self) -> dict[str, np.ndarray]:
        variables = {v.name: self.scope.find_var(v.name) for v in self.main.persistables()}
        return {n: v.tensor.numpy() for n, v in variables.items() if v is not None and v.tensor.initialized}

    def save(self, path: Path) -> None:
        with scope_guard(self.scope):
            save(self.main, path)

    def load(self, path: Path, **arguments: Any) -> None:
        with scope_guard(self.scope):
            load(self.main, path, **arguments)


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].tobytes() == b[name].tobytes(), name


# Exact resumption


@pytest.mark.parametrize(
    "rate",
    [
        lambda: lr.StepDecay(0.1, 2, 0.5),
        lambda: lr.LinearWarmup(lr.CosineAnnealingDecay(0.1, 5), 2, 0.0, 0.1),
        lambda: lr.LambdaDecay(0.1, lambda epoch: 0.9**epoch),
        lambda: 0.05,
    ],
    ids=["step", "warmup", "lambda", "constant"],
)
def test_a_resumed_training_goes_on_bit_for_bit(tmp_path: Path, rate: Callable[[], Any]) -> None:
    """Parameters, statistics, optimizer state, rate and dropout masks, in a new scope and program."""
    whole = Model(rate()).start()
    losses = whole.train(7)
    first = Model(rate()).start()
    assert first.train(3) == losses[:3]
    first.save(tmp_path / "m")
    second = Model(rate())
    second.load(tmp_path / "m")
    assert_same(second.values(), first.values())
    assert second.train(4) == losses[3:]
    assert_same(second.values(), whole.values())
    assert second.main.lr_schedulers.keys() == whole.main.lr_schedulers.keys()
    for name, schedule in second.main.lr_schedulers.items():
        assert schedule.state_dict() == whole.main.lr_schedulers[name].state_dict()


def test_dropout_masks_of_the_test_differ_from_step_to_step() -> None:
    """The test above shows something only if the step counter matters."""
    model = Model(0.0).start()
    assert model.main.rng_step in model.values()
    assert len(set(model.train(4))) == 4


def test_a_rate_changed_by_set_lr_comes_back() -> None:
    model, other = Model(0.1).start(), Model(0.1).start()
    assert model.optimizer and other.optimizer
    model.optimizer.set_lr(0.03)
    model.train(1)
    other.optimizer.set_lr(0.7)
    reloaded(model, other)
    other.train(2)
    assert other.values()["learning_rate_0"] == np.float32(0.03)


def test_a_rate_set_after_saving_gives_way_to_the_saved_one() -> None:
    model, other = Model(0.1).start(), Model(0.2).start()
    assert other.optimizer
    other.optimizer.set_lr(0.7)
    reloaded(model, other)
    other.train(2)
    assert other.values()["learning_rate_0"] == np.float32(0.1)


def reloaded(model: Model, other: Model) -> None:
    """Save one, load it into the other."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m")
        other.load(Path(folder) / "m")


def test_a_schedule_with_an_infinite_metric_is_saved(tmp_path: Path) -> None:
    model, other = (Model(lr.ReduceOnPlateau(0.1, patience=0)).start() for _ in range(2))
    model.main.lr_schedulers["learning_rate_0"].step(math.inf)
    model.save(tmp_path / "m")
    other.load(tmp_path / "m")
    assert other.main.lr_schedulers["learning_rate_0"].best == math.inf


# What is written


def test_two_files_one_of_them_the_program(tmp_path: Path) -> None:
    model = Model().start()
    model.train(2)
    model.save(tmp_path / "new folder" / "m")
    assert sorted(p.name for p in (tmp_path / "new folder").iterdir()) == ["m.wbmodel", "m.wbparams"]
    loaded = objects.load(tmp_path / "new folder" / "m.wbmodel")
    assert loaded.to_string() == model.main.to_string()
    assert_same(objects.load(tmp_path / "new folder" / "m.wbparams"), model.values())


def test_a_loaded_program_with_loaded_values_goes_on_like_the_original(tmp_path: Path) -> None:
    model = Model().start()
    model.train(3)
    model.save(tmp_path / "m")
    program, scope = objects.load(tmp_path / "m.wbmodel"), Scope()
    with scope_guard(scope):
        load(program, tmp_path / "m")
    fetched = model.executor.run(program, {"x": X, "y": Y}, [model.loss.name], scope=scope)[0]
    assert [float(fetched[0])] == model.train(1)


def test_a_function_in_a_schedule_does_not_stop_saving(tmp_path: Path) -> None:
    model = Model(lr.LambdaDecay(0.1, lambda epoch: 0.5**epoch)).start()
    model.save(tmp_path / "m")
    assert objects.load(tmp_path / "m.wbmodel").lr_schedulers == {}
    assert "learning_rate_0" in model.main.lr_schedulers


def test_saving_before_startup_names_what_has_no_value(tmp_path: Path) -> None:
    with pytest.raises(PreconditionNotMet, match=r"'batch_norm_0\.w_0'.*run the startup program first"):
        Model().save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def refused(model: Model, path: Path, **arguments: Any) -> str:
    """The message of a refused load, after which nothing is different."""
    model.train(1)
    before = model.values()
    states = [schedule.state_dict() for schedule in model.main.lr_schedulers.values()]
    with pytest.raises(InvalidArgument) as caught:
        model.load(path, **arguments)
    assert_same(model.values(), before)
    assert [schedule.state_dict() for schedule in model.main.lr_schedulers.values()] == states
    return str(caught.value)


# Parts


def test_a_program_without_updates_takes_the_parameters(tmp_path: Path) -> None:
    model = Model().start()
    model.train(3)
    model.save(tmp_path / "m")
    test = model.main.clone(for_test=True)
    scope = Scope()
    with scope_guard(scope):
        load(test, tmp_path / "m")
        fetched = model.executor.run(test, {"x": X, "y": Y}, [model.loss.name])[0]
    expected = model.executor.run(test, {"x": X, "y": Y}, [model.loss.name], scope=model.scope)[0]
    assert fetched == expected
    parameters = {p.name for p in model.main.all_parameters()}
    assert {"batch_norm_0.w_1", "batch_norm_0.w_2"} <= parameters  # the moving statistics
    assert {n for n in scope.local_var_names() if n in model.values()} >= parameters


def test_a_parameter_that_such_a_program_lacks_is_unexpected(tmp_path: Path) -> None:
    model = Model().start()
    model.save(tmp_path / "m")
    smaller = Program()
    block = smaller.global_block()
    block.create_var(name="fc_0.w_0", shape=[4, 3], dtype="float32", persistable=True)
    with pytest.raises(InvalidArgument, match=r"not in the program: 'batch_norm_0\.b_0', .*'fc_1\.w_0'"):
        load(smaller, tmp_path / "m")
    with scope_guard(Scope()):
        load(smaller, tmp_path / "m", var_list=["fc_0.w_0"])
        assert np.array_equal(global_scope().get("fc_0.w_0").tensor.numpy(), model.values()["fc_0.w_0"])


def test_parameters_alone_do_not_fill_a_training_program(tmp_path: Path) -> None:
    small = Model(train=False).start()
    small.save(tmp_path / "m")
    model = Model().start()
    assert "missing in the file: 'batch_norm_0.b_0_beta1_pow_acc_0'" in refused(model, tmp_path / "m")
    others = {n: v for n, v in model.values().items() if n not in small.values()}
    model.load(tmp_path / "m", var_list=small.main.persistables())
    assert_same({**small.values(), **others}, model.values())


def test_var_list_must_be_variables_of_the_program(tmp_path: Path) -> None:
    model = Model().start()
    model.save(tmp_path / "m")
    with pytest.raises(NotFound, match=r"no variable 'fc_0\.w_1'\. Did you mean"):
        model.load(tmp_path / "m", var_list=["fc_0.w_1"])
    with pytest.raises(InvalidType, match="expected a Variable or its name, got 5"):
        model.load(tmp_path / "m", var_list=[5])


def test_persistables_and_single_variables(tmp_path: Path) -> None:
    model, other = Model().start(), Model()
    model.train(2)
    with scope_guard(model.scope):
        save_persistables(model.executor, tmp_path, model.main)
    with scope_guard(other.scope):
        load_persistables(other.executor, tmp_path, other.main)
    assert_same(other.values(), model.values())
    assert other.train(1) == model.train(1)
    with scope_guard(model.scope):
        save_vars(model.executor, tmp_path, model.main, vars=["fc_0.w_0", "fc_0.b_0"], filename="fc")
        save_vars(model.executor, tmp_path, model.main, predicate=lambda v: v.name == "fc_1.w_0", filename="fc1")
    before = other.values()
    other.train(1)
    with scope_guard(other.scope):
        load_vars(other.executor, tmp_path, other.main, vars=["fc_0.w_0"], filename="fc")
    assert np.array_equal(other.values()["fc_0.w_0"], before["fc_0.w_0"])
    assert not np.array_equal(other.values()["fc_0.b_0"], before["fc_0.b_0"])
    with scope_guard(other.scope), pytest.raises(InvalidArgument, match=r"missing in the file: 'fc_0\.w_0'"):
        load_vars(other.executor, tmp_path, other.main, vars=["fc_0.w_0"], filename="fc1")


def test_wrong_arguments(tmp_path: Path) -> None:
    model = Model().start()
    executor: Any = model.executor
    for call, text in [
        (lambda: save(5, tmp_path / "m"), "save takes a Program, got 5"),  # type: ignore[arg-type]
        (lambda: load(model.main, tmp_path / "m", executor=5), "takes an Executor"),  # type: ignore[arg-type]
        (lambda: save_persistables(None, tmp_path, model.main), "takes an Executor"),  # type: ignore[arg-type]
        (lambda: save_persistables(executor, "", model.main), "dirname is empty"),
        (lambda: save_persistables(executor, tmp_path, model.main, "../x"), "is not the name of a file in"),
        (lambda: load_persistables(executor, tmp_path, model.main, "/etc/x"), "is not the name of a file in"),
        (lambda: save_vars(executor, tmp_path, model.main), "pass vars= or predicate="),
        (lambda: save(model.main, ""), "model_path must be"),
        (lambda: save(model.main, f"{tmp_path}/"), "model_path must be"),
    ]:
        with scope_guard(model.scope), pytest.raises(InvalidArgument, match=text):
            call()
    with pytest.raises(FileNotFoundError, match=r"cannot read .*m\.wbparams"):
        model.load(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_the_suffix_may_be_written(tmp_path: Path) -> None:
    model = Model().start()
    model.save(tmp_path / "m.wbparams")
    model.load(tmp_path / "m.wbmodel")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.wbmodel", "m.wbparams"]
