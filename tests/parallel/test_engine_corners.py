"""What one step may do with variables that stay: read them after their update, write them twice, be fed them."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import in_both
from tests.parallel.models import Model, batch, build, classifier, column, line
from workbench import static
from workbench.executors.planning import schedule
from workbench.executors.running.engine.engine import Engine
from workbench.framework.program.roles import FORWARD, OPTIMIZE
from workbench.runtime.arena import Arena

REDUCE = static.BuildStrategy.ReduceStrategy.Reduce


def reduce_mode() -> Any:
    build_strategy = static.BuildStrategy()
    build_strategy.reduce_strategy = REDUCE
    return build_strategy


def state(model: Model, name: str, shape: list[int], value: float = 0.0) -> Any:
    """A persistable variable of a model's programs that starts with one value."""
    variable = model.main.global_block().create_var(name, shape, "float32", persistable=True)
    block = model.startup.global_block()
    block.create_var(name, shape, "float32", persistable=True)
    block.append_op("fill_constant", {}, {"Out": name}, {"shape": shape, "value": value, "dtype": "float32"})
    return variable


def on_device(exe: Any, device: int, name: str) -> np.ndarray:
    return np.array(exe.local_scope(device).find_var(name).get_tensor())


# Variables that are read after their update


def averaged(optimizer: Any, role: int) -> Model:
    """Two layers whose parameters' running averages are computed after the updates."""

    def body() -> Any:
        h = static.nn.fc(static.data("x", [None, 3]), 2)
        return wb.mean(wb.square(static.nn.fc(h, 2)))

    model = build(body, optimizer)
    with static.program_guard(model.main, model.startup), model.main.role_guard(role):
        for p in model.main.all_parameters():
            average = state(model, f"{p.name}_average", list(p.shape))
            terms = {"X": wb.scale(p, 0.25), "Y": wb.scale(average, 0.75)}
            model.main.global_block().append_op("elementwise_add", terms, {"Out": average})
    return model.start()


