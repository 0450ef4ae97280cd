"""ParallelExecutor: feeds, and inference graphs with some devices idle (rules X-10 … X-19, X-27, X-30 … X-32).

`tests/executors/feeding/test_split.py` has the rules of the splitter alone; here they are seen from outside.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier, column, devices, line
from workbench import events, static
from workbench.errors import (
    EnforceNotMet,
    InvalidArgument,
    InvalidForm,
    InvalidType,
    PreconditionNotMet,
)
from workbench.runtime.storage.tensor import LoDTensor

TABLE = [
    (3, 2, [2, 1]), (10, 2, [5, 5]), (10, 4, [3, 3, 3, 1]), (7, 4, [2, 2, 2, 1]), (8, 4, [2, 2, 2, 2]),
    (4, 4, [1, 1, 1, 1]), (5, 4, [2, 2, 1]), (6, 4, [2, 2, 2]), (9, 4, [3, 3, 3]), (3, 4, [1, 1, 1]), (1, 2, [1]),
]  # fmt: skip
FLOOR = [(3, 2, [1, 2]), (10, 4, [2, 2, 2, 4]), (5, 4, [1, 1, 1, 2]), (9, 4, [2, 2, 2, 3]), (8, 4, [2, 2, 2, 2])]


def rule(name: str) -> static.ExecutionStrategy:
    strategy = static.ExecutionStrategy()
    strategy.feed_split = name
    return strategy


def numbers(count: int) -> np.ndarray:
    return column(*range(count))


def rows_of(pe: Any, feed: Any) -> list[int]:
    """How many rows each device was fed, by what the executor tells."""
    told: list[Any] = []
    with events.subscribe(told.append, events.Feed):
        pe.run([], feed=feed)
    return list(told[-1].rows["X"])


def on_each(model: Model, count: int, names: list[Any], feed: Any, exec_strategy: Any = None) -> list[list[Any]]:
    """Fetched values, per name and device."""
    with devices(count):
        compiled = static.CompiledProgram(model.main).with_data_parallel(
            loss_name=model.loss.name, exec_strategy=exec_strategy
        )
        return static.Executor().run(compiled, feed, names, scope=model.scope, return_merged=False)


# Splitting a dict


@pytest.mark.parametrize(("rows", "count", "sizes"), TABLE)
def test_x_10_ceil_is_the_rule_of_the_real_engine(rows, count, sizes):
    """Design section 6: here it is chosen by feed_split = "ceil"; the default is X-11."""
    pe = line().start().parallel(count, exec_strategy=rule("ceil"))
    if len(sizes) == count:
        assert rows_of(pe, {"X": numbers(rows)}) == sizes
    else:
        with pytest.raises(EnforceNotMet, match=f"{rows} rows? makes? {len(sizes)} chunks?"):
            pe.run([], feed={"X": numbers(rows)})


@pytest.mark.parametrize(("rows", "count", "sizes"), FLOOR)
def test_x_11_floor_is_the_default(rows, count, sizes):
    model = line().start()
    assert static.ExecutionStrategy().feed_split == "floor"
    assert rows_of(model.parallel(count), {"X": numbers(rows)}) == sizes


def test_x_11_three_rows_on_two_devices():
    """The documented example: device 0 gets [0], device 1 [1, 2]."""
    (parts,) = on_each(line().start(), 2, ["X"], {"X": numbers(3)})
    assert [part.ravel().tolist() for part in parts] == [[0], [1, 2]]
    (parts,) = on_each(line().start(), 2, ["X"], {"X": numbers(3)}, rule("ceil"))
    assert [part.ravel().tolist() for part in parts] == [[0, 1], [2]]


@given(st.integers(1, 20), st.sampled_from([1, 2, 4]), st.sampled_from(["floor", "ceil"]))
@settings(max_examples=25, deadline=None)
def test_x_10_x_11_the_parts_are_the_batch_in_order(rows, count, split):
    with wb.framework.program.guard.static_mode():
        model = line()
        program = model.test
        model.start()
        pe = model.parallel(count, program=program, exec_strategy=rule(split))
        (x,) = pe.run(["X"], feed={"X": numbers(rows)})
    assert x.ravel().tolist() == list(range(rows))


@pytest.mark.parametrize(
    ("rows", "count", "split", "chunks"), [(1, 2, "floor", 1), (3, 4, "floor", 3), (9, 4, "ceil", 3)]
)
def test_x_12_too_few_chunks_names_everything(rows, count, split, chunks):
    pe = line().start().parallel(count, exec_strategy=rule(split))
    with pytest.raises(PreconditionNotMet) as caught:
        pe.run([], feed={"X": numbers(rows)})
    text = str(caught.value)
    for part in (f"{chunks} chunk", "'X'", f"{count} devices", "CPU", "CPU_NUM"):
        assert part in text


def test_x_13_an_empty_batch_gives_every_device_an_empty_tensor():
    model = line().start()
    loss, x = on_each(model, 2, [model.loss, "X"], {"X": numbers(0)})
    assert [part.shape for part in x] == [(0, 1), (0, 1)]
    assert np.isnan(loss).all() and np.shape(loss) == (2, 1)


def test_x_14_tensors_with_lod_are_refused():
    """Design section 6: LoD is not supported; the real engine splits by sequences."""
    tensor = LoDTensor(numbers(3))
    with pytest.raises(InvalidType, match="LoD"):
        tensor.set_lod([[0, 1, 3]])
    assert tensor.lod() == []
    assert rows_of(line().start().parallel(2), {"X": tensor}) == [1, 2]


def fixed_batch() -> Model:
    def body() -> Any:
        return wb.mean(static.nn.fc(static.data("X", [4, 1]), 1))

    return build(body, wb.optimizer.SGD(0.1)).start()


def test_x_15_a_declared_batch_is_that_of_each_device():
    assert rows_of(fixed_batch().parallel(2), {"X": numbers(8)}) == [4, 4]


@pytest.mark.parametrize("rows", [4, 7, 9])
def test_x_15_no_other_batch_will_do(rows):
    with pytest.raises(ValueError, match=r"wrong shape on each device\n  expected: \[4, 1\]"):
        fixed_batch().parallel(2).run([], feed={"X": numbers(rows)})


# A list: one dict per device


def test_x_16_element_i_goes_to_device_i_unsplit():
    (parts,) = on_each(line().start(), 2, ["X"], [{"X": numbers(5)}, {"X": numbers(2)}])
    assert [part.shape for part in parts] == [(5, 1), (2, 1)]


@pytest.mark.parametrize("given_", [1, 3])
def test_x_16_a_training_graph_takes_one_for_every_device(given_):
    with pytest.raises(InvalidForm, match=f"a list of {given_} non-empty dicts? for the 2 devices"):
        line().start().parallel(2).run([], feed=[{"X": numbers(2)}] * given_)


def test_x_16_empty_dicts_do_not_count():
    with pytest.raises(InvalidForm, match="1 non-empty dict for"):
        line().start().parallel(2).run([], feed=[{"X": numbers(2)}, {}])


def test_x_16_elements_are_dicts():
    with pytest.raises(TypeError, match="list of dicts"):
        line().start().parallel(2).run([], feed=[{"X": numbers(2)}, numbers(2)])


def test_x_17_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"feed 'x': the program has no such variable\. It takes 'X'"):
        line().start().parallel(2).run([], feed={"x": numbers(2)})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (numbers(2).astype("float64"), r"wrong dtype.*\n  expected: float32\n  got:      float64; .* \.astype"),
        (np.zeros((2, 3), np.float32), r"wrong shape on .*\n  expected: \[\?, 1\]\n  got:      \[[12], 3\]"),
        (np.zeros(2, np.float32), "wrong shape"),
    ],
)
def test_x_17_wrong_dtypes_and_shapes_are_value_errors(value, text):
    pe = line().start().parallel(2)
    for feed in ({"X": value}, [{"X": value}, {"X": value}]):
        with pytest.raises(ValueError, match=text):
            pe.run([], feed=feed)


@pytest.mark.parametrize("feed", [None, {}, []])
def test_x_18_nothing_of_the_last_step_is_fed_again(feed):
    """Design section 6: a missing feed is an error naming it; the real engine uses what was fed last (trap 24)."""
    model = line().start()
    pe = model.parallel(2)
    pe.run([], feed={"X": numbers(2)})
    before = model.value("fc_0.w_0")
    with pytest.raises(InvalidArgument, match="feed 'X' is missing"):
        pe.run([], feed=feed)
    with pytest.raises(InvalidArgument, match="feed 'X' is missing"):
        pe.run([], feed_dict={"X": numbers(2)})
    np.testing.assert_array_equal(model.value("fc_0.w_0"), before)


def test_x_18_what_is_no_feed_is_a_type_error():
    pe = line().start().parallel(2)
    for feed in ("X", 3, numbers(2)):
        with pytest.raises(TypeError, match="feed takes a dict"):
            pe.run([], feed=feed)


def test_one_of_two_feeds_missing_is_named():
    with pytest.raises(InvalidArgument, match="feed 'y' is missing"):
        classifier().start().parallel(2).run([], feed={"x": batch()["x"]})


def test_batches_that_do_not_match_are_named():
    model = classifier().start()
    with pytest.raises(InvalidArgument):
        model.parallel(2).run([], feed={"x": batch(8)["x"], "y": batch(6)["y"]})


# Persistable variables


RATE = "learning_rate_0"


def test_x_19_one_row_goes_to_every_device_and_stays():
    model = line().start()
    pe = model.parallel(2)
    (first,) = pe.run([RATE], feed={"X": numbers(2), RATE: np.array([0.5], np.float32)})
    (later,) = pe.run([RATE], feed={"X": numbers(2)})
    assert first.tolist() == later.tolist() == [0.5, 0.5]
    assert model.value(RATE).tolist() == [0.5]


def test_x_19_a_row_for_each_device_stays_too():
    model = line().start()
    pe = model.parallel(2)
    w = model.value("fc_0.w_0")
    pe.run([], feed={"X": column(2, 2), RATE: np.array([1, 2], np.float32)})
    (rates, after) = pe.run([RATE, "fc_0.w_0"], feed={"X": column(0, 0)})
    assert rates.tolist() == [1, 2]
    np.testing.assert_allclose(after.ravel(), [w[0, 0] - 2, w[0, 0] - 4])  # the gradient of mean(2 w) is 2


def test_x_19_other_numbers_of_chunks_are_an_error():
    model = line().start()
    with pytest.raises(PreconditionNotMet, match=r"learning_rate_0.*3 chunks for the 4 devices"):
        model.parallel(4).run([], feed={"X": numbers(4), RATE: np.array([1, 2, 3], np.float32)})
    assert model.value(RATE).tolist() == [np.float32(0.1)]


def test_x_19_a_list_gives_each_device_its_own():
    pe = line().start().parallel(2)
    elements = [{"X": numbers(1), RATE: np.array([r], np.float32)} for r in (3, 4)]
    pe.run([], feed=elements)
    assert pe.run([RATE], feed={"X": numbers(2)})[0].tolist() == [3, 4]


def test_x_19_of_a_step_that_failed_nothing_stays():
    """The step applies whole or not at all."""
    model = classifier().start()
    pe = model.parallel(2)
    bad = batch() | {RATE: np.array([9], np.float32)}
    bad["y"] = bad["y"] + 100
    with pytest.raises(Exception, match="label"):
        pe.run([], feed=bad)
    assert pe.run([RATE], feed=batch())[0].tolist() == [np.float32(0.1)] * 2


# Memory


@pytest.mark.parametrize("form", ["dict", "list"])
def test_x_27_fed_arrays_are_neither_kept_nor_written(form):
    """Neither form shares memory with the user's array after the step; the real engine's list feeds do."""
    model = line().start()
    pe = model.parallel(2)
    x = numbers(4)
    x.setflags(write=False)
    feed = {"X": x} if form == "dict" else [{"X": x[:2]}, {"X": x[2:]}]
    (fetched,) = pe.run(["X"], feed=feed)
    x.setflags(write=True)
    x += 100
    np.testing.assert_array_equal(fetched, numbers(4))


@given(st.integers(0, 3))
@settings(max_examples=4, deadline=None)
def test_x_27_dict_and_list_give_the_same_bits(seed):
    results = []
    for form in ("dict", "list"):
        with wb.framework.program.guard.static_mode():
            model = classifier(wb.optimizer.Adam(0.01)).start()
            pe = model.parallel(2)
            feed = batch(7, seed)
            parts = [{n: a[:3] for n, a in feed.items()}, {n: a[3:] for n, a in feed.items()}]
            loss = pe.run([model.loss], feed=feed if form == "dict" else parts)
        results.append((loss, model.values()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for name, value in results[0][1].items():
        np.testing.assert_array_equal(value, results[1][1][name], err_msg=name)


def test_arrays_that_are_not_contiguous_are_fed_by_value():
    model = classifier().start()
    pe = model.parallel(2, program=model.test)
    feed = batch(8)
    turned = {"x": np.asfortranarray(feed["x"]), "y": np.repeat(feed["y"], 2, axis=0)[::2]}
    np.testing.assert_array_equal(pe.run([model.loss], feed=feed)[0], pe.run([model.loss], feed=turned)[0])


# Inference graphs


@pytest.mark.parametrize(
    ("rows", "count", "split", "values"),
    [(1, 2, "floor", 1), (3, 4, "floor", 3), (9, 4, "ceil", 3), (9, 4, "floor", 4)],
)
def test_x_31_with_fewer_chunks_the_first_devices_run(rows, count, split, values):
    model = line().start()
    pe = model.parallel(count, program=model.test, exec_strategy=rule(split))
    (losses,) = pe.run([model.loss], feed={"X": numbers(rows)})
    assert losses.shape == (values,)
    (x,) = pe.run(["X"], feed={"X": numbers(rows)})
    assert x.ravel().tolist() == list(range(rows))


def test_x_31_a_list_may_be_shorter_and_never_longer():
    model = line().start()
    pe = model.parallel(4, program=model.test)
    (losses,) = pe.run([model.loss], feed=[{"X": column(3)}, {"X": column(5)}])
    assert losses.tolist() == [3, 5]
    with pytest.raises(InvalidForm, match="5 non-empty dicts for the 4 devices"):
        pe.run([model.loss], feed=[{"X": column(1)}] * 5)


def test_x_31_batches_that_come_and_go():
    model = line().start()
    pe = model.parallel(4, program=model.test)
    for rows in (8, 1, 2, 8, 3, 0, 5):
        (x,) = pe.run(["fc_0.tmp_1"], feed={"X": numbers(rows)})
        np.testing.assert_array_equal(x, numbers(rows))


@pytest.mark.parametrize("split", ["floor", "ceil"])
def test_x_32_training_graphs_never_do(split):
    pe = line().start().parallel(4, exec_strategy=rule(split))
    with pytest.raises(EnforceNotMet, match="a training graph needs a chunk for every device"):
        pe.run([], feed={"X": numbers(3)})
    with pytest.raises(InvalidForm, match="one for every device"):
        pe.run([], feed=[{"X": numbers(3)}])


def normalised() -> Model:
    def body() -> Any:
        return wb.mean(static.nn.batch_norm(static.data("X", [None, 1])))

    return build(body).start()


def test_x_30_devices_that_do_not_depend_on_each_other_may_be_idle():
    """A forward without a backward is such a graph even if it updates statistics: each device has its own."""
    model = normalised()
    (losses,) = model.parallel(2, program=model.main).run([model.loss], feed={"X": column(3)})
    assert losses.shape == (1,)


def test_x_30_sync_batch_norm_makes_them_depend():
    model, strategy = normalised(), static.BuildStrategy()
    strategy.sync_batch_norm = True
    pe = model.parallel(2, program=model.main, build_strategy=strategy)
    with pytest.raises(PreconditionNotMet, match="needs a chunk for every device"):
        pe.run([model.loss], feed={"X": column(3)})


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_x_30_any_number_of_threads_serves_all_devices(threads):
    """The real engine gives each device num_threads // N threads of its own; here they are shared."""
    model, strategy = line().start(), static.ExecutionStrategy()
    strategy.num_threads = threads
    pe = model.parallel(4, program=model.test, exec_strategy=strategy)
    assert pe.run([model.loss], feed={"X": column(1, 2, 3, 4)})[0].tolist() == [1, 2, 3, 4]


def test_e_6_a_plain_executor_takes_one_dict():
    model = line().start()
    with pytest.raises(InvalidForm, match="one device"):
        static.Executor().run(model.main, feed=[{"X": numbers(1)}] * 2, scope=model.scope)
