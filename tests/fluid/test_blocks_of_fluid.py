"""Blocks of 1.x that write variables from outside: `While` and `Switch`, against the same loops in Python."""

from __future__ import annotations

import numpy as np
import pytest

import workbench.fluid as fluid
from workbench.errors import EnforceNotMet

L = fluid.layers


def counters(limit: int) -> tuple[object, object, object]:
    i, last = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", limit)
    return i, last, L.less_than(i, last)


def test_while_writes_what_is_outside_and_gradients_pass_through() -> None:
    x = fluid.data("x", [2])
    x.stop_gradient = False
    total = L.ones([2], "float32")
    total.stop_gradient = False
    i, last, go_on = counters(3)
    with L.While(go_on).block():
        L.assign(total * x, total)
        L.assign(total + 1.0, total)  # written twice in a pass
        L.increment(i)
        L.less_than(i, last, cond=go_on)
    (slope,) = fluid.gradients([L.reduce_sum(total)], [x])
    feed = np.array([2.0, -3.0], np.float32)
    for _ in range(2):
        fetched = fluid.Executor().run(feed={"x": feed}, fetch_list=[total, slope, i, go_on])
        np.testing.assert_allclose(fetched[0], ((feed + 1) * feed + 1) * feed + 1, rtol=1e-6)
        np.testing.assert_allclose(fetched[1], 3 * feed**2 + 2 * feed + 1, rtol=1e-6)
        assert fetched[2].tolist() == [3] and fetched[3].tolist() == [False]


def test_blocks_in_blocks_see_each_others_writes() -> None:
    value, one = L.ones([1], "float32"), L.fill_constant([1], "int64", 1)
    i, last, go_on = counters(3)
    with L.While(go_on).block():
        j, _, inner = counters(3)
        with L.While(inner).block():
            L.assign(value * 2.0, value)
            L.increment(j)
            L.less_than(j, last, cond=inner)
        with L.Switch() as switch, switch.case(L.equal(i, one)):
            L.assign(value + 100.0, value)
        L.increment(i)
        L.less_than(i, last, cond=go_on)
    (fetched,) = fluid.Executor().run(fetch_list=[value])
    expected = 1.0
    for step in range(3):
        expected = expected * 8 + 100 * (step == 1)
    assert fetched.tolist() == [expected]


def test_switch_takes_the_first_case_that_is_true_and_persistable_values_stay() -> None:
    x = fluid.data("x", [1])
    rate = L.create_global_var([1], 1.0, "float32", persistable=True)
    with L.Switch() as switch:
        with switch.case(x < 1.0):
            L.fill_constant([1], "float32", 0.5, out=rate)
        with switch.case(x < 2.0):
            L.assign(rate + 2.0, rate)
            L.assign(rate * 2.0, rate)
        with switch.default():
            L.assign(x, rate)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    seen = [executor.run(feed={"x": np.float32([v])}, fetch_list=[rate])[0].item() for v in (0.0, 1.5, 1.5, 9.0, 0.0)]
    assert seen == [0.5, 5.0, 14.0, 9.0, 0.5]


def test_gradients_of_a_switch_take_the_way_the_step_took() -> None:
    x = fluid.data("x", [1])
    x.stop_gradient = False
    y = x * 1.0
    with L.Switch() as switch, switch.case(x < 1.0):
        L.assign(y * y, y)
    (slope,) = fluid.gradients([y], [x])
    slopes = [fluid.Executor().run(feed={"x": np.float32([v])}, fetch_list=[slope])[0].item() for v in (-3.0, 4.0)]
    assert slopes == [-6.0, 1.0]


def test_what_blocks_refuse_leaves_the_program_as_it_was() -> None:
    x = fluid.data("x", [1])
    flag = x < 1.0
    before = str(fluid.default_main_program())
    with pytest.raises(EnforceNotMet, match="never writes its condition"), L.While(flag).block():
        L.assign(x + 1.0, x)
    with pytest.raises(ZeroDivisionError), L.While(flag).block():
        _ = x + 1 / 0
    with pytest.raises(EnforceNotMet, match="one bool"):
        L.While(x)
    with pytest.raises(EnforceNotMet, match="inside its block"), L.Switch().case(flag):
        pass
    with L.Switch() as switch, pytest.raises(EnforceNotMet, match="at least one case"), switch.default():
        pass
    assert str(fluid.default_main_program()) == before
