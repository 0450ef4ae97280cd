"""Values on their way in and out of a step: what is refused, and whose memory is whose."""

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.models import Model, regression
from workbench import static
from workbench.errors import InvalidArgument, InvalidType, NotFound
from workbench.framework.op.record import OPS, find_op
from workbench.runtime.storage.tensor import LoDTensor

pytestmark = pytest.mark.usefixtures("either")


@pytest.fixture
def model() -> Model:
    return regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.SGD(0.1))


@pytest.fixture
def exe() -> static.Executor:
    return static.Executor()


@pytest.fixture
def scope(model: Model, exe: static.Executor) -> static.Scope:
    scope = static.Scope()
    exe.run(model.startup, scope=scope)
    return scope


def test_a_sparse_gradient_is_fetched_as_a_dense_array(exe: static.Executor) -> None:
    with Built() as p:
        ids = static.data("ids", [None], "int64")
        rows = static.nn.embedding(ids, [4, 2], is_sparse=True)
        ((_, grad),) = static.append_backward(wb.sum(rows))
    (gradient,) = p.run({"ids": np.array([1, 1, 3])}, [grad])
    assert gradient.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


def test_what_control_flow_saves_cannot_be_fetched() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        out = static.nn.cond(x > 0, lambda: x * x, lambda: x)
        static.gradients(out, [x])
    (saved,) = next(op for op in p.main.global_block().ops if op.type == "cond").output("Saved")
    with pytest.raises(ValueError, match="cannot be fetched"):
        p.run({"x": np.ones(1)}, [saved])


# The scope against the program


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (np.ones((3, 1), np.float32), InvalidArgument, r"expected: float32\[3, 5\]\s+got:      float32\[3, 1\]"),
        (np.ones((3, 5)), InvalidType, r"expected: float32\[3, 5\]\s+got:      float64\[3, 5\]"),
    ],
)
def test_a_variable_that_is_not_what_the_program_declares(
    model: Model, exe: static.Executor, scope: static.Scope, value: np.ndarray, kind: type, text: str
) -> None:
    """[3, 1] would broadcast against the bias and compute something else without an error."""
    scope.find_var("fc_0.w_0").set(value)
    before = model.state(scope)
    with pytest.raises(kind, match=rf"parameter 'fc_0\.w_0' in the scope is not (?s:.*){text}") as raised:
        exe.run(model.main, feed=model.feed(), fetch_list=[model.loss], scope=scope)
    assert raised.type is kind
    assert model.state(scope) == before
    exe.run(model.startup, scope=scope)
    exe.run(model.main, feed=model.feed(), scope=scope)


def test_of_several_such_variables_always_the_same_is_named(
    model: Model, exe: static.Executor, scope: static.Scope, either: str
) -> None:
    for name in ("fc_1.w_0", "fc_0.w_0", "fc_1.b_0", "fc_0.b_0"):
        scope.find_var(name).set(np.ones((7, 7), np.float32))
    first = {"compiled": "w", "reference": "b"}[either]
    with pytest.raises(InvalidArgument, match=rf"parameter 'fc_0\.{first}_0' in the scope"):
        exe.run(model.main, feed=model.feed(), scope=scope)


