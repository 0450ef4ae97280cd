"""Several executors, and several threads on one, share scopes without mixing their steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, line
from tests.parallel.observe import bits, costly_ops, held
from tests.parallel.threads.test_threads import (
    NAMES,
    PATIENCE,
    NumpyReplicas,
    Slow,
    one_slow,
    quadratic,
    threads,
    trained,
)
from workbench import static
from workbench.errors import Unavailable
from workbench.runtime.storage.bucket import bucket_of


def together(*bodies: Callable[[], Any]) -> list[Any]:
    """Run functions in a thread each, all beginning at the same moment; what the first that failed raised."""
    begin, results, errors = threading.Barrier(len(bodies)), [None] * len(bodies), []

    def run(i: int) -> None:
        try:
            begin.wait(PATIENCE)
            results[i] = bodies[i]()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(bodies))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert not any(worker.is_alive() for worker in workers), "a thread does not come to an end"
    if errors:
        raise errors[0]
    return results


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_two_training_executors_on_one_scope(devices: int, same: bool) -> None:
    """X-20, X-24: device 0 is common to both, every other device has values of its own."""
    model = quadratic().start()
    other = model if same else quadratic(bias=False)
    other.scope = model.scope
    exes = [m.parallel(devices) for m in (model, other)]
    shared = {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    references: list[NumpyReplicas | None] = [None, None]
    rng = np.random.default_rng(3)
    for turn in [0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1]:
        x = rng.uniform(-1, 1, (6, 1)).astype(np.float32)
        if references[turn] is None:  # the others are copied at its first run
            references[turn] = NumpyReplicas(shared, devices, ["w", "b"] if turn == 0 or same else ["w"])
        reference = references[turn]
        losses = reference.step(np.split(x, devices))
        (fetched,) = exes[turn].run([(model, other)[turn].loss], feed={"X": x})
        np.testing.assert_allclose(fetched, losses, rtol=1e-4)
        for reference, exe in zip(references, exes, strict=True):
            if reference is not None:
                for device, values in enumerate(reference.values):
                    for key in (k for k in values if k[-1] in reference.trained):
                        value = np.array(exe.local_scope(device).find_var(NAMES[key]).get_tensor()).item()
                        np.testing.assert_allclose(value, values[key], rtol=1e-4, atol=1e-6, err_msg=key)
    weight, both = [NAMES["w"]], sorted(NAMES[k] for k in "wb")
    first = bucket_of([exes[0].inspection.tensor(name, 0) for name in both])
    assert first is not None
    if same:
        assert bucket_of([exes[1].inspection.tensor(name, 0) for name in both]) is first
    else:  # it lies in the other one's
        assert bucket_of([exes[1].inspection.tensor(name, 0) for name in weight]) is None


def twenty_steps(model: Model, exe: Any) -> Any:
    losses = [bits(exe.run([model.loss], feed=batch(8 + k % 3, seed=k))) for k in range(20)]
    return losses, held(exe, model.main)


def test_executors_of_two_scopes_in_two_threads() -> None:
    with costly_ops():
        expected = twenty_steps(*trained(0))
        pairs = [trained(0), trained(0)]
        results = together(*(lambda pair=pair: twenty_steps(*pair) for pair in pairs))
    assert results == [expected, expected]


def counting() -> Model:
    """Every step takes 1/1024 off the weight, exactly: mean(X w) with X = 1."""
    return line(wb.optimizer.SGD(2.0**-10), weight=0.0).start()


def steps_of(value: Any) -> list[float]:
    return (np.ravel(value) * -1024).tolist()


ONES = {"X": np.ones((4, 1), np.float32)}


def test_a_serial_and_a_parallel_executor_on_one_scope_in_two_threads() -> None:
    """No step is lost and none is torn: device 0 has made all of them, device 1 those of its executor."""
    model = counting()
    serial, parallel = static.Executor(), model.parallel(2)
    parallel.run([], feed=ONES)

    def alone() -> None:
        for _ in range(150):
            serial.run(model.main, feed=ONES, scope=model.scope)

    def on_devices() -> None:
        for _ in range(150):
            parallel.run([], feed=ONES)

    together(alone, on_devices)
    assert steps_of(model.value("fc_0.w_0")) == steps_of(model.value("fc_0.b_0")) == [301]
    assert steps_of(parallel.run(["fc_0.w_0"], feed=ONES)[0]) == [302, 152]


def test_two_parallel_executors_on_one_scope_in_two_threads() -> None:
    model = counting()
    first, second = model.parallel(2), model.parallel(2, exec_strategy=threads(1))
    first.run([], feed=ONES)
    second.run([], feed=ONES)  # begins with the one step of the first

    def run(exe: Any) -> None:
        for _ in range(100):
            exe.run([], feed=ONES)

    together(lambda: run(first), lambda: run(second))
    assert steps_of(first.run(["fc_0.w_0"], feed=ONES)[0]) == [203, 102]
    assert steps_of(second.run(["fc_0.w_0"], feed=ONES)[0]) == [204, 103]


@pytest.mark.parametrize("compiled", [False, True])
def test_one_executor_run_by_four_threads(compiled: bool) -> None:
    """Even the first run, which makes everything, may be that of all of them."""
    model = counting()
    if compiled:
        program = static.CompiledProgram(model.main).with_data_parallel(
            loss_name=model.loss.name, places=[wb.CPUPlace()] * 2
        )
        exe = static.Executor()

        def run(rows: int) -> Any:
            feed = {"X": np.ones((rows, 1), np.float32)}
            return exe.run(program, feed=feed, fetch_list=["fc_0.w_0"], scope=model.scope)[0]
    else:
        pe = model.parallel(2)

        def run(rows: int) -> Any:
            return pe.run(["fc_0.w_0"], feed={"X": np.ones((rows, 1), np.float32)})[0]

    def steps(rows: int) -> list[Any]:
        return [steps_of(run(rows)) for _ in range(30)]

    results = together(*(lambda rows=rows: steps(rows) for rows in (2, 4, 8, 4)))
    assert all(mine == sorted(mine) for mine in results)
    assert sorted(k for mine in results for k in mine) == [[k, k] for k in range(1, 121)]


def test_the_first_runs_of_a_compiled_program_make_one_engine() -> None:
    model = counting()
    program = static.CompiledProgram(model.main).with_data_parallel(
        loss_name=model.loss.name, places=[wb.CPUPlace()] * 2
    )
    make = program._make_engine

    def slowly(*args: Any) -> Any:
        time.sleep(0.05)
        return make(*args)

    def run() -> None:
        static.Executor().run(program, feed=ONES, scope=model.scope)

    with mock.patch.object(program, "_make_engine", side_effect=slowly) as making:
        together(run, run, run)
    assert making.call_count == 1
    (weight,) = static.Executor().run(program, feed=ONES, fetch_list=["fc_0.w_0"], scope=model.scope)
    assert steps_of(weight) == [4, 4]


def test_temporaries_are_not_dropped_under_a_running_step(slow: Slow) -> None:
    """The memory would read as zero from one op to the next."""
    model = one_slow(slow).start()
    exe = model.parallel(1, exec_strategy=threads(1, keep_temporaries=True))
    (expected,) = exe.run(["fc_0.tmp_1"], feed=ONES)
    there, go_on = threading.Event(), threading.Event()

    def stay(place: int) -> None:
        there.set()
        go_on.wait(PATIENCE)

    slow.forward = stay

    def drop() -> None:
        assert there.wait(PATIENCE)
        dropping = threading.Thread(target=exe.drop_local_exe_scopes)
        dropping.start()
        dropping.join(0.2)
        go_on.set()
        dropping.join(PATIENCE)
        assert not dropping.is_alive()

    (fetched,), _ = together(lambda: exe.run(["fc_0.tmp_1"], feed=ONES), drop)
    np.testing.assert_allclose(fetched, expected - 0.2, rtol=1e-6)  # after one step of 0.1 for weight and bias each


def test_an_executor_that_shares_waits_for_steps_of_the_scope_it_reads() -> None:
    """X-5, X-25: whatever scope it is given, it works in the other one's."""
    model = line().start()
    train = model.parallel(2)
    train.run([], feed=ONES)
    sharing = model.parallel(
        2, program=model.test, share_vars_from=train, scope=static.Scope(), exec_strategy=threads(1, timeout=0.2)
    )
    sharing.run([], feed=ONES)
    inside, leave = threading.Event(), threading.Event()

    def keep() -> None:
        with model.scope.in_use():
            inside.set()
            leave.wait(PATIENCE)

    def run() -> None:
        inside.wait(PATIENCE)
        try:
            with pytest.raises(Unavailable, match="in use by another thread"):
                sharing.run([], feed=ONES)
        finally:
            leave.set()

    together(keep, run)
