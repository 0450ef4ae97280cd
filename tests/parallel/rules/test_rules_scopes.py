"""ParallelExecutor: scopes, parameter copies, temporaries (rules X-20 … X-26, X-50 … X-54)."""

import gc

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import batch, build, classifier, column, line
from workbench import events, static
from workbench.errors import PreconditionNotMet
from workbench.graph.settings import ReduceStrategy


def reduce_mode() -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = ReduceStrategy.Reduce
    return strategy


def test_x_20_local_scope_0_is_the_users():
    model = line().start()
    pe = model.parallel(2)
    pe.run([], feed={"X": column(1, 2)})
    assert pe.local_scope(0).scope is model.scope
    assert pe.local_scope(1).scope in model.scope.kids
    assert pe.local_scope(0).find_var("fc_0.w_0").get_tensor() is model.scope.find_var("fc_0.w_0").get_tensor()


def test_x_20_drop_kids_destroys_the_replicas():
    """The next run copies device 0's values anew."""
    model = line().start()
    pe = model.parallel(2)
    pe.run(["fc_0.w_0"], feed={"X": column(1, 2)})
    pe.local_scope(1).find_var("fc_0.w_0").set(np.full((1, 1), 9, np.float32))
    model.scope.drop_kids()
    (w,) = pe.run(["fc_0.w_0"], feed={"X": column(0, 0)})  # with the plan it has already
    assert w[0, 0] == w[1, 0] != 9


@pytest.mark.parametrize("mode", [ReduceStrategy.AllReduce, ReduceStrategy.Reduce])
def test_x_23_only_in_reduce_mode_devices_have_one_copy(mode):
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = mode
    pe = line().start().parallel(2, build_strategy=strategy)
    pe.run([], feed={"X": column(1, 2)})
    replicas = pe.inspection.last.replicas
    assert replicas.are_apart("fc_0.w_0") == (mode == ReduceStrategy.AllReduce)
    assert not replicas.are_apart("nobody")


def test_x_25_what_a_sharer_is_the_first_to_make_belongs_to_both():
    model = line().start()
    train = model.parallel(2)
    train.run([], feed={"X": column(1, 2)})
    with static.program_guard(model.test, model.startup):
        note = model.test.global_block().create_var("note", [1, 1], "float32", persistable=True)
        wb.assign(model.test.global_block().var("fc_0.tmp_1"), output=note)
    sharing = model.parallel(2, program=model.test, share_vars_from=train)
    for rows in ((1, 2), (3, 4)):
        (seen,) = sharing.run(["note"], feed={"X": column(*rows)})
        for device in range(2):
            mine = sharing.local_scope(device).find_var("note").get_tensor()
            assert mine is train.local_scope(device).find_var("note").get_tensor()
            assert np.array(mine).item() == seen[device, 0]
    assert seen[0, 0] != seen[1, 0]


def test_x_21_initialised_variables_are_copied_at_the_first_run():
    model = line().start()
    pe = model.parallel(2)
    model.scope.find_var("fc_0.w_0").set(np.full((1, 1), 5, np.float32))  # after construction, before the first run
    (h,) = pe.run(["fc_0.tmp_0"], feed={"X": column(1, 2)})
    assert h.ravel().tolist() == [5, 10]


def test_x_21_an_uninitialised_parameter_is_named():
    with pytest.raises(PreconditionNotMet, match=r"fc_0\.w_0.*startup program.*\n.*op 'mul' at"):
        line().parallel(2).run([], feed={"X": column(1, 2)})


def test_x_22_nothing_is_copied_for_one_device():
    model = line().start()
    model.parallel(1).run([], feed={"X": column(1)})
    assert model.scope.kids == []


def test_x_23_reduce_mode_shares_parameters_and_state_and_copies_counters():
    model = classifier(wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.1, 0.9))).start()
    pe = model.parallel(2, build_strategy=reduce_mode())
    pe.run([], feed=batch())
    first, second = pe.local_scope(0), pe.local_scope(1)
    for name in ("fc_0.w_0", "fc_0.w_0_moment1_0", "fc_0.w_0_beta1_pow_acc_0"):
        assert first.find_var(name).get_tensor() is second.find_var(name).get_tensor(), name