def test_what_only_the_scope_knows_can_be_fetched(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    """A variable the program does not name, as a callback of the user's may have put there."""
    scope.var("noted").get_tensor().set(np.arange(3))
    (noted,) = exe.run(model.main, feed=model.feed(), fetch_list=["noted"], scope=scope)
    assert noted.tolist() == [0, 1, 2]
    with pytest.raises(NotFound, match=r"fetch .note.: the program has no such variable.*Only variables that"):
        exe.run(model.main, feed=model.feed(), fetch_list=["note"], scope=scope)


def test_a_startup_program_replaces_variables_of_other_shapes(model: Model, exe: static.Executor) -> None:
    scope = static.Scope()
    scope.var("fc_0.w_0").set(np.ones((7, 7)))
    exe.run(model.startup, scope=scope)
    assert np.array(scope.find_var("fc_0.w_0").get_tensor()).shape == (3, 5)


# Feeds


@pytest.mark.parametrize(
    ("value", "error"),
    [(np.ones(5, np.float32), ValueError), (np.ones((3, 5)), TypeError)],
)
def test_a_fed_parameter_is_checked_too(
    model: Model, exe: static.Executor, scope: static.Scope, value: np.ndarray, error: type
) -> None:
    before = model.state(scope)
    with pytest.raises(error, match=r"feed 'fc_0\.w_0' has the wrong"):
        exe.run(model.main, feed={**model.feed(), "fc_0.w_0": value}, scope=scope)
    assert model.state(scope) == before


def test_a_fed_parameter_stays_and_is_a_copy(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    test, w = model.main.clone(for_test=True), np.full((3, 5), 2.0, np.float32)
    exe.run(test, feed={**model.feed(), "fc_0.w_0": w}, fetch_list=[model.out.name], scope=scope)
    w[...] = 9
    assert (np.array(scope.find_var("fc_0.w_0").get_tensor()) == 2.0).all()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", 3.7),
        ("uint8", 300),
        ("uint8", [256]),
        ("uint8", [-1]),
        ("int32", [2**31]),
        ("int64", [2**63]),
        ("bool", [2]),
        ("float32", [1j]),
        ("float16", [1e6]),
        ("float32", 1e300),
    ],
)
def test_numbers_that_the_dtype_does_not_hold(exe: static.Executor, dtype: str, value: Any) -> None:
    with Built() as p:
        out = wb.assign(static.data("k", [1], dtype))
    with pytest.raises(ValueError, match="feed 'k'"):
        exe.run(p.main, feed={"k": value}, fetch_list=[out], scope=static.Scope())


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", 3),
        ("bool", True),
        ("bool", [0]),
        ("uint8", [255]),
        ("float32", [1]),
        ("float32", 0.1),
        ("int8", [-128]),
    ],
)
def test_numbers_that_it_holds(exe: static.Executor, dtype: str, value: Any) -> None:
    with Built() as p:
        out = wb.assign(static.data("k", [1], dtype))
    (fetched,) = exe.run(p.main, feed={"k": value}, fetch_list=[out], scope=static.Scope())
    wanted = value[0] if isinstance(value, list) else value
    assert fetched.dtype == dtype and fetched[0] == np.dtype(dtype).type(wanted)


def test_not_a_number_and_infinity_are_numbers(exe: static.Executor) -> None:
    with Built() as p:
        out = wb.assign(static.data("k", [2], "float32"))
    (fetched,) = exe.run(p.main, feed={"k": [float("nan"), float("inf")]}, fetch_list=[out], scope=static.Scope())
    assert np.isnan(fetched[0]) and np.isinf(fetched[1])


# Whose memory


def test_nothing_that_is_given_out_or_taken_in_shares_memory(
    model: Model, exe: static.Executor, scope: static.Scope
) -> None:
    names = [v.name for v in model.main.persistables()]
    feed = model.feed()
    kept = {name: value.copy() for name, value in feed.items()}
    arrays = exe.run(model.main, feed=feed, fetch_list=[*names, *names, "x"], scope=scope)
    tensors = exe.run(model.main, feed=feed, fetch_list=names, scope=scope, return_numpy=False)
    storage = [scope.find_var(name).get_tensor().array for name in names]
    everything = [*arrays, *(t.array for t in tensors), *storage, *feed.values()]
    for i, a in enumerate(everything):
        for b in everything[:i]:
            assert not np.shares_memory(a, b)
    assert all(np.array_equal(feed[name], kept[name]) for name in kept)


