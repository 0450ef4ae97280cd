"""ParallelExecutor: what loops leave behind, and errors of operators (rules X-53, X-54, X-60, X-61; NaN finder)."""

import gc
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier, column, line
from workbench import events, static
from workbench.errors import EnforceNotMet, ExecutionError, InvalidArgument, PreconditionNotMet


def state(pe: Any, model: Model, count: int = 2) -> dict[tuple[str, int], np.ndarray]:
    """Every persistable value of every device."""
    names = [v.name for v in model.main.persistables()]
    return {(n, i): np.array(pe.local_scope(i).find_var(n).get_tensor()) for n in names for i in range(count)}


def same(a: dict[Any, np.ndarray], b: dict[Any, np.ndarray]) -> None:
    for key, value in a.items():
        np.testing.assert_array_equal(value, b[key], err_msg=str(key))


# Loops


def loop() -> Model:
    """loss = mean((x * tanh-chain of length n) * w): n is fed, so devices may go round differently often."""

    def body() -> Any:
        x, n = static.data("X", [None, 1]), static.data("n", [None, 1], "int64")
        h = static.nn.fc(x, 1)
        rounds = wb.max(n)
        i = wb.zeros([1], "int64")
        _, out = static.nn.while_loop(lambda i, h: i < rounds, lambda i, h: [i + 1, wb.tanh(h)], [i, h])
        return wb.mean(out)

    return build(body, wb.optimizer.SGD(0.1)).start()


def rounds(*numbers: int) -> dict[str, np.ndarray]:
    return {"X": column(*([0.5] * len(numbers))), "n": np.array(numbers, np.int64).reshape(-1, 1)}


def test_loops_may_go_round_differently_on_each_device():
    model = loop()
    w = model.value("fc_0.w_0")[0, 0]
    (loss,) = model.parallel(2).run([model.loss], feed=rounds(1, 3))
    np.testing.assert_allclose(loss, [np.tanh(0.5 * w), np.tanh(np.tanh(np.tanh(0.5 * w)))], rtol=1e-6)


@pytest.mark.parametrize(("interval", "drops"), [(0, 0), (1, 6), (100, 0)])
def test_x_53_a_loop_changes_nothing_about_when_temporaries_are_dropped(interval, drops):
    """The real engine also drops after each run that leaves a tensor array; what loops keep here ends with the step."""
    model, strategy = loop(), static.ExecutionStrategy()
    strategy.num_iteration_per_drop_scope = interval
    pe, told = model.parallel(2, exec_strategy=strategy), []
    with events.subscribe(told.append, events.ScopeDrop):
        for k in range(6):
            pe.run([model.loss], feed=rounds(k % 3 + 1, 2))
    assert len(told) == drops


def test_x_53_drops_do_not_change_what_loops_compute():
    results = []
    for interval in (1, 0):
        model, strategy = loop(), static.ExecutionStrategy()
        strategy.num_iteration_per_drop_scope = interval
        pe = model.parallel(2, exec_strategy=strategy)
        results.append([pe.run([model.loss], feed=rounds(k % 3 + 1, 2))[0] for k in range(6)])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("fetch", [True, False])
def test_x_54_bodies_of_earlier_steps_keep_no_memory(fetch):
    """Whether something is fetched does not matter here."""
    model = loop()
    pe = model.parallel(2)
    feed = {"X": np.ones((1 << 14, 1), np.float32), "n": np.full((1 << 14, 1), 5)}  # 10 tanh of 32 KiB each a step
    fetches = [model.loss] if fetch else []
    for _ in range(3):
        pe.run(fetches, feed=feed)
    gc.collect()
    tracemalloc.start()
    try:
        pe.run(fetches, feed=feed)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            pe.run(fetches, feed=feed)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


# Operators that fail


def looked_up() -> Model:
    """A table of five rows, trained with momentum; ids out of range fail."""

    def body() -> Any:
        ids = static.data("ids", [None, 1], "int64")
        return wb.mean(static.nn.fc(static.nn.embedding(ids, [5, 3]), 1, num_flatten_dims=2))

    return build(body, wb.optimizer.Momentum(0.1, 0.9)).start()


def ids(*numbers: int) -> dict[str, np.ndarray]:
    return {"ids": np.array(numbers, np.int64).reshape(-1, 1)}


def test_x_60_the_error_names_op_device_and_line():
    pe = looked_up().parallel(2)
    with pytest.raises(EnforceNotMet) as caught:
        pe.run([], feed=ids(0, 1, 2, 77))
    text = str(caught.value)
    assert "'lookup_table_v2'" in text and "cpu:1" in text and "77" in text
    assert "test_rules_errors.py" in text  # where the op was built


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_x_60_successors_do_not_run(threads):
    """What a failing op would have fed is never computed, on any device; nothing is fetched."""
    model, strategy = looked_up(), static.ExecutionStrategy()
    strategy.num_threads = threads
    pe = model.parallel(2, exec_strategy=strategy)
    pe.run([], feed=ids(0, 1, 2, 3))
    told: list[Any] = []
    listening = events.subscribe(told.append, events.OpRun, events.Step, events.Error)
    with listening, pytest.raises(InvalidArgument, match="77"):
        pe.run([model.loss], feed=ids(0, 1, 2, 77))
    assert [type(event) for event in told] == [events.Error]
    assert told[0].op == "lookup_table_v2"


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_x_60_when_all_devices_fail_one_error_leaves(threads):
    model, strategy = looked_up(), static.ExecutionStrategy()
    strategy.num_threads = threads
    pe = model.parallel(4, exec_strategy=strategy)
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(InvalidArgument, match=r"op 'lookup_table_v2' failed on cpu:\d: .*99"):
            pe.run([], feed=ids(99, 99, 99, 99))
    assert threading.active_count() <= before + threads  # no thread is left behind each time
    assert pe.run([model.loss], feed=ids(0, 1, 2, 3))[0].shape == (4,)


