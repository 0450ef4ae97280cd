"""What training begins with: values of the scope, and those that a startup program makes anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import InvalidArgument
from workbench.framework import names
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import Scope, scope_guard

BATCHES = [{"x": np.ones((4, 3), np.float32)}]
HALF = [{"x": np.ones((4, 3), np.float16)}]


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    wb.enable_static()
    with scope_guard(Scope()):
        yield
    wb.disable_static()


def built(optimizer: Any, name: str = "net", dtype: str = "float32", width: int = 2) -> tuple[Program, Program]:
    """A program whose names are the same every time."""
    main, startup = Program(), Program()
    main.name, startup.name = name, f"{name}_startup"
    main.random_seed = startup.random_seed = 5
    with names.guard(), static.program_guard(main, startup):
        loss = wb.mean(static.nn.fc(static.data("x", [None, 3], dtype), width) ** 2)
        optimizer().minimize(loss)
    return main, startup


def values(stem: str = "") -> dict[str, np.ndarray]:
    scope = static.global_scope()
    return {name: np.array(scope.get(name).get_tensor()) for name in scope.vars if stem in name}


def train(program: Program, batches: Any = BATCHES, **options: Any) -> Any:
    return wb.train(program, batches, **{"steps": 1, "progress": False, "record": False, **options}).wait()


def test_the_startup_program_of_a_program_is_known() -> None:
    program, startup = built(lambda: wb.optimizer.SGD(0.1))
    train(program, steps=0)
    with scope_guard(Scope()):
        static.Executor().run(startup)
        expected = values()
    assert expected.keys() == values().keys()
    for name, value in values().items():
        np.testing.assert_array_equal(value, expected[name])
    assert program.clone().startup is startup and program.clone(for_test=True).startup is startup


def test_a_copy_in_full_precision_that_is_new_is_made_of_the_value_that_was_kept() -> None:
    train(built(lambda: wb.optimizer.Momentum(0.1), dtype="float16")[0], HALF)
    kept = values("fc_0.w_0")["fc_0.w_0"]
    train(built(lambda: wb.optimizer.Momentum(0.1, multi_precision=True), dtype="float16")[0], HALF, steps=0)
    np.testing.assert_array_equal(values("fc_0.w_0")["fc_0.w_0"], kept)
    (master,) = values("fc_0.w_0_fp32_master").values()
    np.testing.assert_array_equal(master, kept.astype(np.float32))


def test_another_program_that_shares_parameters_keeps_them_and_has_its_own_rate(
    capfd: pytest.CaptureFixture[str],
) -> None:
    one, other = built(lambda: wb.optimizer.SGD(0.1), "one"), built(lambda: wb.optimizer.SGD(0.5), "other")
    train(one[0])
    before = values("fc_0")
    train(other[0], steps=0)
    for name, value in before.items():
        np.testing.assert_array_equal(values("fc_0")[name], value)
    assert values("learning_rate")["learning_rate_0"] == np.float32(0.5)
    train(one[0], steps=0)
    assert values("learning_rate")["learning_rate_0"] == np.float32(0.1)
    assert "anew" not in capfd.readouterr().err


def test_another_program_of_another_shape_is_refused_and_destroys_nothing() -> None:
    one, other = built(lambda: wb.optimizer.SGD(0.1), "one"), built(lambda: wb.optimizer.SGD(0.1), "other", width=5)
    train(one[0])
    before = values("fc_0")
    with pytest.raises(InvalidArgument, match="not what the program declares"):
        train(other[0])
    assert one[0].startup is one[1]
    for name, value in before.items():
        np.testing.assert_array_equal(values("fc_0")[name], value)
    train(other[0], fresh=True)
    assert values("fc_0.w_0")["fc_0.w_0"].shape == (3, 5)


def test_copies_of_a_program_built_anew_know_its_values() -> None:
    first, _ = built(lambda: wb.optimizer.SGD(0.1))
    train(first)
    again, startup = built(lambda: wb.optimizer.SGD(0.5))
    copy, copied = again.clone(), startup.clone()
    copy.name, copied.name = "more", "more_startup"
    train(copy, startup=copied, steps=0)
    assert values("learning_rate")["learning_rate_0"] == np.float32(0.5)


def test_states_of_two_copies_that_take_turns_stay_apart() -> None:
    program, startup = built(lambda: wb.optimizer.Momentum(0.1))
    train(program)
    kept = values("velocity")
    copy, copied = program.clone(), startup.clone()
    copy.name, copied.name = "more", "more_startup"
    train(copy, startup=copied, steps=0)
    for name, value in kept.items():
        assert value.any()
        np.testing.assert_array_equal(values("velocity")[name], value)


def test_values_that_were_set_are_nobodys_and_stay() -> None:
    program, startup = built(lambda: wb.optimizer.SGD(0.1))
    for variable in startup.persistables():
        static.global_scope().var(variable.name).set(np.full(variable.shape, 0.25, np.float32))
    train(program, steps=0)
    train(built(lambda: wb.optimizer.SGD(0.5))[0], steps=0)
    assert {float(value.flat[0]) for value in values().values()} == {0.25}


def test_a_schedule_of_the_users_own_class_cannot_be_started_over_and_nothing_changes() -> None:
    class Halving(wb.optimizer.lr.LRScheduler):
        def get_lr(self) -> float:
            return float(self.base_lr * 0.5**self.last_epoch)

    program, _ = built(lambda: wb.optimizer.SGD(Halving(0.1)))
    train(program)
    before = values()
    with pytest.raises(InvalidArgument, match="Halving cannot be started over"):
        train(program, fresh=True)
    for name, value in before.items():
        np.testing.assert_array_equal(values()[name], value)


def test_a_layer_is_not_started_over() -> None:
    wb.disable_static()
    layer = wb.nn.Linear(3, 2)
    sgd = wb.optimizer.SGD(0.1, parameters=layer.parameters())
    with pytest.raises(InvalidArgument, match="make it, and its optimizer, again"):
        wb.train(layer, BATCHES, loss=wb.mean, optimizer=sgd, fresh=True)
