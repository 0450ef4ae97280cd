"""A cell that builds a program is changed and run again: what changed takes effect, what did not goes on."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.notebook.conftest import Notebook
from workbench.runtime.storage.scope import global_scope

CELL = """%%static_program net --seed {seed} --quiet
x = static.data("x", [None, 4])
t = static.data("t", [None, 1])
hidden = static.nn.fc(x, {width}, weight_attr=wb.ParamAttr(initializer=wb.nn.initializer.{initializer}))
loss = wb.mean((static.nn.fc(hidden, 1) - t) ** 2)
wb.optimizer.{optimizer}.minimize(loss)
"""
GIVEN = {"seed": 2, "width": 3, "initializer": "Normal(0.0, 0.1)", "optimizer": "SGD(0.01)"}
PARAMETERS = ("net.fc_0.w_0", "net.fc_0.b_0", "net.fc_1.w_0", "net.fc_1.b_0")
TRAIN = "%train net batches --epochs 1 --quiet"


@pytest.fixture
def train(notebook: Notebook) -> Callable[..., str]:
    """Run the cell with some of it changed, then `%train`; gives what was printed."""
    notebook.run("batches = [(np.full((5, 4), k + 1, 'float32'), np.full((5, 1), k, 'float32')) for k in range(3)]")

    def run(options: str = "", *, line: str = TRAIN, **changes: object) -> str:
        notebook.run(CELL.format(**{**GIVEN, **changes}))
        notebook.run(f"{line} {options}")
        return notebook.printed

    return run


def values(*names: str) -> dict[str, np.ndarray]:
    return {name: np.array(global_scope().get(name).get_tensor()) for name in names}


def held(stem: str) -> dict[str, np.ndarray]:
    """Values of the scope whose names have this in them."""
    return values(*(name for name in global_scope().vars if stem in name))


def forward(x: np.ndarray, at: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    w0, b0, w1, b1 = (at[name].astype(np.float64) for name in PARAMETERS)
    hidden = x @ w0 + b0
    return hidden, hidden @ w1 + b1


def trained_by_hand(at: dict[str, np.ndarray], rate: float) -> dict[str, np.ndarray]:
    """Three steps of gradient descent, written down."""
    at = {name: value.astype(np.float64) for name, value in at.items()}
    for k in range(3):
        x, t = np.full((5, 4), k + 1.0), np.full((5, 1), float(k))
        hidden, out = forward(x, at)
        error = 2 * (out - t) / len(x)
        inner = error @ at[PARAMETERS[2]].T
        grads = (x.T @ inner, inner.sum(0), hidden.T @ error, error.sum(0))
        at = {name: at[name] - rate * grad for name, grad in zip(PARAMETERS, grads, strict=True)}
    return at


@pytest.mark.parametrize("line", [TRAIN, "wb.train(net, batches, epochs=1, progress=False).wait()"])
def test_a_changed_learning_rate_takes_effect_and_parameters_go_on(train: Callable[..., str], line: str) -> None:
    assert "kept" not in train(line=line)
    before = values(*PARAMETERS)
    said = train(line=line, optimizer="SGD(0.02)")
    assert "net: kept 4 parameters; learning rate 0.01 → 0.02 (" in said and "--fresh" in said
    for name, expected in trained_by_hand(before, 0.02).items():
        np.testing.assert_allclose(values(name)[name], expected, rtol=1e-4, atol=1e-6)


def test_a_rate_that_was_set_holds_until_the_cell_is_run_again(train: Callable[..., str], notebook: Notebook) -> None:
    train()
    before = values(*PARAMETERS)
    rate = next(iter(held("learning_rate")))
    global_scope().get(rate).set(np.array([0.03], np.float32))
    notebook.run(TRAIN)
    assert "kept" not in notebook.printed
    for name, expected in trained_by_hand(before, 0.03).items():
        np.testing.assert_allclose(values(name)[name], expected, rtol=1e-4, atol=1e-6)
    assert "learning rate 0.03 → 0.01" in train()


def test_what_has_another_shape_is_made_anew(train: Callable[..., str]) -> None:
    train()
    kept = values("net.fc_1.b_0")
    said = train("--steps 0", width=5)
    assert (
        "kept 1 parameter, made 3 anew: net.fc_0.w_0 ([4, 3] → [4, 5]), net.fc_0.b_0 ([3] → [5]), net.fc_1.w_0" in said
    )
    now = values(*PARAMETERS)
    assert [now[name].shape for name in PARAMETERS] == [(4, 5), (5,), (5, 1), (1,)]
    np.testing.assert_array_equal(now["net.fc_1.b_0"], kept["net.fc_1.b_0"])
    assert not now["net.fc_0.b_0"].any()


def test_an_optimizer_of_another_type_begins_with_new_state_and_one_of_the_same_goes_on(
    train: Callable[..., str],
) -> None:
    train(optimizer="Adam(0.01)")
    moments = held("moment1")
    assert len(moments) == 4 and all(moment.any() for moment in moments.values())
    said = train("--steps 0", optimizer="Adam(0.02)")
    assert "kept 4 parameters; learning rate 0.01 → 0.02" in said and "state" not in said
    for name, moment in moments.items():
        np.testing.assert_array_equal(values(name)[name], moment)
    assert "state" not in train(optimizer="SGD(0.01)")  # which has none
    said = train("--steps 0", optimizer="Adam(0.02)")
    assert "state of adam made anew for 4 parameters" in said
    assert not any(moment.any() for moment in held("moment1").values())


def test_states_of_the_same_name_do_not_go_over_to_another_type(train: Callable[..., str]) -> None:
    train(optimizer="Adam(0.01)")
    said = train("--steps 0", optimizer="Lamb(0.01)")
    assert "state of lamb made anew for 4 parameters" in said
    assert not any(moment.any() for moment in held("moment1").values())


def test_a_setting_that_lives_in_state_makes_all_state_of_the_parameter_anew(train: Callable[..., str]) -> None:
    train(optimizer="Adam(0.01)")
    said = train("--steps 0", optimizer="Adam(0.01, beta1=0.5)")
    assert "kept 4 parameters; state of adam made anew for 4 parameters" in said
    assert not any(moment.any() for moment in held("moment1").values())
    assert {float(power[0]) for power in held("beta1_pow").values()} == {0.5}


def test_the_state_of_a_parameter_that_is_made_anew_is_zero(train: Callable[..., str]) -> None:
    train(optimizer="Momentum(0.01, 0.9)")
    kept = held("fc_1.w_0_velocity")
    said = train("--steps 0", optimizer="Momentum(0.01, 0.9)", initializer="Constant(0.25)")
    assert "kept 3 parameters, made 1 anew: net.fc_0.w_0 (initializer)" in said and "state of" not in said
    np.testing.assert_array_equal(values("net.fc_0.w_0")["net.fc_0.w_0"], np.full((4, 3), 0.25, np.float32))
    assert not any(velocity.any() for velocity in held("fc_0.w_0_velocity").values())
    for name, velocity in kept.items():
        assert velocity.any()
        np.testing.assert_array_equal(values(name)[name], velocity)


def test_another_seed_draws_what_is_random_anew(train: Callable[..., str]) -> None:
    train("--steps 0")
    first = values(*PARAMETERS)
    said = train("--steps 0", seed=3)
    assert "kept 2 parameters, made 2 anew: net.fc_0.w_0 (seed), net.fc_1.w_0 (seed)" in said
    assert not np.array_equal(values("net.fc_0.w_0")["net.fc_0.w_0"], first["net.fc_0.w_0"])
    train("--steps 0", seed=2)
    np.testing.assert_array_equal(values("net.fc_0.w_0")["net.fc_0.w_0"], first["net.fc_0.w_0"])


def test_fresh_starts_over(train: Callable[..., str], notebook: Notebook) -> None:
    schedule = "Adam(wb.optimizer.lr.StepDecay(0.1, step_size=1, gamma=0.5))"
    train("--epochs 2", optimizer=schedule)
    first = notebook.run("run = %train net batches --epochs 1 --quiet --fresh\nrun.history['loss']")
    assert first == notebook.run("run = %train net batches --epochs 1 --quiet --fresh\nrun.history['loss']")
    notebook.run("static.Executor().run(net_startup)\n(schedule,) = net.lr_schedulers.values()\nschedule.step(0)")
    assert first == notebook.run("run = %train net batches --epochs 1 --quiet\nrun.history['loss']")


def test_an_unchanged_schedule_goes_on_and_a_changed_one_begins(train: Callable[..., str], notebook: Notebook) -> None:
    schedule = "SGD(wb.optimizer.lr.StepDecay({}, step_size=2, gamma=0.5))"
    train(optimizer=schedule.format(0.008))
    said = train(optimizer=schedule.format(0.008))
    assert "begins" not in said
    (scheduler,) = notebook["net"].lr_schedulers.values()
    assert (scheduler.last_epoch, scheduler()) == (6, 0.001)
    before = values(*PARAMETERS)
    said = train(optimizer="SGD(0.003)")  # the rate in the scope is the schedule's last one
    for name, expected in trained_by_hand(before, 0.003).items():
        np.testing.assert_allclose(values(name)[name], expected, rtol=1e-4, atol=1e-6)
    assert "kept 4 parameters; learning rate" in said and "→ 0.003" in said
    train(optimizer=schedule.format(0.008))
    said = train(optimizer=schedule.format(0.004))
    assert "StepDecay begins at its first step" in said
    (scheduler,) = notebook["net"].lr_schedulers.values()
    assert scheduler.last_epoch == 3


def test_values_that_were_initialised_by_hand_are_told_apart_too(train: Callable[..., str], notebook: Notebook) -> None:
    notebook.run(CELL.format(**GIVEN))
    notebook.run("exe = static.Executor()\nexe.run(net_startup)")
    before = values(*PARAMETERS)
    train(optimizer="SGD(0.02)")
    for name, expected in trained_by_hand(before, 0.02).items():
        np.testing.assert_allclose(values(name)[name], expected, rtol=1e-4, atol=1e-6)