def test_x_60_errors_inside_a_loop_name_the_loops_device():
    def body() -> Any:
        x = static.data("ids", [None, 1], "int64")
        table = static.create_parameter([5, 2], "float32")
        i = wb.zeros([1], "int64")
        start = wb.zeros([1], "float32")

        def turn(i: Any, total: Any) -> list[Any]:
            return [i + 1, total + wb.mean(wb.nn.functional.embedding(x, table))]

        _, total = static.nn.while_loop(lambda i, total: i < 2, turn, [i, start])
        return wb.mean(total)

    model = build(body).start()
    pe = model.parallel(2, program=model.main)
    with pytest.raises(EnforceNotMet, match="inside op 'while' on cpu:1, at") as caught:
        pe.run([model.loss], feed=ids(0, 77))
    assert "77" in str(caught.value) and "test_rules_errors.py" in str(caught.value)
    assert pe.run([model.loss], feed=ids(0, 1))[0].shape == (2,)


@pytest.mark.parametrize("mode", ["AllReduce", "Reduce"])
@pytest.mark.parametrize("optimizer", [wb.optimizer.Momentum(0.1, 0.9), wb.optimizer.Adam(0.1)])
def test_x_61_a_failed_step_leaves_everything_as_it_was(mode, optimizer):
    """In the real engine parameters may be partly updated; here a step applies whole or not at all."""
    runs = []
    for fails in (False, True):
        model, strategy = classifier(type(optimizer)(0.1)).start(), static.BuildStrategy()
        strategy.reduce_strategy = getattr(static.BuildStrategy.ReduceStrategy, mode)
        pe = model.parallel(2, build_strategy=strategy)
        pe.run([], feed=batch(8, 1))
        if fails:
            before, bad = state(pe, model), batch(8, 2)
            bad["y"][-1] = 55  # on the last device only
            with pytest.raises(EnforceNotMet, match="cpu:1"):
                pe.run([], feed=bad)
            same(before, state(pe, model))
        runs.append([pe.run([model.loss], feed=batch(8, k))[0] for k in (3, 4)])
    np.testing.assert_array_equal(*runs)


def test_x_61_random_numbers_go_on_as_if_nothing_had_failed():
    def with_dropout(h: Any) -> Any:
        return wb.nn.functional.dropout(h, 0.5)

    results = []
    for fails in (False, True):
        model = classifier(extra=with_dropout).start()
        pe = model.parallel(2)
        pe.run([], feed=batch())
        if fails:
            with pytest.raises(EnforceNotMet):
                pe.run([], feed=batch() | {"y": np.full((8, 1), 9)})
        results.append(pe.run([model.loss], feed=batch())[0])
    np.testing.assert_array_equal(*results)


def test_x_61_missing_parameters_are_an_error_of_the_run_and_can_be_given_later():
    model = line()
    pe = model.parallel(2)
    with pytest.raises(PreconditionNotMet, match="startup program"):
        pe.run([], feed={"X": column(1, 2)})
    model.start()
    assert pe.run([model.loss], feed={"X": column(1, 2)})[0].tolist() == [1, 2]


# NaN finder


@pytest.fixture
def checks_nan():
    wb.set_flags({"FLAGS_check_nan_inf": True})
    yield
    wb.set_flags({"FLAGS_check_nan_inf": False})


def square_root() -> Model:
    def body() -> Any:
        return wb.mean(wb.sqrt(static.nn.fc(static.data("X", [None, 1]), 1, weight_attr=ones(), bias_attr=False)))

    def ones() -> Any:
        return wb.ParamAttr(initializer=wb.nn.initializer.Constant(1.0))

    return build(body, wb.optimizer.SGD(0.1)).start()


@pytest.mark.usefixtures("checks_nan")
def test_nan_is_found_where_it_is_made():
    model = square_root()
    pe = model.parallel(2)
    pe.run([], feed={"X": column(1, 1)})
    before = state(pe, model)
    with pytest.raises(ExecutionError) as caught:
        pe.run([], feed={"X": column(1, -1)})
    text = str(caught.value)
    assert "op 'sqrt' made 1 NaN and 0 Inf among the 1 elements of" in text and "cpu:1" in text
    assert "FLAGS_check_nan_inf" in text and "test_rules_errors.py" in text
    same(before, state(pe, model))
    assert np.isfinite(pe.run([model.loss], feed={"X": column(1, 1)})[0]).all()


@pytest.mark.usefixtures("checks_nan")
def test_infinity_is_found_too():
    with pytest.raises(ExecutionError, match=r"op 'sqrt_grad' made 0 NaN and 1 Inf.*cpu:0"):
        square_root().parallel(2).run([], feed={"X": column(0, 1)})


def test_nan_passes_without_the_flag():
    model = square_root()
    (loss,) = model.parallel(2).run([model.loss], feed={"X": column(1, -1)})
    assert loss[0] == 1 and np.isnan(loss[1])
    assert np.isnan(model.value("fc_0.w_0")).all()
