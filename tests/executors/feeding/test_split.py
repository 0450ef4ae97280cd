"""What each device is fed: rules X-10 … X-19, X-31, X-32 and B-11, at the function the engine calls."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import EnforceNotMet, InvalidForm, PreconditionNotMet
from workbench.executors.feeding import split
from workbench.executors.feeding.feed import Feed
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.feeding.split import Splitter, split_sizes
from workbench.framework.notice import Notice
from workbench.framework.program.program import Program
from workbench.runtime.storage.tensor import LoDTensor

CEIL = [
    (3, 2, [2, 1]),
    (10, 2, [5, 5]),
    (10, 4, [3, 3, 3, 1]),
    (7, 4, [2, 2, 2, 1]),
    (8, 4, [2, 2, 2, 2]),
    (4, 4, [1, 1, 1, 1]),
    (5, 4, [2, 2, 1]),
    (6, 4, [2, 2, 2]),
    (9, 4, [3, 3, 3]),
    (3, 4, [1, 1, 1]),
    (1, 2, [1]),
]
FLOOR = [
    (3, 2, [1, 2]),
    (10, 4, [2, 2, 2, 4]),
    (5, 4, [1, 1, 1, 2]),
    (9, 4, [2, 2, 2, 3]),
    (3, 4, [1, 1, 1]),
    (1, 2, [1]),
]
RULES = st.sampled_from(["floor", "ceil"])
SIZES = st.integers(0, 200)
DEVICES = st.integers(1, 17)


def feed_devices(
    program: Program,
    feed: Feed,
    devices: int,
    rule: str = "floor",
    partial: bool = False,
    reads: Collection[str] = (),
    gpu: bool = False,
) -> Fed:
    """The feed of a single step."""
    places = [wb.CUDAPlace(i) for i in range(devices)] if gpu else [wb.CPUPlace(i) for i in range(devices)]
    return Splitter(program, places, rule, partial, reads).split(feed)


@pytest.fixture(scope="module")
def program() -> Program:
    """Data of several kinds, and persistable variables to feed."""
    with Built() as p:
        static.data("x", [None, 3], "float32")
        static.data("y", [None, 1], "int64")
        static.data("fixed", [4, 1], "float32")
        static.data("rate", [1], "float32")
        static.data("scalar", [], "float32")
        block = p.main.global_block()
        block.create_var("lr", [1], "float32", persistable=True)
        block.create_var("w", [4, 2], "float32", persistable=True)
        block.create_var("number", [], "float32", persistable=True)
        block.create_var("loss@GRAD", [1], "float32")
        block.create_var("unchecked", [-1, 3], "float32", is_data=True)
    return p.main


def numbered(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def pieces(fed: Fed, name: str) -> list[list[Any]]:
    return [device[name].tolist() for device in fed.per_device]


# Sizes


@pytest.mark.parametrize(("batch", "devices", "sizes"), CEIL)
def test_x10_sizes_by_the_rule_ceil(batch: int, devices: int, sizes: list[int]) -> None:
    assert split_sizes(batch, devices, "ceil") == sizes


@pytest.mark.parametrize(("batch", "devices", "sizes"), FLOOR)
def test_x11_sizes_by_the_rule_floor(batch: int, devices: int, sizes: list[int]) -> None:
    assert split_sizes(batch, devices, "floor") == sizes
    assert split_sizes(batch, devices) == sizes


@given(SIZES, DEVICES, RULES)
def test_sizes_use_every_row_once(batch: int, devices: int, rule: str) -> None:
    sizes = split_sizes(batch, devices, rule)
    assert sum(sizes) == batch
    assert len(sizes) <= devices
    assert min(sizes) > 0 or sizes == [0] * devices


@given(SIZES, DEVICES)
def test_x11_by_its_words(batch: int, devices: int) -> None:
    """`step = floor(B / min(B, N))`; devices 0 … N-2 get `step` rows, the last `step + B mod N`."""
    assume(batch >= devices)
    step = batch // min(batch, devices)
    assert split_sizes(batch, devices, "floor") == [step] * (devices - 1) + [step + batch % devices]


@given(SIZES, DEVICES)
def test_x10_by_its_words(batch: int, devices: int) -> None:
    """Chunk i is rows `[i * step, min((i + 1) * step, B))`; their number is `ceil(B / step)`."""
    assume(batch > 0)
    step = int(np.ceil(batch / devices))
    rows = [min((i + 1) * step, batch) - i * step for i in range(int(np.ceil(batch / step)))]
    assert split_sizes(batch, devices, "ceil") == rows


@pytest.mark.parametrize(
    ("batch", "devices", "rule", "text"),
    [
        (4, 2, "round", r"feed_split takes 'ceil', 'floor', got 'round'"),
        (4, 0, "floor", "a batch of 4 rows cannot be split over 0 devices"),
        (-1, 2, "ceil", "a batch of -1 rows cannot be split over 2 devices"),
    ],
)
def test_sizes_of_nonsense(batch: int, devices: int, rule: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        split_sizes(batch, devices, rule)


def test_a_splitter_refuses_an_unknown_rule_at_once(program: Program) -> None:
    with pytest.raises(ValueError, match="feed_split takes"):
        Splitter(program, static.cpu_places(2), "round")


# A dict


def test_trap_2_each_device_gets_its_rows(program: Program) -> None:
    fed = feed_devices(program, {"x": numbered(3, 3), "y": numbered(3, 1, dtype="int64")}, 2)
    assert pieces(fed, "y") == [[[0]], [[1], [2]]]
    assert pieces(fed, "x") == [numbered(3, 3)[:1].tolist(), numbered(3, 3)[1:].tolist()]
    assert fed.rows == {"x": (1, 2), "y": (1, 2)}
    assert (fed.active, list(fed.persistable)) == (2, [{}, {}])
    assert pieces(feed_devices(program, {"y": numbered(3, 1, dtype="int64")}, 2, "ceil"), "y") == [[[0], [1]], [[2]]]


@given(SIZES, DEVICES, RULES)
def test_the_pieces_are_the_batch(program: Program, batch: int, devices: int, rule: str) -> None:
    x = numbered(batch, 3)
    fed = feed_devices(program, {"x": x}, devices, rule, partial=True)
    assert np.array_equal(np.concatenate([d["x"] for d in fed.per_device]), x)
    assert [len(d["x"]) for d in fed.per_device] == split_sizes(batch, devices, rule) == list(fed.rows["x"])
    assert fed.active == len(fed.per_device)


@given(st.integers(1, 200), DEVICES, RULES)
def test_x12_x32_a_training_graph_refuses_idle_devices(program: Program, batch: int, devices: int, rule: str) -> None:
    """With `floor` for B < N only, with `ceil` for more batches (trap 3)."""
    chunks = -(-batch // -(-batch // devices)) if rule == "ceil" else min(batch, devices)
    feed = {"x": numbered(batch, 3)}
    if chunks == devices:
        assert feed_devices(program, feed, devices, rule).active == devices
        return
    with pytest.raises(
        PreconditionNotMet, match=rf"makes {chunks} chunks?, which is less than the {devices} "
    ) as error:
        feed_devices(program, feed, devices, rule)
    advice = re.search(r"CPU_NUM=(\d+)", str(error.value))
    assert advice, "the message names a number of devices"
    assert feed_devices(program, feed, int(advice[1]), rule).active == int(advice[1]), "which works"


def test_x12_the_whole_message(program: Program) -> None:
    with pytest.raises(EnforceNotMet) as error:
        feed_devices(program, {"x": numbered(9, 3)}, 4, "ceil")
    assert str(error.value).split("\n  declared at")[0] == (
        "feed 'x': the batch of 9 rows makes 3 chunks, which is less than the 4 devices (CPU); "
        "a training graph needs a chunk for every device\n"
        '  set ExecutionStrategy.feed_split = "floor", which leaves no device without rows, or\n'
        "  use fewer devices: set the environment variable CPU_NUM=3, or pass cpu_places(3) as places"
    )


def test_x12_of_gpus(program: Program) -> None:
    with pytest.raises(
        EnforceNotMet, match=r"(?s)1 row makes 1 chunk, .* 2 devices \(GPU\).*feed at least 2 rows"
    ) as e:
        feed_devices(program, {"x": numbered(1, 3)}, 2, gpu=True)
    assert "CUDA_VISIBLE_DEVICES" in str(e.value)
    assert "CPU_NUM" not in str(e.value)


@pytest.mark.parametrize(("name", "value"), [("rate", numbered(1)), ("scalar", numbered()), ("rate", 0.5)])
def test_a_value_without_a_batch_goes_to_several_devices_as_a_list(program: Program, name: str, value: Any) -> None:
    with pytest.raises(PreconditionNotMet, match="same for every device, feed a list of dicts, one per device"):
        feed_devices(program, {name: value}, 2)
    fed = feed_devices(program, [{name: value}] * 2, 2)
    assert [d[name].shape for d in fed.per_device] == [np.shape(value) or fed.per_device[0][name].shape] * 2
    assert fed.rows == {name: (1, 1)}
    (one,) = feed_devices(program, {name: value}, 1).per_device
    assert one[name] == value


@pytest.mark.parametrize("rule", ["floor", "ceil"])
@pytest.mark.parametrize("partial", [False, True])
def test_x13_an_empty_batch_feeds_every_device_an_empty_array(program: Program, rule: str, partial: bool) -> None:
    fed = feed_devices(program, {"x": np.empty((0, 3), np.float32)}, 3, rule, partial)
    assert [d["x"].shape for d in fed.per_device] == [(0, 3)] * 3
    assert fed.rows == {"x": (0, 0, 0)}


@pytest.mark.parametrize("rule", ["floor", "ceil"])
def test_x15_a_declared_batch_is_that_of_one_device(program: Program, rule: str) -> None:
    fed = feed_devices(program, {"fixed": numbered(8, 1)}, 2, rule)
    assert [d["fixed"].shape for d in fed.per_device] == [(4, 1)] * 2
    for rows, sizes in (4, "2, 2"), (7, "3, 4" if rule == "floor" else "4, 3"):
        with pytest.raises(ValueError, match=r"'fixed' has the wrong shape on each device") as error:
            feed_devices(program, {"fixed": numbered(rows, 1)}, 2, rule)
        assert f"expected: [4, 1]\n  got:      [{2 if rows == 4 else 3}, 1], after {rows} rows" in str(error.value)
        assert f"were split into {sizes}" in str(error.value)


@pytest.mark.parametrize(
    ("feed", "text"),
    [
        ({"fixd": numbered(4, 1)}, r"feed 'fixd': the program has no such variable\. Did you mean 'fixed'\?"),
        (
            {"x": numbered(4, 3, dtype="float64")},
            r"(?s)'x' has the wrong dtype on each device.*\.astype\(\"float32\"\)",
        ),
        ({"x": numbered(4, 2)}, r"(?s)'x' has the wrong shape on each device.*\[\?, 3\].*\[2, 2\], after 4 rows"),
        ({"x": numbered(4)}, r"(?s)'x' has the wrong shape on each device.*\[\?, 3\].*got:      \[2\]"),
        ({"x": numbered()}, r"(?s)'x' has the wrong shape.*got:      \[\]"),
        (
            [{"x": numbered(4, 3)}, {"x": numbered(4, 2)}],
            r"(?s)'x' has the wrong shape on cpu:1.*got:      \[4, 2\]",
        ),
        ([{"y": numbered(4, 1)}] * 2, r"'y' has the wrong dtype on cpu:0"),
        ([{"nope": numbered(4, 1)}] * 2, r"feed 'nope': the program has no such variable"),
        ({"x": [[1.0, 2.0], [3.0]]}, "the nested lists are ragged"),
    ],
)
def test_x17_what_does_not_suit_the_program(program: Program, feed: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        feed_devices(program, feed, 2)


def test_data_declared_without_checks_takes_anything(program: Program) -> None:
    fed = feed_devices(program, {"unchecked": numbered(4, 2, dtype="float64")}, 2)
    assert fed.per_device[1]["unchecked"].tolist() == [[4, 5], [6, 7]]


@pytest.mark.parametrize(
    "value",
    [[[0, 1, 2], [3, 4, 5]], LoDTensor(numbered(2, 3)), numbered(2, 3), np.asfortranarray(numbered(2, 3))],
    ids=["lists", "tensor", "array", "fortran"],
)
def test_what_counts_as_an_array(program: Program, value: Any) -> None:
    assert pieces(feed_devices(program, {"x": value}, 2), "x") == [[[0, 1, 2]], [[3, 4, 5]]]
    by_variable = {program.global_block().var("x"): value}
    assert pieces(feed_devices(program, by_variable, 2), "x") == [[[0, 1, 2]], [[3, 4, 5]]]


def test_pieces_are_views_of_the_users_array(program: Program) -> None:
    x = numbered(4, 3)
    for feed in {"x": x}, [{"x": x}, {"x": x}]:
        assert all(np.shares_memory(d["x"], x) for d in feed_devices(program, feed, 2).per_device)


def test_two_batches_of_different_sizes_each_split_by_the_rule(program: Program) -> None:
    with pytest.warns(Notice, match=r"'x' is split into \[2, 3\] rows and 'y' into \[1, 1\]: rows that belong"):
        fed = feed_devices(program, {"x": numbered(5, 3), "y": numbered(2, 1, dtype="int64")}, 2)
    assert fed.rows == {"x": (2, 3), "y": (1, 1)}
    fed = feed_devices(program, {"x": numbered(4, 3), "y": numbered(12, 1, dtype="int64")}, 2)
    assert fed.rows == {"x": (2, 2), "y": (6, 6)}, "each device has the rows of y that belong to its rows of x"


def test_a_row_per_device_that_is_broadcast_is_told_where_one_device_would_refuse_the_batch() -> None:
    with Built() as apart:
        _ = static.data("x", [None, 3]) - static.data("y", [None, 3])
    with Built() as grouped:
        rows = wb.reshape(static.data("x", [None, 3]), [-1, 3, 3])
        _ = rows - wb.reshape(static.data("y", [None, 3]), [-1, 1, 3])
    with Built() as refused:
        _ = wb.reshape(static.data("x", [None, 3]), [2, 3]) - static.data("y", [None, 3])
    six, two = numbered(6, 3), numbered(2, 3)
    with pytest.warns(Notice, match="'x' has 6 rows and 'y' 2, one per device, which is broadcast there: one device"):
        feed_devices(apart.main, {"x": six, "y": two}, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        feed_devices(grouped.main, {"x": six, "y": two}, 2)
        feed_devices(apart.main, {"x": two, "y": two}, 2)
        feed_devices(refused.main, {"x": six, "y": two}, 2)  # no device takes its rows, and the step says so


def test_numbers_of_chunks_have_to_agree(program: Program) -> None:
    """In an inference graph, x would run on three devices and y on two."""
    feed = {"x": numbered(9, 3), "y": numbered(2, 1, dtype="int64")}
    with pytest.raises(ValueError, match=r"'y' \(2 rows\) into 2, 'x' \(9 rows\) into 3; feed batches of one size"):
        feed_devices(program, feed, 4, "ceil", partial=True)


# A list


def test_x16_element_i_is_for_device_i_unsplit(program: Program) -> None:
    feed = [{"x": numbered(5, 3)}, {"x": numbered(1, 3) + 7}]
    for form in feed, tuple(feed):
        fed = feed_devices(program, form, 2)
        assert pieces(fed, "x") == [feed[0]["x"].tolist(), feed[1]["x"].tolist()]
        assert fed.rows == {"x": (5, 1)}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, r"list of 1 non-empty dict for the 2 devices \(CPU\)\n  expected: one for every device, none empty"),
        (3, "list of 3 non-empty dicts for the 2 devices"),
    ],
)
def test_x16_a_training_graph_takes_one_dict_per_device(program: Program, count: int, text: str) -> None:
    with pytest.raises(InvalidForm, match=text):
        feed_devices(program, [{"x": numbered(2, 3)}] * count, 2)


def test_x16_empty_dicts_do_not_count(program: Program) -> None:
    one = {"x": numbered(2, 3)}
    with pytest.raises(InvalidForm, match="list of 1 non-empty dict for"):
        feed_devices(program, [one, {}], 2)
    with pytest.raises(InvalidForm, match="list of 1 non-empty dict with empty ones between them for"):
        feed_devices(program, [{}, one], 2)
    with pytest.raises(InvalidForm, match="with empty ones between them"):
        feed_devices(program, [{}, one], 2, partial=True)
    splitter = Splitter(program, static.cpu_places(2), partial=True)
    assert [splitter.split([one, {}]).active for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("feed", ["x", 3, np.ones(3), [np.ones(3)] * 2, [{"x": 1.0}, None], {3: np.ones(3)}])
def test_x16_x18_other_forms_are_refused(program: Program, feed: Any) -> None:
    with pytest.raises(TypeError, match="feed takes"):
        feed_devices(program, feed, 2)


def test_every_device_is_fed_the_same_names(program: Program) -> None:
    both = {"x": numbered(2, 3), "rate": numbered(1)}
    with pytest.raises(ValueError, match="'rate' is given for cpu:0 and not for cpu:1"):
        feed_devices(program, [both, {"x": numbered(2, 3)}], 2)
    with pytest.raises(ValueError, match="'rate' is given for cpu:1 and not for cpu:0"):
        feed_devices(program, [{"x": numbered(2, 3)}, both], 2)


# Nothing


@pytest.mark.parametrize("feed", [None, {}, [], [{}, {}]])
def test_x18_nothing_fed_is_an_error_naming_what_is_read(program: Program, feed: Any) -> None:
    splitter = Splitter(program, static.cpu_places(2), reads=["x"])
    splitter.split({"x": numbered(4, 3)})
    with pytest.raises(ValueError, match=r"feed 'x' is missing: float32\[\?, 3\]\n  declared at .*test_split\.py"):
        splitter.split(feed)
    fed = feed_devices(program, feed, 2)
    assert (fed.per_device, list(fed.persistable), fed.active, fed.rows) == ([{}, {}], [{}, {}], 2, {})


def test_one_of_two_feeds_is_missing(program: Program) -> None:
    splitter = Splitter(program, static.cpu_places(2), reads=["x", "y"])
    for feed in {"x": numbered(4, 3)}, [{"x": numbered(4, 3)}] * 2:
        with pytest.raises(ValueError, match="feed 'y' is missing"):
            splitter.split(feed)


def test_of_several_missing_feeds_always_the_same_is_named(program: Program) -> None:
    with pytest.raises(ValueError, match="feed 'x' is missing"):
        Splitter(program, static.cpu_places(2), reads=["y", "x"]).split({})


# Persistable variables


@pytest.mark.parametrize("partial", [False, True])
def test_x19a_one_row_goes_to_every_device(program: Program, partial: bool) -> None:
    feed = {"lr": numbered(1) + 5, "number": np.float32(2), "x": numbered(4, 3)}
    fed = feed_devices(program, feed, 4, partial=partial)
    assert [d["lr"].tolist() for d in fed.persistable] == [[5]] * 4
    assert [d["x"].shape for d in fed.per_device] == [(1, 3)] * 4
    assert all("lr" not in d for d in fed.per_device)
    assert fed.rows == {"x": (1, 1, 1, 1)}


def test_x19a_a_number_goes_to_every_device(program: Program) -> None:
    fed = feed_devices(program, {"number": np.array(2, np.float32), "lr": 0.5}, 3)
    assert [(d["number"].shape, d["number"].item(), d["lr"].tolist()) for d in fed.persistable] == [((), 2, [0.5])] * 3


def test_x19b_a_row_for_each_device(program: Program) -> None:
    fed = feed_devices(program, {"lr": np.array([1, 2], np.float32)}, 2)
    assert [d["lr"].tolist() for d in fed.persistable] == [[1], [2]]
    fed = feed_devices(program, {"w": numbered(8, 2)}, 2)
    assert [d["w"].tolist() for d in fed.persistable] == [numbered(8, 2)[:4].tolist(), numbered(8, 2)[4:].tolist()]


@pytest.mark.parametrize("partial", [False, True])
def test_x19c_other_numbers_of_chunks(program: Program, partial: bool) -> None:
    text = r"its 3 rows make 3 chunks for the 4 devices \(CPU\)\n  expected: 1 chunk for all, or 4, one each"
    with pytest.raises(PreconditionNotMet, match=text):
        feed_devices(program, {"lr": numbered(3)}, 4, partial=partial)


def test_x19_a_split_that_breaks_a_parameter_says_what_to_do(program: Program) -> None:
    with pytest.raises(
        ValueError, match=r"\[2, 2\], after 4 rows were split into 2, 2; it is split as data is: feed a "
    ):
        feed_devices(program, {"w": numbered(4, 2)}, 2)
    fed = feed_devices(program, [{"w": numbered(4, 2)}, {"w": numbered(4, 2) + 1}], 2)
    assert [d["w"][0, 0] for d in fed.persistable] == [0, 1]
    assert (fed.per_device, fed.rows) == ([{}, {}], {})


def test_idle_devices_get_persistables_of_a_dict_and_none_of_a_list(program: Program) -> None:
    one = {"x": numbered(2, 3), "lr": numbered(1)}
    splitter = Splitter(program, static.cpu_places(3), partial=True)
    for _ in range(2):  # the second time from memory
        fed = splitter.split(one)
        assert (fed.active, [set(d) for d in fed.persistable]) == (2, [{"lr"}] * 3)
        fed = splitter.split([one, one])
        assert (fed.active, [set(d) for d in fed.persistable]) == (2, [{"lr"}, {"lr"}, set()])


# Inference


@pytest.mark.parametrize(("batch", "devices", "rule", "active"), [(1, 2, "floor", 1), (9, 4, "ceil", 3)])
def test_x31_the_first_devices_run(program: Program, batch: int, devices: int, rule: str, active: int) -> None:
    fed = feed_devices(program, {"x": numbered(batch, 3)}, devices, rule, partial=True)
    assert (fed.active, len(fed.per_device)) == (active, active)


def test_x31_a_list_may_be_shorter_and_not_longer(program: Program) -> None:
    one = {"x": numbered(2, 3)}
    fed = feed_devices(program, [one], 2, partial=True)
    assert (fed.active, fed.rows) == (1, {"x": (2,)})
    with pytest.raises(InvalidForm, match=r"3 non-empty dicts .*\n  expected: one dict per device, 2 at most"):
        feed_devices(program, [one] * 3, 2, partial=True)


# The gradient of the loss


def test_b11_a_fed_loss_gradient_has_an_entry_per_device(program: Program) -> None:
    splitter = Splitter(program, static.cpu_places(2), reads=["loss@GRAD"])
    assert pieces(splitter.split({"loss@GRAD": np.array([1, 2], np.float32)}), "loss@GRAD") == [[1], [2]]
    assert pieces(splitter.split([{"loss@GRAD": 1.0}, {"loss@GRAD": 2.0}]), "loss@GRAD") == [[1], [2]]


@pytest.mark.parametrize(
    ("feed", "text"),
    [
        (None, r"'loss@GRAD' is missing: float32\[1\]; feed an array with one entry for each of the 2 devices"),
        ({"loss@GRAD": np.ones(1, np.float32)}, "makes 1 chunk, which is less than the 2 devices"),
        ({"loss@GRAD": np.ones(3, np.float32)}, r"(?s)wrong shape on each device.*\[2\], after 3 rows .* into 1, 2"),
        ({"loss@GRAD": np.ones(2)}, "wrong dtype on each device"),
    ],
)
def test_b11_a_wrong_one(program: Program, feed: Any, text: str) -> None:
    with pytest.raises(EnforceNotMet, match=text):
        feed_devices(program, feed, 2, reads=["loss@GRAD"])


# Step after step


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from(["float32", "float64"])), max_size=8))
def test_a_splitter_with_a_memory_feeds_as_one_without(program: Program, steps: list[tuple[int, bool, str]]) -> None:
    """What was remembered of one batch is never used for another: shape, dtype and form all count."""
    splitter = Splitter(program, static.cpu_places(3), partial=True, reads=["x"])
    for rows, listed, dtype in steps:
        x = numbered(rows, 3, dtype=dtype)
        feed: Any = [{"x": x}, {"x": x + 1}] if listed else {"x": x}
        assert outcome(splitter.split, feed) == outcome(
            Splitter(program, static.cpu_places(3), partial=True).split, feed
        )


def outcome(split: Callable[[Any], Fed], feed: Any) -> Any:
    try:
        fed = split(feed)
    except EnforceNotMet as error:
        return str(error)
    return fed.active, fed.rows, pieces(fed, "x")


def test_what_is_no_array_is_converted_every_time(program: Program) -> None:
    """A tensor of another library with an array's shape and dtype is not mistaken for an array."""
    splitter = Splitter(program, static.cpu_places(2))
    splitter.split({"x": numbered(4, 3)})
    fed = splitter.split({"x": ArrayLike()})
    assert [type(d["x"]) for d in fed.per_device] == [np.ndarray] * 2
    assert pieces(splitter.split({"rate": [3.0, 4.0]}), "rate") == [[3], [4]]
    assert pieces(splitter.split({"rate": [5.0, 6.0]}), "rate") == [[5], [6]]