def test_x_24_nobody_synchronises_again():
    model = line().start()
    pe = model.parallel(2)
    pe.run([], feed={"X": column(1, 2)})
    model.scope.find_var("fc_0.w_0").set(np.full((1, 1), 0.5, np.float32))
    (w,) = pe.run(["fc_0.w_0"], feed={"X": column(0, 0)})
    assert w[0, 0] == 0.5 != w[1, 0]


def test_x_24_the_startup_program_run_again_changes_device_0_only():
    model = line().start()
    pe = model.parallel(2)
    for _ in range(3):
        pe.run([], feed={"X": column(1, 2)})
    static.Executor().run(model.startup, scope=model.scope)
    (w,) = pe.run(["fc_0.w_0"], feed={"X": column(0, 0)})
    assert w[0, 0] == 1.0 != w[1, 0]


def test_x_25_a_test_executor_that_shares_reads_live_values():
    model = line().start()
    train = model.parallel(2)
    train.run([], feed={"X": column(0, 0)})
    sharing = model.parallel(2, program=model.test, share_vars_from=train)
    apart = model.parallel(2, program=model.test)
    (_, old) = apart.run(["fc_0.tmp_0"], feed={"X": column(1, 1)})[0].ravel()
    for _ in range(2):
        train.run([], feed={"X": column(1, 2)})
    weights = train.run(["fc_0.w_0"], feed={"X": column(0, 0)})[0].ravel()
    np.testing.assert_array_equal(sharing.run(["fc_0.tmp_0"], feed={"X": column(1, 1)})[0].ravel(), weights)
    fetched = apart.run(["fc_0.tmp_0"], feed={"X": column(1, 1)})[0].ravel()
    assert fetched[0] == weights[0] and fetched[1] == old != weights[1]  # device 1: its first run's copy


def test_x_25_devices_that_share_do_not_update_one_variable_twice():
    """The executor whose variables are used has no copies of it."""
    model, another = line().start(), build(lambda: wb.mean(static.data("X", [None, 1])))
    other = another.parallel(2, another.test, scope=model.scope)
    other.run([], feed={"X": column(1, 2)})
    sharing = model.parallel(2, share_vars_from=other)
    with pytest.raises(PreconditionNotMet, match=r"cpu:1 has no 'fc_0\.._0' of its own.*cpu:0.*share_vars_from"):
        sharing.run([], feed={"X": column(1, 2)})
    assert model.value("fc_0.w_0").item() == 1.0


def test_x_26_a_plain_executor_sees_device_0():
    model = line().start()
    pe = model.parallel(2)
    pe.run([], feed={"X": column(1, 2)})
    pe.local_scope(1).find_var("fc_0.w_0").set(np.full((1, 1), 9, np.float32))
    (w,) = static.Executor().run(model.test, feed={"X": column(1)}, fetch_list=["fc_0.w_0"], scope=model.scope)
    np.testing.assert_array_equal(w, model.value("fc_0.w_0"))
    assert w[0, 0] != 9


# Temporaries


def drops(pe, run, times):
    """After which runs temporaries were dropped, counted from 1."""
    steps, step = [], 0
    with events.subscribe(lambda e: steps.append(step), events.ScopeDrop):
        for step in range(1, times + 1):  # noqa: B007 - the observer reads it
            run()
    return steps


@pytest.mark.parametrize(("interval", "expected"), [(1, [1, 2, 3, 4]), (3, [3]), (2, [2, 4]), (0, [])])
def test_x_50_drop_interval(interval, expected):
    model, strategy = line().start(), static.ExecutionStrategy()
    strategy.num_iteration_per_drop_scope = interval
    pe = model.parallel(2, exec_strategy=strategy)
    assert drops(pe, lambda: pe.run([], feed={"X": column(1, 2)}), 4) == expected


def test_x_50_the_default_is_100():
    assert static.ExecutionStrategy().num_iteration_per_drop_scope == 100


def test_x_50_a_run_that_failed_counts():
    model, strategy = classifier().start(), static.ExecutionStrategy()
    strategy.num_iteration_per_drop_scope = 2
    pe = model.parallel(2, exec_strategy=strategy)
    bad = batch()
    bad["y"] = bad["y"] + 100

    def fail():
        with pytest.raises(Exception, match="label"):
            pe.run([], feed=bad)

    assert drops(pe, fail, 2) == [2]


