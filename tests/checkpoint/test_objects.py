"""`save` and `load` of nested state, and of programs."""

import math
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.checkpoint.files import read_tensors, write_json, write_tensors
from workbench.checkpoint.objects import load, save
from workbench.checkpoint.tree import flatten, unflatten
from workbench.data import DataLoader
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.guard import static_mode
from workbench.framework.program.program import Program
from workbench.optimizer import lr
from workbench.runtime.storage.tensor import LoDTensor

keys = st.text(max_size=6) | st.sampled_from(["$tensor", "$tuple", "a/b", "__metadata__", "a"]) | st.integers()
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.floats(width=32), max_size=3).map(lambda v: np.array(v, np.float32))
    | st.integers(-5, 5).map(np.int64)
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=15,
)


def assert_equal_trees(got: Any, expected: Any) -> None:
    assert type(got) is type(expected)
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_equal_trees(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            assert_equal_trees(a, b)
    else:
        np.testing.assert_array_equal(got, expected)
        assert getattr(got, "dtype", None) == getattr(expected, "dtype", None)


@given(trees)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nested_data_comes_back(tmp_path: Path, tree: Any) -> None:
    path = tmp_path / "state"
    save(tree, path)
    assert_equal_trees(load(path), tree)


def test_arrays_are_named_by_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "state"
    save({"fc_0.w_0": np.zeros(2), "opt": {"step": 3, "m": [np.ones(1)]}}, path)
    tensors, _ = read_tensors(path)
    assert sorted(tensors) == ["fc_0.w_0", "opt/m/0"]


def test_states_of_schedules_and_loaders(tmp_path: Path) -> None:
    schedule = lr.ReduceOnPlateau(0.1, patience=0, factor=0.5)
    schedule.step(math.inf)
    warmup = lr.LinearWarmup(lr.StepDecay(0.5, 4), 5, 0.0, 0.5, last_epoch=7)
    loader = DataLoader(list(range(10)), batch_size=3, shuffle=True)
    next(iter(loader))
    save({"lr": [schedule.state_dict(), warmup.state_dict()], "loader": loader.state_dict()}, tmp_path / "s")
    state = load(tmp_path / "s")
    assert state["lr"][0]["best"] == math.inf
    again = lr.LinearWarmup(lr.StepDecay(0.5, 4), 5, 0.0, 0.5)
    again.set_state_dict(state["lr"][1])
    assert again() == warmup() and again.last_epoch == 8
    other = DataLoader(list(range(10)), batch_size=3, shuffle=True)
    other.load_state_dict(state["loader"])
    assert other.state_dict() == loader.state_dict()


def test_tensors_of_scopes_are_arrays(tmp_path: Path) -> None:
    save({"t": LoDTensor(np.arange(3))}, tmp_path / "s")
    assert load(tmp_path / "s")["t"].tolist() == [0, 1, 2]


def test_tensors_stay_tensors_in_dynamic_mode(tmp_path: Path) -> None:
    w = wb.create_parameter([2, 3], "float32")
    state = {"w": w, "opt": {"step": 3, "m": [wb.to_tensor([1.0, 2.0]), np.ones(2)]}}
    save(state, tmp_path / "s")
    loaded = load(tmp_path / "s")
    assert isinstance(loaded["w"], wb.Tensor) and np.array_equal(loaded["w"].numpy(), w.numpy())
    assert isinstance(loaded["opt"]["m"][0], wb.Tensor) and type(loaded["opt"]["m"][1]) is np.ndarray
    assert type(load(tmp_path / "s", return_numpy=True)["w"]) is np.ndarray
    with static_mode():
        assert type(load(tmp_path / "s")["w"]) is np.ndarray
    save(w, tmp_path / "folder" / "w")
    assert load(tmp_path / "folder" / "w").shape == [2, 3]


def test_open_files(tmp_path: Path) -> None:
    memory = BytesIO()
    save({"w": np.arange(3)}, memory)
    memory.seek(0)
    assert load(memory)["w"].tolist() == [0, 1, 2]
    save({"v": np.arange(2)}, memory)
    memory.seek(0)
    assert [list(load(memory)) for _ in range(2)] == [["w"], ["v"]]
    with open(tmp_path / "f", "wb") as file:
        save(Program(), file)
    with open(tmp_path / "f", "rb") as file:
        assert isinstance(load(file), Program)
    with pytest.raises(InvalidArgument, match="is not a workbench tensor file"):
        load(BytesIO(b"something else"))


def self_containing() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, object()]}, r"object\['a'\]\[1\] is a builtins\.object, which cannot be saved"),
        ({"a": lambda: 1}, r"object\['a'\] is a builtins\.function.*never code"),
        ({1.5: 2}, "object has the key 1.5"),
        ({True: 2}, "object has the key True"),
        ({"a": {1, 2}}, r"builtins\.set"),
        (np.array([object()]), "dtype object"),
        (b"bytes", r"builtins\.bytes"),
        (self_containing(), "nested more than 100 deep, or contains itself"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, value: Any, text: str) -> None:
    save({"old": 1}, tmp_path / "s")
    with pytest.raises(InvalidArgument, match=text):
        save(value, tmp_path / "s")
    assert load(tmp_path / "s") == {"old": 1}


@pytest.mark.parametrize(
    "structure",
    [
        {"$tensor": "missing"},
        {"$tensor": ["x"]},
        {"$scalar": None},
        {"$tuple": 5},
        {"$items": [[1]]},
        {"$items": [[{}, 1]]},
        {"$float": "1e5"},
        {"$float": None},
        {"$surprise": 1},
    ],
)
def test_malformed_structures_are_refused(tmp_path: Path, structure: Any) -> None:
    write_tensors(tmp_path / "s", {"x": np.zeros(2)}, {"object": {"deep": [structure]}})
    with pytest.raises(InvalidArgument, match="in a saved object"):
        load(tmp_path / "s")


def test_a_structure_nested_too_deeply_is_refused() -> None:
    structure: Any = 1
    for _ in range(100_000):
        structure = [structure]
    with pytest.raises(InvalidArgument, match="too deeply"):
        unflatten(structure, {})


def test_names_that_would_collide_stay_apart() -> None:
    tree = {"a/b": np.zeros(1), "a": {"b": np.ones(1)}, "": np.full(1, 2), "value": np.full(1, 3)}
    structure, tensors = flatten(tree)
    assert len(tensors) == 4
    assert_equal_trees(unflatten(structure, tensors), tree)


def test_programs(tmp_path: Path) -> None:
    program = Program()
    program.name = "mine"
    program.global_block().create_var(name="x", shape=[2, 3], dtype="float32", persistable=True)
    save(program, tmp_path / "p")
    again = load(tmp_path / "p")
    assert isinstance(again, Program) and again.name == "mine"
    assert again.to_string() == program.to_string()
    write_json(tmp_path / "p", {}, "something else")
    with pytest.raises(InvalidArgument, match="expected 'program'"):
        load(tmp_path / "p")


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    import pickle

    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps({"w": 1}))
    with pytest.raises(InvalidArgument, match="is not a workbench tensor file"):
        load(path)


def test_load_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot read"):
        load(tmp_path / "missing")
    with pytest.raises(InvalidArgument, match="is a folder"):
        load(tmp_path)
    with pytest.raises(InvalidType):
        save({"x": Program}, tmp_path / "x")