class ArrayLike:
    shape, dtype = (4, 3), np.dtype("float32")

    def numpy(self) -> np.ndarray:
        return numbered(4, 3)


@pytest.mark.parametrize("times", [1, 3])
def test_tensors_of_dynamic_mode_are_fed_as_they_are(program: Program, times: int) -> None:
    """Divided or one dict per device, the first time and later: no device gets a copy, and new values are seen."""
    splitter = Splitter(program, static.cpu_places(2))
    tensor = Tensor(numbered(4, 3))
    for _ in range(times):
        fed = splitter.split({"x": tensor})
        listed = splitter.split([{"x": tensor}, {"x": numbered(2, 3)}])
    assert fed.rows == splitter.split({"x": numbered(4, 3)}).rows
    assert all(np.shares_memory(d["x"], tensor.array) for d in (*fed.per_device, listed.per_device[0]))
    other = Tensor(numbered(4, 3) + 1)
    assert pieces(splitter.split({"x": other}), "x") == pieces(splitter.split({"x": other.numpy()}), "x")
    with pytest.raises(ValueError, match="shape"):
        splitter.split({"x": Tensor(numbered(4, 2))})


def test_rows_are_the_same_object_for_the_same_shapes_and_dtypes_only(program: Program) -> None:
    """So an engine sees at a glance that its last plan still serves."""
    splitter = Splitter(program, static.cpu_places(2))
    forms: list[Any] = [
        {"x": numbered(4, 3)},
        {"x": numbered(6, 3)},
        [{"x": numbered(2, 3)}] * 2,
        {"unchecked": numbered(4, 3)},
        {"unchecked": numbered(4, 3, dtype="float64")},
        {"x": numbered(4, 3), "lr": numbered(1)},
    ]
    first = [splitter.split(form).rows for form in forms]
    assert len(set(map(id, first))) == len(forms)
    assert all(splitter.split(form).rows is rows for form, rows in zip(forms, first, strict=True))


