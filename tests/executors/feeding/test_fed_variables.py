"""Feeds of persistable variables, of programs that infer, and of the gradient of the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.executors.feeding.test_split import feed_devices, numbered, pieces
from workbench import static
from workbench.errors import EnforceNotMet, InvalidForm, PreconditionNotMet
from workbench.executors.feeding.split import Splitter
from workbench.framework.program.program import Program

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
