"""`static.nn.data_norm`: parameters, what training makes of them, slots; against sums in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import Session, program
from workbench.framework.notice import Notice

X = np.array([[1, 2, 0, 4], [0, 1, 3, -1], [2, 5, 0, 2]], np.float32)
MOVED = {"batch_size": 4.0, "batch_sum": 2.0, "batch_square": 8.0, "scale_w": 2.0, "bias": 0.5}


def trained(**options: Any) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The result, what arrives at every parameter, and parameters after a step of SGD by 0.1."""
    with program() as (main, startup):
        x = wb.static.data("x", [None, 4], "float32")
        x.stop_gradient = False
        y = wb.static.nn.data_norm(x, epsilon=0.001, param_attr=MOVED, **options)
        _, pairs = wb.optimizer.SGD(0.1).minimize(wb.sum(y * y))
    session = Session(main, startup)
    value, slope, *slopes = session.run([y, "x@GRAD", *(g.name for _, g in pairs)], x=X)
    gradients = {"x": slope, **{p.name: g for (p, _), g in zip(pairs, slopes, strict=True)}}
    return value, gradients, {p.name: session.value(p.name) for p in main.all_parameters()}


def test_summaries_of_the_batch_arrive_as_gradients() -> None:
    y, gradients, after = trained()
    scale = (4 / 8) ** 0.5
    np.testing.assert_allclose(y, (X - 0.5) * scale, rtol=1e-6)
    np.testing.assert_allclose(gradients["x"], 2 * y * scale, rtol=1e-6)
    np.testing.assert_array_equal(gradients["dn.batch_size"], [3, 3, 3, 3])
    np.testing.assert_allclose(gradients["dn.batch_sum"], X.sum(0))
    np.testing.assert_allclose(gradients["dn.batch_square_sum"], ((X - 0.5) ** 2).sum(0) + 0.003, rtol=1e-6)
    for name, before in (("batch_size", 4), ("batch_sum", 2), ("batch_square_sum", 8)):
        np.testing.assert_allclose(after[f"dn.{name}"], before - 0.1 * gradients[f"dn.{name}"], rtol=1e-6)


def test_slots_that_were_not_shown_give_zeros_and_do_not_count() -> None:
    """The first and third column count shows of the two slots; 0 in the second row and in the first and third."""
    y, gradients, _ = trained(slot_dim=2, enable_scale_and_shift=True)
    shown = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    plain = (X - 0.5) * 0.5**0.5
    np.testing.assert_allclose(y, (plain * 2 + 0.5) * shown, rtol=1e-6)
    np.testing.assert_allclose(gradients["x"], 2 * y * 2 * 0.5**0.5, rtol=1e-6)
    np.testing.assert_allclose(gradients["dn.scale_w"], (2 * y * plain).sum(0), rtol=1e-6)
    np.testing.assert_allclose(gradients["dn.bias"], (2 * y).sum(0), rtol=1e-6)
    np.testing.assert_array_equal(gradients["dn.batch_size"], [1, 1, 1, 1])
    np.testing.assert_allclose(gradients["dn.batch_sum"], [1.5, 3.5, 3, -1])
    squares = ((X - 0.5) ** 2 * shown).sum(0) / [2, 2, 1, 1] + np.array([0.002, 0.002, 0.001, 0.001])
    np.testing.assert_allclose(gradients["dn.batch_square_sum"], squares, rtol=1e-6)


def test_a_slot_nobody_was_shown_is_left_alone() -> None:
    with program() as (main, startup):
        x = wb.static.data("x", [None, 2], "float32")
        wb.static.append_backward(wb.sum(wb.static.nn.data_norm(x, slot_dim=2)))
    names = [f"dn.{name}@GRAD" for name in ("batch_size", "batch_sum", "batch_square_sum")]
    for value in Session(main, startup).run(names, x=np.array([[0, 3], [0, 5]], np.float32)):
        assert value.tolist() == [0, 0]


def test_layers_share_parameters_by_a_name_that_is_given_only() -> None:
    with program() as (main, _):
        x = wb.static.data("x", [None, 4])
        for name in (None, None, "mine", "mine"):
            wb.static.nn.data_norm(x, name=name)
    sizes = [p.name for p in main.all_parameters() if p.name.endswith("batch_size")]
    assert sizes == ["dn.batch_size", "dn_1.batch_size", "mine.batch_size"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.1}, r"epsilon in \[0, 0.001\]"),
        ({"data_layout": "NC"}, "data_layout"),
        ({"param_attr": {"size": 1.0}}, "got 'size'"),
        ({"param_attr": "w"}, "a dictionary"),
        ({"slot_dim": 3}, "a multiple of 3"),
    ],
)
def test_what_it_refuses(options: dict[str, Any], message: str) -> None:
    with program(), pytest.raises((TypeError, ValueError), match=message):
        wb.static.nn.data_norm(wb.static.data("x", [None, 4]), **options)


def test_options_without_effect_are_told() -> None:
    with program(), pytest.warns(Notice, match="sync_stats, summary_decay_rate have no effect"):
        wb.static.nn.data_norm(wb.static.data("x", [None, 4]), sync_stats=True, summary_decay_rate=0.5)
