"""Executor.run and scopes: the rules of section 2 of the semantics (E-1 … E-14) by number."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench import errors
from workbench.framework.names import guard
from workbench.framework.program.guard import static_mode
from workbench.runtime.storage.tensor import LoDTensor

static = wb.static


@pytest.fixture
def model() -> Model:
    return regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.SGD(0.1))


@pytest.fixture
def exe() -> static.Executor:
    return static.Executor(wb.CPUPlace())


@pytest.fixture
def scope(model: Model, exe: static.Executor) -> static.Scope:
    scope = static.Scope()
    exe.run(model.startup, scope=scope)
    return scope


def test_e1_default_program_and_scope(exe: static.Executor) -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static_mode(), static.scope_guard(static.Scope()):
        static.nn.fc(static.data("x", [None, 2]), 1, name="one")
        exe.run(static.default_startup_program())
        (out,) = exe.run(feed={"x": np.ones((2, 2), np.float32)}, fetch_list=["one.tmp_1"])
        assert out.shape == (2, 1)
        assert static.global_scope().find_var("one.w_0") is not None
    assert static.global_scope().find_var("one.w_0") is None


def test_e1_empty_program_warns(exe: static.Executor) -> None:
    with pytest.warns(UserWarning, match="no operators"):
        assert exe.run(static.Program()) == []


def test_e1_wrong_types_and_closed(model: Model, exe: static.Executor) -> None:
    with pytest.raises(TypeError, match="takes a Program"):
        exe.run("main")
    with pytest.raises(TypeError, match="Scope"):
        exe.run(model.startup, scope=3)
    exe.close()
    with pytest.raises(RuntimeError, match="closed"):
        exe.run(model.startup)


def test_e2_fetch_list_forms(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    run = lambda fetch: exe.run(model.main, feed=model.feed(), fetch_list=fetch, scope=scope)  # noqa: E731
    assert run(None) == [] and run([]) == []
    assert len(run(model.loss)) == len(run(model.loss.name)) == 1
    a, b = run([model.loss, model.loss.name])
    assert a == b
    for kind in (ValueError, AssertionError):
        with pytest.raises(kind, match="takes a list"):
            run({"loss": model.loss})
    with pytest.raises(TypeError, match="takes Variables"):
        run([3])


def test_e3_optimize_ops_in_the_fetch_list(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    ops = [op for op in model.main.global_block().ops if op.type == "sgd"]
    split = static.Executor._split_optimize_ops_in_fetch_list
    assert split([model.loss, (ops, [])]) == ([model.loss], ops)
    assert split([ops, "a", ops[0]]) == (["a"], [*ops, ops[0]])
    with pytest.raises(TypeError, match="operator 'mul'"):
        split([model.main.global_block().ops[0]])
    before = model.state(scope)
    assert exe.run(model.main, feed=model.feed(), fetch_list=[(ops, [])], scope=scope) == []
    assert model.state(scope) != before


def test_e4_every_op_runs_whatever_is_fetched(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    before = model.state(scope)
    exe.run(model.main, feed=model.feed(), fetch_list=[model.out], scope=scope)
    assert model.state(scope) != before


def test_e5_pruning(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    names = [op.output("ParamOut")[0] for op in model.main.global_block().ops if op.type == "sgd"]
    before = model.state(scope)
    exe.run(model.main, feed=model.feed(), fetch_list=[model.out], scope=scope, use_prune=True)
    changed = {n for n, data in model.state(scope).items() if data != before[n]}
    assert changed == set(names), "without listed ops all updates are kept"
    one = next(op for op in model.main.global_block().ops if op.type == "sgd" and "b_0" in op.input("Param")[0])
    before = model.state(scope)
    exe.run(model.main, feed=model.feed(), fetch_list=[one], scope=scope)
    assert {n for n, data in model.state(scope).items() if data != before[n]} == {one.input("Param")[0]}
    test = model.main.clone(for_test=True)
    with pytest.warns(UserWarning, match="'y' is not needed"):
        exe.run(test, feed=model.feed(), fetch_list=[model.out.name], scope=scope, use_prune=True)


def test_e6_feed_forms(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    (a,) = exe.run(model.main.clone(True), feed=model.feed(), fetch_list=[model.out.name], scope=scope)
    (b,) = exe.run(model.main.clone(True), feed=[model.feed()], fetch_list=[model.out.name], scope=scope)
    assert (a == b).all()
    for kind in (ValueError, AssertionError):
        with pytest.raises(kind, match="one dict of feeds"):
            exe.run(model.main, feed=[model.feed(), model.feed()], scope=scope)
    with pytest.raises(TypeError, match="dict"):
        exe.run(model.main, feed="x", scope=scope)
    with pytest.raises(ValueError, match=r"feed 'xx': the program has no such variable"):
        exe.run(model.main, feed={**model.feed(), "xx": np.zeros(1)}, scope=scope)


def test_e7_feed_values(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    test = model.main.clone(for_test=True)
    feed = model.feed()
    expected = exe.run(test, feed=feed, fetch_list=[model.out.name], scope=scope)[0]
    tensor = LoDTensor()
    tensor.set(feed["x"], wb.CPUPlace())
    for x in (feed["x"].tolist(), tensor, wb.to_tensor(feed["x"])):
        output = exe.run(test, feed={"x": x, "y": feed["y"]}, fetch_list=[model.out.name], scope=scope)[0]
        assert np.array_equal(output, expected)
    with pytest.raises(ValueError, match="ragged"):
        exe.run(test, feed={"x": [[1, 2, 3], [1]], "y": feed["y"]}, scope=scope)
    with pytest.raises(TypeError, match="takes an array"):
        exe.run(test, feed={"x": object(), "y": feed["y"]}, scope=scope)


def test_e7_a_python_number_is_one_element(exe: static.Executor) -> None:
    main = static.Program()
    with static_mode(), static.program_guard(main, static.Program()):
        out = static.data("k", [1], "int64") * 3
    assert exe.run(main, feed={"k": 5}, fetch_list=[out])[0].tolist() == [15]


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        (np.ones((4, 2), np.float32), ValueError, r"expected: \[\?, 3\]\s+got:      \[4, 2\]"),
        (np.ones(3, np.float32), ValueError, r"got:      \[3\]"),
        (np.ones((4, 3)), TypeError, r"expected: float32\s+got:      float64.*astype"),
        (np.ones((4, 3), np.int32), ValueError, "int32"),
    ],
)
def test_e8_e9_wrong_feeds(
    model: Model, exe: static.Executor, scope: static.Scope, x: np.ndarray, error: type, text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        exe.run(model.main, feed={"x": x, "y": model.feed()["y"]}, scope=scope)
    assert isinstance(caught.value, errors.EnforceNotMet)
    assert "feed 'x'" in str(caught.value) and "models.py, line" in str(caught.value)


def static_copy_without_checks(model: Model) -> static.Program:
    """The program with feeds of any shape."""
    program = model.main.clone()
    program.global_block().var("x").need_check_feed = False
    return program


def test_e9_missing_feed(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    with pytest.raises(errors.EnforceNotMet, match="feed 'x' is missing") as caught:
        exe.run(model.main, feed={"y": model.feed()["y"]}, scope=scope)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ValueError, match="feed 'y' is missing"):  # before an op looks at the wrong shape of x
        exe.run(static_copy_without_checks(model), feed={"x": np.ones((2, 7), np.float32)}, scope=scope)
    exe.run(model.main, feed=model.feed(), scope=scope)
    with pytest.raises(ValueError, match="feed 'x' is missing"):
        exe.run(model.main, feed=None, scope=scope)  # never last step's data


def test_e9_unknown_fetch(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    with pytest.raises(RuntimeError, match=r"Did you mean 'fc_0\.tmp_0'"):
        exe.run(model.main, feed=model.feed(), fetch_list=["fc_0.tmp0"], scope=scope)


def test_e9_startup_not_run(model: Model, exe: static.Executor) -> None:
    with pytest.raises(RuntimeError, match=r"parameter 'fc_0.w_0' is not initialised; run the startup program"):
        exe.run(model.main, feed=model.feed(), scope=static.Scope())


def test_e9_batches_of_two_feeds_differ(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    feed = model.feed()
    feed["y"] = feed["y"][:3]
    with pytest.raises(ValueError, match=r"float32\[4, 1\].*\n?.*float32\[3, 1\]"):
        exe.run(model.main, feed=feed, scope=scope)


def test_e10_fetched_values_are_copies(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    for as_numpy in (True, False):
        (w,) = exe.run(model.main, feed=model.feed(), fetch_list=["fc_0.w_0"], scope=scope, return_numpy=as_numpy)
        held = np.array(w)
        assert isinstance(w, np.ndarray if as_numpy else LoDTensor)
        exe.run(model.main, feed=model.feed(1), scope=scope)
        assert np.array_equal(np.array(w), held)
        assert not np.array_equal(np.array(scope.find_var("fc_0.w_0").get_tensor()), held)
    feed = model.feed()
    (x,) = exe.run(model.main, feed=feed, fetch_list=["x"], scope=scope)
    assert np.array_equal(x, feed["x"]) and not np.shares_memory(x, feed["x"])


def test_e11_temporaries_do_not_stay(model: Model, exe: static.Executor) -> None:
    root = static.Scope()
    kid = root.new_scope()
    exe.run(model.startup, scope=kid)
    exe.run(model.main, feed=model.feed(), scope=kid)
    assert root.find_var_locally("fc_0.w_0") is not None and kid.find_var_locally("fc_0.w_0") is None
    for name in ("x", "fc_0.tmp_0", "fc_0.w_0@GRAD"):
        assert kid.find_var(name) is None


def test_e12_program_cache_changes_nothing(model: Model, exe: static.Executor) -> None:
    losses = []
    for cached in (False, True):
        scope = static.Scope()
        exe.run(model.startup, scope=scope)
        run = lambda i, c=cached, s=scope: exe.run(  # noqa: E731
            model.main, feed=model.feed(i), fetch_list=[model.loss], scope=s, use_program_cache=c
        )
        losses.append([run(i)[0].item() for i in range(4)])
    assert losses[0] == losses[1]


def test_e13_scope_api() -> None:
    scope = static.Scope()
    kid = scope.new_scope()
    scope.var("a").get_tensor().set(np.array([1.0, 2.0], np.float32), wb.CPUPlace())
    assert kid.find_var("a") is scope.find_var("a") and scope.find_var("b") is None
    kid.var("b")
    assert scope.find_var("b") is None
    assert np.array(kid.find_var("a").get_tensor()).tolist() == [1, 2]
    with static.scope_guard(scope):
        assert static.global_scope() is scope
    assert static.global_scope() is not scope
    scope.drop_kids()
    assert scope.kids == []


def test_e13_set_changes_what_the_next_run_reads(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    tensor = scope.find_var("fc_1.b_0").get_tensor()
    storage, generation = tensor.array, tensor.generation
    test = model.main.clone(for_test=True)
    before = exe.run(test, feed=model.feed(), fetch_list=[model.out.name], scope=scope)[0]
    tensor.set(np.array([5.0], np.float32), wb.CPUPlace())
    after = exe.run(test, feed=model.feed(), fetch_list=[model.out.name], scope=scope)[0]
    assert np.allclose(after, before + 5.0)
    assert tensor.array is storage and tensor.generation == generation, "storage is stable"


def test_e14_startup_again_initialises_again(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    first = model.state(scope)
    exe.run(model.main, feed=model.feed(), scope=scope)
    assert model.state(scope) != first
    exe.run(model.startup, scope=scope)
    assert model.state(scope) == first, "random_seed is set, so the values are the same"


def test_p14_without_a_seed_every_startup_differs(exe: static.Executor) -> None:
    main, startup = static.Program(), static.Program()
    with static_mode(), guard(), static.program_guard(main, startup):
        static.nn.fc(static.data("x", [None, 8]), 8)
    seen = set()
    for _ in range(3):
        scope = static.Scope()
        exe.run(startup, scope=scope)
        seen.add(scope.find_var("fc_0.w_0").tensor.array.tobytes())
    assert len(seen) == 3


def test_lr_scheduler_value_is_written_before_the_step(exe: static.Executor) -> None:
    model = regression(dropout=False, batch_norm=False)
    scope = static.Scope()
    exe.run(model.startup, scope=scope)
    ((name, rate),) = model.main.lr_schedulers.items()
    seen = []
    for i in range(3):
        seen.append(exe.run(model.main, feed=model.feed(i), fetch_list=[name], scope=scope)[0].item())
        rate.step()
    assert np.allclose(seen, [0.05, 0.045, 0.0405])


def test_dropout_streams_differ_by_step_and_repeat_from_the_start(exe: static.Executor) -> None:
    model = regression(batch_norm=False)
    mask = next(op for op in model.main.global_block().ops if op.type == "dropout").output("Mask")[0]
    runs = []
    for _ in range(2):
        scope = static.Scope()
        exe.run(model.startup, scope=scope)
        runs.append(
            [exe.run(model.main, feed=model.feed(), fetch_list=[mask], scope=scope)[0].tobytes() for _ in range(4)]
        )
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1


def test_check_nan_inf_names_the_first_op_and_its_line(exe: static.Executor) -> None:
    main = static.Program()
    with static_mode(), guard(), static.program_guard(main, static.Program()):
        x = static.data("x", [None, 2])
        bad = wb.log(x)
        wb.mean(bad * 2)
    feed = {"x": np.array([[1, -1]], np.float32)}
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exe.run(main, feed=feed)
        wb.set_flags({"FLAGS_check_nan_inf": 1})
        try:
            with pytest.raises(
                RuntimeError, match=r"op 'log' made 1 NaN and 0 Inf.*\n.*\n.*test_executor.py, line \d+"
            ):
                exe.run(main, feed=feed)
        finally:
            wb.set_flags({"FLAGS_check_nan_inf": 0})


def test_a_variable_made_persistable_after_a_run_is_kept_by_the_next(exe: static.Executor) -> None:
    main, scope = static.Program(), static.Scope()
    with static_mode(), guard(), static.program_guard(main, static.Program()):
        out = static.data("x", [1]) * 2.0
    feed = {"x": np.ones(1, np.float32)}
    exe.run(main, feed=feed, fetch_list=[out], scope=scope)
    assert scope.find_var(out.name) is None
    out.persistable = True
    exe.run(main, feed=feed, fetch_list=[out], scope=scope)
    assert np.array(scope.find_var(out.name).get_tensor()).tolist() == [2.0]


def test_e5_pruning_a_startup_program_runs_all_of_it(model: Model, exe: static.Executor) -> None:
    scope = static.Scope()
    assert exe.run(model.startup, scope=scope, use_prune=True) == []
    assert set(scope.vars) == {v.name for v in model.main.persistables()}
    one = static.Scope()
    exe.run(model.startup, scope=one, fetch_list=["fc_0.b_0"], use_prune=True)
    assert one.local_var_names() == ["fc_0.b_0"]


def test_e5_what_is_fed_counts_as_a_leaf(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    test, hidden = model.main.clone(for_test=True), np.ones((2, 5), np.float32)
    w, b = (np.array(scope.find_var(n).get_tensor()) for n in ("fc_1.w_0", "fc_1.b_0"))
    fetch = {"feed": {"fc_0.tmp_2": hidden}, "fetch_list": [model.out.name], "scope": scope}
    assert np.allclose(exe.run(test, use_prune=True, **fetch)[0], hidden @ w + b)
    with pytest.raises(ValueError, match="feed 'x' is missing"):
        exe.run(test, **fetch)
    with pytest.raises(LookupError, match=r"Did you mean 'fc_1\.tmp_1'"):
        exe.run(test, feed=model.feed(), fetch_list=["fc_1.tmp1"], scope=scope, use_prune=True)


def test_e3_operators_of_another_program(model: Model, exe: static.Executor, scope: static.Scope) -> None:
    other = regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.SGD(0.1))
    ops = [op for op in other.main.global_block().ops if op.type == "sgd"]
    with pytest.raises(RuntimeError, match="operators of another program"):
        exe.run(model.main, feed=model.feed(), fetch_list=[ops], scope=scope)


def test_a_failure_inside_a_loop_or_branch_keeps_its_class(exe: static.Executor) -> None:
    """The message and the class are those of the op that failed, not of the loop around it."""
    main = static.Program()
    with static_mode(), guard(), static.program_guard(main, static.Program()):
        ids, one = static.data("ids", [None], "int64"), wb.zeros([1], "int64")
        table = wb.ones([5, 2])
        side = lambda: wb.sum(wb.nn.functional.embedding(ids, table))  # noqa: E731
        branch = lambda: static.nn.cond(wb.sum(ids) > 0, side, lambda: wb.zeros([1]))  # noqa: E731
        _, out = static.nn.while_loop(lambda i, t: i < 2, lambda i, t: [i + 1, t + branch()], [one, wb.zeros([1])])
    with pytest.raises(ValueError, match="op 'lookup_table_v2' failed: embedding: id 9") as caught:
        exe.run(main, feed={"ids": np.array([1, 9])}, fetch_list=[out], scope=static.Scope())
    assert "'while'" not in str(caught.value) and "'cond'" not in str(caught.value)
