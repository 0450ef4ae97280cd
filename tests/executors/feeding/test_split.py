"""What each device is fed: rules X-10 … X-19, X-31, X-32 and B-11, at the function the engine calls."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.errors import EnforceNotMet, InvalidForm, PreconditionNotMet
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
    with pytest.raises(ValueError, match=r"feed 'x' is missing: float32\[\?, 3\]\n  declared at .*conftest\.py"):
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