@pytest.mark.parametrize("role", [FORWARD, OPTIMIZE])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("rule", [wb.optimizer.SGD, wb.optimizer.Adam])
def test_averages_of_updated_parameters(rule: Any, count: int, role: int) -> None:
    """A flat update changed the scope before the commit, which then put garbage over it; and in Reduce mode other
    devices than the owner averaged the parameters before the update."""
    model, mirrored, owned = (averaged(rule(0.1), role) for _ in range(3))
    parallel, reducing = mirrored.parallel(count), owned.parallel(count, build_strategy=reduce_mode())
    x = np.random.default_rng(0).standard_normal((12, 3), dtype=np.float32)
    for _ in range(3):
        static.Executor().run(model.main, feed={"x": x}, scope=model.scope)
        parallel.run([], feed={"x": x})
        reducing.run([], feed={"x": x})
    expected = model.values()
    for device in range(count):
        for name, value in expected.items():
            np.testing.assert_allclose(on_device(parallel, device, name), value, rtol=1e-4, atol=1e-6, err_msg=name)
            np.testing.assert_allclose(on_device(reducing, device, name), value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_parameter_updated_twice_in_a_step() -> None:
    """The second fused update took the scope's values, those before the first."""
    model = line(wb.optimizer.SGD(0.1))
    block = model.main.global_block()
    with model.main.role_guard(OPTIMIZE):
        for op in [op for op in block.ops if op.type == "sgd"]:
            block.append_op("sgd", op.inputs, op.outputs, op.attrs)
    exe = model.start().parallel(2)
    (weight,) = exe.run(["fc_0.w_0"], feed={"X": column(0, 1, 2, 3)})
    np.testing.assert_allclose(weight, column(0.7, 0.7), rtol=1e-6)  # two times 0.1 * 1.5


# Persistable feeds


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("mode", [static.BuildStrategy, reduce_mode])
def test_X_19_a_fed_parameter_is_updated_in_the_same_step(mode: Any, count: int) -> None:
    """The commit put what was fed over what the update had made of it."""
    model = line().start()
    exe = model.parallel(count, build_strategy=mode())
    feed = {"X": column(0, 1, 2, 3, 0, 1, 2, 3)}
    (fetched,) = exe.run(["fc_0.w_0"], feed={**feed, "fc_0.w_0": column(5)})
    np.testing.assert_allclose(fetched, column(*[4.85] * count), rtol=1e-6)  # 5 - 0.1 * 1.5
    for device in range(count):
        np.testing.assert_array_equal(on_device(exe, device, "fc_0.w_0"), fetched[:1])
    np.testing.assert_allclose(exe.run(["fc_0.w_0"], feed=feed)[0], column(*[4.7] * count), rtol=1e-6)


def test_X_19_a_fed_velocity_is_moved_in_the_same_step() -> None:
    model = line(wb.optimizer.Momentum(0.1, 0.5)).start()
    velocity = next(name for name in model.values() if "w_0_velocity" in name)
    exe = model.parallel(2)
    fetched = exe.run([velocity, "fc_0.w_0"], feed={"X": column(0, 1, 2, 3), velocity: column(4)})
    np.testing.assert_allclose(fetched[0], column(3.5, 3.5), rtol=1e-6)  # 0.5 * 4 + 1.5
    np.testing.assert_allclose(fetched[1], column(0.65, 0.65), rtol=1e-6)


def test_X_19_a_fed_counter_counts_on() -> None:
    model = line()
    counter = state(model, "counter", [1])
    for _ in range(2):
        model.main.global_block().append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
    exe, feed = model.start().parallel(2), {"X": column(0, 1)}
    assert exe.run(["counter"], feed=feed)[0].tolist() == [2, 2]
    assert exe.run(["counter"], feed={**feed, "counter": np.float32([10])})[0].tolist() == [12, 12]
    assert exe.run(["counter"], feed=feed)[0].tolist() == [14, 14]


def test_X_19_idle_devices_and_unread_variables_keep_what_they_are_fed() -> None:
    """Devices without data kept their old values, and what no op reads was dropped without a word."""
    model = line()
    state(model, "lonely", [1], 1.0)
    exe = model.start().parallel(4, model.test)
    model.test.global_block().create_var("lonely", [1], "float32", persistable=True)
    exe.run([], feed={"X": column(0, 1), "fc_0.w_0": column(5)})
    for device in range(4):
        assert on_device(exe, device, "fc_0.w_0").tolist() == [[5]]
    training = model.parallel(2)
    training.run([], feed={"X": column(0, 1), "lonely": np.float32([7])})
    assert [on_device(training, device, "lonely").tolist() for device in range(2)] == [[7], [7]]


def test_X_19_a_fed_parameter_needs_a_variable_that_suits_the_program() -> None:
    """The update was broadcast over whatever shape the scope's variable had."""
    model = line().start()
    exe, feed = model.parallel(2), {"X": column(0, 1, 2, 3), "fc_0.w_0": column(5)}
    model.scope.find_var("fc_0.w_0").set(np.zeros((3, 3), np.float32))
    with pytest.raises(wb.errors.InvalidArgument, match=r"(?s)'fc_0.w_0' in the scope.*expected: float32\[1, 1\]"):
        exe.run([], feed=feed)
    assert not model.value("fc_0.w_0").any()
    model.scope.find_var("fc_0.w_0").set(column(1))
    np.testing.assert_allclose(exe.run(["fc_0.w_0"], feed=feed)[0], column(4.85, 4.85), rtol=1e-6)
    new = line()  # nothing initialised
    for name, value in ("learning_rate_0", 0.1), ("fc_0.b_0", 0):
        new.scope.var(name).set(np.float32([value]))
    with pytest.raises(wb.errors.PreconditionNotMet, match=r"'fc_0.w_0' is not initialised on cpu:0"):
        new.parallel(2).run([], feed=feed)


def test_a_fed_parameter_is_updated_where_its_variable_is_now() -> None:
    """A step that was fed a parameter went on writing to storage the variable had left."""
    model = line().start()
    exe, feed = model.parallel(1), {"X": column(0, 1, 2, 3), "fc_0.w_0": column(5)}
    exe.run([], feed=feed)
    variable = model.scope.find_var("fc_0.w_0")
    variable.set(np.zeros((3, 3), np.float32))
    variable.set(column(1))
    exe.run([], feed=feed)
    np.testing.assert_allclose(model.value("fc_0.w_0"), column(4.85), rtol=1e-6)


def test_what_a_step_only_writes_goes_where_its_variable_is_now() -> None:
    """Another variable of that name has taken its place in the scope."""
    model = line()
    with static.program_guard(model.main, model.startup):
        note = model.main.global_block().create_var("note", [1], "float32", persistable=True)
        wb.assign(model.loss, output=note)
    model.start()
    exe = model.parallel(1)
    (first,) = exe.run([model.loss], feed={"X": column(0, 1, 2, 3)})
    before = model.scope.find_var("note")
    model.scope.erase(["note"])
    (second,) = exe.run([model.loss], feed={"X": column(0, 1, 2, 3)})
    assert model.value("note") == second != first == np.array(before.get_tensor())


def test_what_moves_in_other_scopes_is_nothing_to_a_step_that_is_gone_through_by_hand() -> None:
    model = line().start()
    with model.parallel(2).stepper({"X": column(0, 1, 2, 3)}, [model.loss]) as step:
        step.next()
        other = static.Scope()
        other.var("x").set(column(1))
        other.erase(["x"])
        step.next()
        step.finish()
    np.testing.assert_allclose(model.value("fc_0.w_0"), column(0.85), rtol=1e-6)


@in_both
@pytest.mark.parametrize("count", [1, 2])
def test_a_gradient_that_two_joint_updates_read(count: int) -> None:
    """Each of them wants its gradients together, and one gradient cannot lie in two places."""
    rates = {"a": 0.1, "b": 0.1, "c": 0.2, "d": 0.2}
    read = {"a": "a", "b": "b", "c": "b", "d": "c"}  # whose gradient each of them is changed by

    def body() -> Any:
        x = static.data("X", [None, 1])
        outputs = [static.nn.fc(x, 1, weight_attr=wb.ParamAttr(name), bias_attr=False) * (k + 1.0)
                for k, name in enumerate(rates)]  # fmt: skip
        return wb.mean(sum(outputs[1:], outputs[0]))

    model = build(body)
    with static.program_guard(model.main, model.startup):
        gradients = {p.name: (p, g) for p, g in static.append_backward(model.loss)}
        for rate in (0.1, 0.2):
            names = [name for name in rates if rates[name] == rate]
            pairs = [(gradients[name][0], gradients[read[name]][1]) for name in names]
            wb.optimizer.SGD(rate).apply_gradients(pairs)

    slopes = {name: 2.5 * (k + 1) for k, name in enumerate(rates)}
    model.start()
    exe, start = model.parallel(count), {name: model.value(name) for name in rates}
    for _ in range(3):
        exe.run([], feed={"X": column(1, 2, 3, 4)})
    for name in rates:
        moved = (start[name] - model.value(name)) / rates[name]
        np.testing.assert_allclose(moved, [[3 * slopes[read[name]]]], rtol=1e-5)


# Scopes of devices


def test_the_replicas_go_with_their_executor() -> None:
    """Every executor left its devices' parameters behind, in the kids of the user's scope."""
    model = line().start()
    kept = model.parallel(3)
    kept.run([], feed={"X": column(0, 1, 2)})
    before = list(model.scope.kids)
    for _ in range(3):
        exe = model.parallel(4)
        exe.run([], feed={"X": column(0, 1, 2, 3)})
        tests = model.parallel(4, model.test, share_vars_from=exe)
        tests.run([], feed={"X": column(0, 1, 2, 3)})
        assert len(model.scope.kids) == 6  # 2 and 3 other devices, and what shares device 0's variables
        memory = weakref.ref(exe.inspection.tensor("fc_0.b_0", 1).array)
        del exe, tests
        gc.collect()  # the executors,
        gc.collect()  # then the scopes they took out of the user's
        assert model.scope.kids == before and memory() is None
    kept.run([], feed={"X": column(0, 1, 2)})


def test_X_20_dropped_kids_are_renewed_for_those_that_share_them() -> None:
    """An executor that shares variables went on reading the dropped ones on all devices but the first."""
    model = line().start()
    trains, feed = model.parallel(2), {"X": column(0, 1, 2, 3)}
    trains.run([], feed=feed)
    tests = model.parallel(2, model.test, share_vars_from=trains)
    more = model.parallel(2, model.test, share_vars_from=tests)
    tests.run([], feed=feed)
    for drop in (False, True):
        if drop:
            model.scope.drop_kids()
        trains.run([], feed=feed)
        for exe in (more, tests, more):
            assert exe.run(["fc_0.w_0"], feed=feed)[0].tolist() == [model.value("fc_0.w_0")[0].tolist()] * 2
    model.scope.drop_kids()
    assert more.run(["fc_0.w_0"], feed=feed)[0].tolist() == [model.value("fc_0.w_0")[0].tolist()] * 2
    trains.run([], feed=feed)
    assert more.run(["fc_0.w_0"], feed=feed)[0].tolist() == [model.value("fc_0.w_0")[0].tolist()] * 2


def test_weights_by_samples_need_one_number_of_samples() -> None:
    """The first variable's rows were taken, whatever the others'."""

    def body() -> Any:
        x, y = static.data("x", [None, 1]), static.data("y", [None, 1])
        return wb.mean(static.nn.fc(x, 1)) + wb.mean(static.nn.fc(y, 1))

    model, strategy = build(body, wb.optimizer.SGD(0.1)).start(), static.BuildStrategy()
    strategy.gradient_scale_strategy = static.BuildStrategy.GradientScaleStrategy.WeightedBySamples
    exe, one, two, three = model.parallel(3, build_strategy=strategy), column(1), column(1, 2), column(1, 2, 3)
    before, shares = model.values(), r"(?s)one number of samples.*'y' divided.*\[1, 2, 3\].*\[3, 2, 1\]"
    with pytest.raises(wb.errors.InvalidArgument, match=shares):
        exe.run([], feed=[{"x": one, "y": three}, {"x": two, "y": two}, {"x": three, "y": one}])
    assert all(np.array_equal(model.value(name), value) for name, value in before.items())
    exe.run([], feed=[{"x": rows, "y": rows} for rows in (one, two, three)])


@in_both
def test_threads_and_memory_go_with_their_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HAND_OFF", "CONTENTION", "CALL", "NATIVE_HAND_OFF", "NATIVE_CALL", "NATIVE_START"):
        monkeypatch.setattr(schedule, name, 0.0)
    monkeypatch.setattr(schedule, "MARGIN", 1e9)
    monkeypatch.setattr(schedule, "processors", lambda: 4)
    gc.collect()
    arenas, threads = Arena.live(), set(threading.enumerate())
    model, execution = classifier().start(), static.ExecutionStrategy()
    execution.num_threads = 4
    exe = model.parallel(2, exec_strategy=execution)
    for rows in (8, 16, 4, 8):
        exe.run([model.loss], feed=batch(rows))
    mine = set(threading.enumerate()) - threads
    (engine,) = (o for o in gc.get_objects() if isinstance(o, Engine) and o.program is exe.program)
    gone = [weakref.ref(engine), weakref.ref(exe.inspection.last), weakref.ref(exe.inspection.last.plan)]
    del engine
    assert len(mine) == 3 and Arena.live() > arenas
    del exe
    gc.collect()
    for thread in mine:
        thread.join(5)
    assert not any(t.is_alive() for t in mine) and Arena.live() == arenas and not any(ref() for ref in gone)