def test_x_51_results_do_not_depend_on_drops():
    results = []
    for interval in (100, 1):
        model, strategy = classifier(wb.optimizer.Adam(0.01)).start(), static.ExecutionStrategy()
        strategy.num_iteration_per_drop_scope = interval
        pe = model.parallel(2, exec_strategy=strategy)
        losses = [pe.run([model.loss], feed=batch(8, k))[0] for k in range(5)]
        results.append((losses, model.values()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for name, value in results[0][1].items():
        np.testing.assert_array_equal(value, results[1][1][name], err_msg=name)


def test_x_51_persistables_stay_and_temporaries_go():
    model, strategy = line().start(), static.ExecutionStrategy()
    strategy.keep_temporaries = True
    pe = model.parallel(2, exec_strategy=strategy)
    pe.run([], feed={"X": column(1, 2)})
    assert np.array(pe.local_scope(1).find_var("fc_0.tmp_0").get_tensor()).tolist() == [[2.0]]
    before = model.value("fc_0.w_0")
    pe.drop_local_exe_scopes()
    assert pe.local_scope(1).find_var("fc_0.tmp_0") is None
    np.testing.assert_array_equal(model.value("fc_0.w_0"), before)


def test_x_52_dropping_by_hand_resets_the_counter():
    model, strategy = line().start(), static.ExecutionStrategy()
    strategy.num_iteration_per_drop_scope = 3
    pe = model.parallel(2, exec_strategy=strategy)
    for _ in range(2):
        pe.run([], feed={"X": column(1, 2)})
    pe.drop_local_exe_scopes()
    assert drops(pe, lambda: pe.run([], feed={"X": column(1, 2)}), 4) == [3]


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_x_52_an_observer_may_drop_on_every_event():
    """A drop is told of; who drops again then has begun nothing, and the step is what it is."""
    expected = [pe.run([model.loss], feed=batch(8))[0] for model, pe in [_dropping_model()] for _ in range(3)]
    model, pe = _dropping_model()
    told, inside, deepest = [], [0], [0]

    def drop(event):
        told.append(event)
        inside[0] += 1
        deepest[0] = max(inside[0], deepest[0])
        pe.drop_local_exe_scopes()
        inside[0] -= 1

    with events.subscribe(drop) as subscription:
        results = [pe.run([model.loss], feed=batch(8))[0] for _ in range(3)]
        assert not subscription.closed
    assert np.array_equal(results, expected)
    assert any(isinstance(event, events.ScopeDrop) for event in told) and deepest == [2]


def _dropping_model():
    model = classifier().start()
    pe = model.parallel(2)
    pe.run([model.loss], feed=batch(8))
    return model, pe


def test_x_51_memory_falls_back():
    def wide():
        x = static.data("X", [None, 1 << 16])
        h = x
        for _ in range(6):
            h = wb.tanh(h) * 2.0 + 1.0
        return wb.mean(h)

    model, strategy = build(wide), static.ExecutionStrategy()
    strategy.keep_temporaries = True  # every value its own memory: 19 of 16 MiB per device
    pe = model.parallel(2, exec_strategy=strategy)
    x = np.zeros((128, 1 << 16), np.float32)
    pe.run([], feed={"X": x})
    gc.collect()
    high, held = resident(), sum(a.resident for a in pe.inspection.arenas.values())
    assert held > 400 << 20
    pe.drop_local_exe_scopes()
    assert sum(a.resident for a in pe.inspection.arenas.values()) == 0
    assert high - resident() > 0.9 * held


def test_a_temporary_whose_memory_was_taken_names_who_took_it():
    model = line(width=1).start()
    pe = model.parallel(2)
    pe.run([model.loss], feed={"X": column(1, 2, 3, 4)})
    with pytest.raises(PreconditionNotMet, match=r"fc_0.tmp_0.*cpu:0.*fc_0.tmp_1.*keep_temporaries"):
        pe.local_scope(0).find_var("fc_0.tmp_0")
    np.testing.assert_array_equal(pe.local_scope(1).find_var("mean_0.tmp_0").get_tensor().shape, (1,))


def test_local_scope_knows_its_devices():
    model = line().start()
    pe = model.parallel(2)
    with pytest.raises(PreconditionNotMet, match="first run"):
        pe.local_scope(0)
    pe.run([], feed={"X": column(1, 2)})
    with pytest.raises(ValueError, match="no device 2"):
        pe.local_scope(2)
    assert pe.local_scope(0).find_var("nobody") is None
