"""Random numbers of recorded functions go on from where they were kept, and begin anew with a seed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice
from workbench.framework.values.random_state import RandomState

F = wb.nn.functional
X = np.ones((8, 64), np.float32)


def captured(devices: int) -> Callable[..., Any]:
    return wb.jit.capture(lambda x: F.dropout(x, 0.5), devices=devices)


def drawn(function: Callable[..., Any], count: int, rows: int = 8) -> list[bytes]:
    return [function(wb.to_tensor(X[:rows])).numpy().tobytes() for _ in range(count)]


MAKERS = {
    "captured": lambda: captured(1),
    "on two devices": lambda: captured(2),
    "to_static": lambda: wb.jit.to_static(lambda x: F.dropout(x, 0.5)),
}


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_masks_come_again_from_where_they_were_kept(maker: Callable[[], Any], seed: int) -> None:
    wb.seed(seed)
    function, other = maker(), maker()
    drawn(function, 2)
    state = wb.get_rng_state()
    masks, others = drawn(function, 3), drawn(other, 2)
    assert len(set(masks)) == 3
    wb.set_rng_state(state)
    assert drawn(other, 2) == others and drawn(function, 3) == masks
    assert drawn(function, 1)[0] not in masks


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_no_two_functions_draw_the_same_and_a_seed_numbers_them_anew(maker: Callable[[], Any]) -> None:
    wb.seed(7)
    one, other = maker(), maker()
    masks = drawn(one, 2), drawn(other, 2)
    assert len({*masks[0], *masks[1]}) == 4
    wb.seed(7)
    assert (drawn(other, 2), drawn(one, 2)) == masks  # by who begins to draw first


def test_a_function_that_has_not_run_yet_keeps_its_numbers() -> None:
    wb.seed(7)
    function = captured(1)
    function.prepare(wb.to_tensor(X))  # type: ignore[attr-defined]
    state = wb.get_rng_state()
    masks = drawn(function, 2)
    wb.set_rng_state(state)
    assert drawn(function, 2) == masks


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_a_seed_begins_anew(maker: Callable[[], Any]) -> None:
    wb.seed(7)
    function = maker()
    masks = drawn(function, 3)
    wb.seed(7)
    assert drawn(function, 3) == masks
    wb.seed(8)
    assert drawn(function, 1)[0] not in masks
    wb.seed(7)
    assert drawn(maker(), 3) == masks  # as one that has never run


def test_all_recordings_of_a_function_go_back_on_all_devices() -> None:
    wb.seed(3)
    function = captured(2)
    drawn(function, 1)
    with pytest.warns(Notice, match="recorded again"):
        drawn(function, 1, rows=4)
    state = wb.get_rng_state()
    both = [drawn(function, 2), drawn(function, 2, rows=4)]
    wb.set_rng_state(state)
    assert [drawn(function, 2), drawn(function, 2, rows=4)] == both


def test_what_was_made_since_begins_anew_and_what_is_gone_is_nobodys() -> None:
    wb.seed(5)
    drawn(gone := captured(1), 2)
    state = wb.get_rng_state()
    del gone
    function = captured(1)
    masks = drawn(function, 2)
    wb.set_rng_state(state)
    assert drawn(function, 2) == masks


def test_dynamic_mode_goes_on_beside_it() -> None:
    wb.seed(5)
    function = captured(1)
    drawn(function, 1)
    state = wb.get_rng_state()
    expected = wb.rand([3]).tolist(), drawn(function, 1), wb.rand([3]).tolist()
    assert wb.get_rng_state() != state
    wb.set_rng_state(state)
    assert wb.get_rng_state() == state
    assert (wb.rand([3]).tolist(), drawn(function, 1), wb.rand([3]).tolist()) == expected


@pytest.mark.parametrize("order", ["seed drawn steps series", "seed drawn series steps", "seed drawn steps"])
def test_a_state_from_a_file_and_of_an_earlier_version_is_gone_on_from(order: str, tmp_path: Path) -> None:
    wb.seed(5)
    function = captured(1)
    drawn(function, 2)
    wb.rand([3])
    (state,) = wb.get_rng_state()
    expected = wb.rand([3]).tolist(), drawn(function, 2), drawn(captured(1), 1)
    wb.save([tuple(getattr(state, name) for name in order.split())], str(tmp_path / "state"))
    wb.set_rng_state(wb.load(str(tmp_path / "state")))
    assert (wb.rand([3]).tolist(), drawn(function, 2), drawn(captured(1), 1)) == expected
    wb.set_rng_state([RandomState(5, 0)])  # the first version; the recorded function begins anew
    wb.rand([3])
    assert wb.rand([3]).tolist() == expected[0]


def test_no_device_draws_twice_where_two_recordings_take_turns() -> None:
    wb.seed(9)
    function = captured(2)
    masks = [function(wb.to_tensor(X)).numpy()[4:6]]
    with pytest.warns(Notice, match="recorded again"):
        masks.append(function(wb.to_tensor(X[:4])).numpy()[2:4])
    masks += [function(wb.to_tensor(X)).numpy()[4:6], function(wb.to_tensor(X[:4])).numpy()[2:4]]
    assert len({mask.tobytes() for mask in masks}) == 4  # of the second device, as many rows of each