def test_memory_of_shapes_is_bounded(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept: of those that come again and again none is decided twice."""
    monkeypatch.setattr(split, "_PLANS", 50)
    splitter = Splitter(program, static.cpu_places(1))
    for rows in range(200):
        splitter.split({"x": np.empty((rows, 3), np.float32)})
    assert len(splitter._plans) == 50
    kept = {rows: splitter.split({"x": np.empty((rows, 3), np.float32)}).plan for rows in range(150, 200)}
    again = {rows: splitter.split({"x": np.empty((rows, 3), np.float32)}).plan for rows in range(150, 200)}
    assert all(again[rows] is plan for rows, plan in kept.items()) and len(set(map(id, kept.values()))) == 50


DECIDING = ("fed_variable", "conversion", "check_dtype", "check_shape", "split_sizes")


@pytest.mark.parametrize(
    "form",
    [
        lambda program, x: {"x": x},
        lambda program, x: [{"x": x[:2]}, {"x": x[2:]}],
        lambda program, x: {program.global_block().var("x"): x},
        lambda program, x: {"x": x.tolist()},
        lambda program, x: {"x": tuple(x.tolist())},
        lambda program, x: {"x": LoDTensor(x)},
        lambda program, x: {"x": x, "lr": 0.5, "number": np.float32(3)},
        lambda program, x: {"x": Other(x)},
    ],
)
def test_a_known_signature_is_fed_without_deciding_again(
    program: Program, monkeypatch: pytest.MonkeyPatch, form: Callable[[Program, Any], Any]
) -> None:
    splitter = Splitter(program, static.cpu_places(2), reads=["x"])
    first = splitter.split(form(program, numbered(4, 3)))
    with monkeypatch.context() as patch:
        for name in DECIDING:
            patch.setattr(split, name, None)  # nobody may ask
        fed = splitter.split(form(program, numbered(4, 3) + 1))
    assert fed.plan is first.plan
    assert pieces(fed, "x") == pieces(feed_devices(program, {"x": numbered(4, 3) + 1}, 2), "x")


def test_a_feed_is_wrapped_twice(program: Program) -> None:
    """Once so that it stays as it is, once with the plan; all devices look into the same dict."""
    x = numbered(4, 3)
    fed = Splitter(program, static.cpu_places(2)).split({"x": x})
    assert fed.sources[0] is fed.sources[1] and type(fed.sources[0]) is dict and fed.sources[0]["x"] is x


class Other:
    """A tensor of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def numpy(self) -> np.ndarray:
        return self.array
