"""A startup program that would wipe out another model's parameters says so first."""

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.framework.names import guard
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import Scope, scope_guard


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    wb.enable_static()
    try:
        with scope_guard(Scope()):
            yield
    finally:
        wb.disable_static()


def model(name: str = "", width: int = 3, train: bool = False) -> tuple[Program, Program]:
    """A main and a startup program; parameters are called fc_0.w_0 and fc_0.b_0 whatever the model."""
    main, startup = Program(), Program()
    main.name, startup.name = name, name and name + "_startup"
    with static.program_guard(main, startup), guard():
        loss = wb.mean(static.nn.fc(static.data("x", [None, 2]), width))
        if train:
            wb.optimizer.SGD(0.1).minimize(loss)
    return main, startup


def run(program: Program, exe: static.Executor | None = None, **kwargs: object) -> list[str]:
    """Runs a program; returns the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (exe or static.Executor()).run(program, **kwargs)  # type: ignore[arg-type]
    assert all(w.filename == __file__ for w in caught), "the warning points into workbench"
    return [str(w.message) for w in caught]


def test_the_warning_names_both_programs_and_the_parameter() -> None:
    assert run(model("first")[1]) == []
    (text,) = run(model("second")[1])
    assert "'second_startup'" in text and "'first_startup'" in text
    assert "'fc_0.b_0'" in text and "(and 1 more)" in text


def test_programs_without_a_name_are_named_by_their_lines() -> None:
    first, second = Program(), Program()
    for startup, line in ((first, "one"), (second, "two")):
        with static.program_guard(Program(), startup), guard():
            if line == "one":
                static.nn.fc(static.data("x", [None, 2]), 3)
            else:
                static.nn.fc(static.data("x", [None, 2]), 3)
    assert run(first) == []
    (text,) = run(second)
    assert text.count(f"built at {__file__}, line ") == 2


def test_running_the_same_startup_again_is_a_reset() -> None:
    startup = model("net")[1]
    assert run(startup) == run(startup) == []


def test_the_owner_changes_with_the_overwriting() -> None:
    first, second = model("first")[1], model("second")[1]
    run(first)
    assert len(run(second)) == 1
    assert run(second) == []
    assert len(run(first)) == 1


@pytest.mark.parametrize("name", ["", "net"])
def test_the_same_lines_run_again_replace_their_model(name: str) -> None:
    exe = static.Executor()  # one that stays, as in a notebook
    for _ in range(3):
        assert run(model(name)[1], exe) == []


def test_two_models_of_one_function_meet() -> None:
    first, second = model(), model()
    assert run(first[1]) == []
    (text,) = run(second[1])
    assert "parameter 'fc_0.b_0' (and 1 more)" in text and "which the startup program built at" in text


def test_a_copy_of_the_startup_belongs_to_the_family() -> None:
    startup = model("net")[1]
    copy = startup.clone()
    copy.name = "copy_startup"
    assert run(startup) == []
    assert run(copy.clone()) == []
    assert run(startup) == []


def test_training_and_testing_are_no_initialisation() -> None:
    main, startup = model("net", train=True)
    feed = {"x": np.ones((4, 2), "float32")}
    assert run(startup) == run(main, feed=feed) == run(main.clone(for_test=True), feed=feed) == []
    other = model("other", train=True)[0]
    assert run(other, feed=feed) == [], "a model trained on another's parameters reads them first"


def test_values_set_by_hand_or_in_another_scope_belong_to_nobody() -> None:
    static.global_scope().var("fc_0.w_0").set(np.ones((2, 3), "float32"))
    assert run(model("net")[1]) == []
    assert run(model("other")[1], scope=Scope()) == []


def test_programs_with_names_of_their_own_do_not_meet() -> None:
    for prefix in ("a_", "b_"):
        startup = Program()
        with static.program_guard(Program(), startup), guard(prefix):
            static.nn.fc(static.data("x", [None, 2]), 3)
        assert run(startup) == []


def test_as_an_error_it_comes_before_anything_is_overwritten() -> None:
    run(model("first")[1])
    w = static.global_scope().get("fc_0.w_0").get_tensor()
    before = w.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="first_startup"):
            static.Executor().run(model("second")[1])
    assert np.array_equal(w.numpy(), before)