def test_an_op_that_gives_two_variables_one_array_or_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies may return one array twice, an array they keep, or one that cannot be written to."""
    constant = np.ones((2,), np.float32)
    constant.flags.writeable = False
    kept = np.ones((2,), np.float32)
    main = static.Program()
    block = main.global_block()
    for name in "abc":
        block.create_var(name, [2], "float32", persistable=True)
    attrs = {"shape": [2], "value": 1.0, "dtype": "float32"}
    for name in "abc":
        block.append_op("fill_constant", outputs={"Out": name}, attrs=attrs)
    exe, scope = static.Executor(), static.Scope()
    results = iter([kept, kept, constant] * 2)
    record = replace(find_op("fill_constant"), forward=lambda xp, **attrs: next(results))
    monkeypatch.setitem(OPS, "fill_constant", record)
    exe.run(main, scope=scope)
    arrays = [scope.find_var(name).get_tensor().array for name in "abc"]
    assert not any(np.shares_memory(a, b) for a in (*arrays, kept, constant) for b in arrays if a is not b)
    exe.run(main, scope=scope)
    scope.find_var("a").set(np.zeros(2, np.float32))
    scope.find_var("c").set(np.zeros(2, np.float32))
    assert (kept == 1).all() and np.array(scope.find_var("b").get_tensor()).tolist() == [1, 1]


def test_what_only_looks_at_a_variable_the_step_changes_is_kept_as_it_was(exe: static.Executor) -> None:
    """In the first step the scope has no storage for it, in the second it has."""
    with Built() as p:
        block = p.main.global_block()
        a = block.create_var("a", [2, 3], "float32", persistable=True)
        turned, kept = block.create_var("turned", [3, 2]), block.create_var("kept", [2, 3], persistable=True)
        block.append_op("transpose2", inputs={"X": a}, outputs={"Out": turned}, attrs={"axis": [1, 0]})
        block.append_op("scale", inputs={"X": a}, outputs={"Out": a}, attrs={"scale": 2.0})
        block.append_op("transpose2", inputs={"X": turned}, outputs={"Out": kept}, attrs={"axis": [1, 0]})
    scope = static.Scope()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    scope.var("a").set(value)
    for _ in range(2):
        exe.run(p.main, scope=scope)
        assert np.array_equal(np.array(scope.find_var("kept").get_tensor()), value)
        value = 2 * value
        assert np.array_equal(np.array(scope.find_var("a").get_tensor()), value)


def test_a_fed_tensor_of_a_scope_is_not_taken_over(exe: static.Executor) -> None:
    with Built() as p:
        v = p.main.global_block().create_var("v", [2], "float32", persistable=True)
        x = static.data("x", [2])
        p.main.global_block().append_op("assign", inputs={"X": x}, outputs={"Out": v})
    tensor = LoDTensor(np.ones(2, np.float32))
    scope = static.Scope()
    exe.run(p.main, feed={"x": tensor}, scope=scope)
    tensor.set(np.zeros(2, np.float32))
    assert np.array(scope.find_var("v").get_tensor()).tolist() == [1, 1]


# Scopes


def test_the_nearest_variable_of_a_name_is_read_and_written(model: Model, exe: static.Executor) -> None:
    root = static.Scope()
    exe.run(model.startup, scope=root)
    kid = root.new_scope()
    kid.var("fc_0.w_0").set(np.zeros((3, 5), np.float32))
    before = model.state(root)
    exe.run(model.main, feed=model.feed(), scope=kid)
    after = model.state(root)
    changed = {name for name in before if before[name] != after[name]}
    assert "fc_0.w_0" not in changed and "fc_1.b_0" in changed
    assert kid.local_var_names() == ["fc_0.w_0"]


def test_a_test_program_does_not_move_the_random_numbers_of_training(exe: static.Executor) -> None:
    """Evaluating in between changes nothing: its dropout draws no numbers, so it must not count as a step."""
    model = regression(batch_norm=False)
    test = model.main.clone(for_test=True)
    states = []
    for evaluate in (False, True):
        scope = static.Scope()
        exe.run(model.startup, scope=scope)
        for i in range(3):
            exe.run(model.main, feed=model.feed(i), scope=scope)
            if evaluate:
                exe.run(test, feed=model.feed(i), fetch_list=[model.out.name], scope=scope)
        states.append(model.state(scope))
    assert states[0] == states[1]


def test_nothing_stays_behind_after_many_steps(exe: static.Executor) -> None:
    model = regression()
    scope = static.Scope()
    exe.run(model.startup, scope=scope)
    feed = model.feed()

    def blocks_after(count: int) -> int:
        for _ in range(count):
            exe.run(model.main, feed=feed, fetch_list=[model.loss], scope=scope)
        gc.collect()
        return sys.getallocatedblocks()

    first = blocks_after(100)
    assert blocks_after(1000) - first < 500, "blocks of memory left after 1000 steps"
    assert not scope.kids and set(scope.vars) == {v.name for v in model.main.persistables()}


def test_caches_are_bounded_and_let_go(exe: static.Executor) -> None:
    gone = []
    for i in range(80):
        with Built() as p:
            out = static.data("x", [1]) * float(i)
        gone.append(weakref.ref(p.main))
        exe.run(p.main, feed={"x": np.ones(1, np.float32)}, fetch_list=[out], scope=static.Scope(), use_prune=True)
        del p, out
    gc.collect()
    assert sum(r() is not None for r in gone) <= 64
    exe.close()
    gc.collect()
    assert not any(r() for r in gone)
