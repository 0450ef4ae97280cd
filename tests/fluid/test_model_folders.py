"""Folders with a file for every variable, as 1.x writes them (F-6)."""

from pathlib import Path

import numpy as np
import pytest

import workbench.fluid as fluid
from workbench.errors import InvalidArgument

VARIABLES = {"fc_0.w_0", "fc_0.b_0", "learning_rate_0", "fc_0.w_0_velocity_0", "fc_0.b_0_velocity_0"}


@pytest.fixture
def trained() -> fluid.Executor:
    out = fluid.layers.fc(fluid.data("x", [None, 4]), 2)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(out))
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    executor.run(feed={"x": np.ones((3, 4), np.float32)})
    return executor


def values() -> dict[str, np.ndarray]:
    return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in VARIABLES}


@pytest.mark.parametrize("filename", [None, "all"])
def test_what_is_saved_comes_back(trained: fluid.Executor, tmp_path: Path, filename: str | None) -> None:
    before = values()
    fluid.io.save_persistables(trained, str(tmp_path), filename=filename)
    assert {path.name for path in tmp_path.iterdir()} == ({filename} if filename else VARIABLES)
    trained.run(feed={"x": np.ones((3, 4), np.float32)})
    assert any((values()[name] != before[name]).any() for name in VARIABLES)
    fluid.io.load_persistables(trained, str(tmp_path), filename=filename)
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name])


def test_params_are_parameters_alone(trained: fluid.Executor, tmp_path: Path) -> None:
    fluid.io.save_params(trained, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"fc_0.w_0", "fc_0.b_0"}


def test_a_missing_file_loads_nothing(trained: fluid.Executor, tmp_path: Path) -> None:
    fluid.io.save_persistables(trained, tmp_path)
    (tmp_path / "learning_rate_0").unlink()
    trained.run(feed={"x": np.ones((3, 4), np.float32)})
    before = values()
    with pytest.raises(InvalidArgument, match="learning_rate_0"):
        fluid.io.load_persistables(trained, tmp_path)
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name])


def test_an_inference_model_has_what_it_needs_and_gives_the_same(trained: fluid.Executor, tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    main = fluid.default_main_program()
    out = main.global_block().var("fc_0.tmp_1")
    assert fluid.io.save_inference_model(str(tmp_path), ["x"], [out], trained) == ["fc_0.tmp_1"]
    assert {path.name for path in tmp_path.iterdir()} == {"__model__", "fc_0.w_0", "fc_0.b_0"}
    (wanted,) = trained.run(main.clone(for_test=True), feed={"x": x}, fetch_list=[out])
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), trained)
        (fetched,) = fluid.Executor().run(program, feed={feeds[0]: x}, fetch_list=fetches)
    np.testing.assert_array_equal(fetched, wanted)


def test_wrong_arguments_fail_as_paddles_assertions_do(trained: fluid.Executor, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Executor"):
        fluid.io.save_persistables("executor", tmp_path)
    with pytest.raises(AssertionError, match="Program"):
        fluid.io.save_persistables(trained, tmp_path, main_program="main")
    with pytest.raises(LookupError, match="no variable"):
        fluid.io.save_vars(trained, tmp_path, vars=["fc_0.w_1"])
