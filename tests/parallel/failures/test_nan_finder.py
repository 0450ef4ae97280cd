"""FLAGS_check_nan_inf on several devices, and `find_nan`: who makes the first NaN or Inf."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.inspection.test_stepper import assert_same_bits, embedding, state, strategy, words
from tests.parallel.lowerings import in_both
from tests.parallel.models import batch, build, classifier, column, constant
from workbench import static
from workbench.errors import ExecutionError
from workbench.graph.settings import GradientScaleStrategy, ReduceStrategy

pytestmark = in_both

HUGE = 3e38  # float32 ends at 3.4e38


@contextmanager
def checked() -> Iterator[None]:
    wb.set_flags({"FLAGS_check_nan_inf": 1})
    try:
        yield
    finally:
        wb.set_flags({"FLAGS_check_nan_inf": 0})


def forward() -> Any:
    x = static.data("X", [None, 1])
    h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
    h = wb.log(h)  # of rows below 0
    return wb.mean(wb.tanh(h))


def backward() -> Any:
    x = static.data("X", [None, 1])
    h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
    h = wb.sqrt(h)  # its derivative at 0 is Inf
    return wb.mean(h)


def product() -> Any:
    x = static.data("X", [None, 1])
    return wb.sum(static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=False))


def line_of(error: object) -> str:
    """The source line the last `at <file>, line <n>` names."""
    file, line = re.findall(r"at (.+), line (\d+)", str(error))[-1]
    return linecache.getline(file, int(line))


CASES = {
    "forward": (forward, {}, column(1, 2, -3, 4), "log", 1, "made 1 NaN and 0 Inf among the 2", "wb.log"),
    "forward, fused": (
        forward, {"enable_auto_fusion": True}, column(1, 2, -3, 4), "fused_elementwise", 1, "made 1 NaN", "fc(",
    ),
    "backward": (backward, {}, column(0, 2, 3, 4), "sqrt_grad", 0, "made 0 NaN and 1 Inf among the 2", "wb.sqrt"),
    "backward, reduce": (
        backward, {"reduce_strategy": ReduceStrategy.Reduce}, column(0, 2, 3, 4), "sqrt_grad", 0, "1 Inf", "wb.sqrt",
    ),
    "all-reduce": (
        product, {"gradient_scale_strategy": GradientScaleStrategy.One, "fuse_all_reduce_ops": False},
        column(HUGE, HUGE), "all_reduce", 0, "1 Inf among the 1", "fc(",
    ),
    "all-reduce, fused": (
        product, {"gradient_scale_strategy": GradientScaleStrategy.One, "fuse_all_reduce_ops": True},
        column(HUGE, HUGE), "all_reduce", 0, "1 Inf among the 1", "fc(",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_flag_names_op_variable_device_and_line(name: str) -> None:
    body, options, rows, op, device, amount, source = CASES[name]
    model = build(body, wb.optimizer.Momentum(0.0, 0.9)).start()  # moves the velocity alone
    exe = model.parallel(2, build_strategy=strategy(**options))
    if "fused" in name:
        assert any(node.type.startswith("fused") for node in exe.graph().nodes) or "all-reduce" in name
    exe.run([], feed={"X": column(1, 1, 1, 1)})
    before = state(exe)
    with checked(), pytest.raises(ExecutionError) as caught:
        exe.run([], feed={"X": rows})
    text = str(caught.value)
    assert re.match(rf"op '(fused_)?{op}' made ", text) and amount in text
    assert f"on cpu:{device}\n" in text and "FLAGS_check_nan_inf" in text
    assert source in line_of(text)
    assert_same_bits(state(exe), before)  # nothing was applied
    exe.run([], feed={"X": column(1, 1, 1, 1)})


@pytest.mark.parametrize("name", CASES)
def test_find_nan_returns_the_first_node_and_applies_nothing(name: str) -> None:
    body, options, rows, op, device, _, source = CASES[name]
    op = op.replace("fused_elementwise", "log")  # nothing is fused when a step is observed
    model = build(body, wb.optimizer.Momentum(0.1, 0.9)).start()
    exe = model.parallel(2, build_strategy=strategy(**options))
    source = source if op != "log" else "wb.log"
    before = model.values()
    origin = exe.find_nan({"X": rows})
    assert (origin.node.type, origin.node.device) == (op, device)
    assert source in linecache.getline(*origin.node.site) and source in line_of(origin)
    assert str(origin).startswith(f"node #{origin.node.number} {op!r} on cpu:") and "makes the first NaN" in str(origin)
    assert all(i.is_finite for i in origin.inputs) and not any(o.is_finite for o in origin.outputs)
    assert {n: v.tobytes() for n, v in model.values().items()} == {n: v.tobytes() for n, v in before.items()}
    assert exe.find_nan({"X": column(1, 1, 1, 1)}) is None
    assert exe.compare_devices()


def test_statistics_by_numpy() -> None:
    exe = build(forward, wb.optimizer.SGD(0.1)).start().parallel(2)
    rows = column(1, 2, 3, -3, 4, 0, -1, 5)
    origin = exe.find_nan({"X": rows})
    half = rows[4:]  # both halves have one; device 0 runs first
    assert origin.node.device == 0
    (read,), (output,) = origin.inputs, origin.outputs
    assert (read.low, read.high, read.mean, read.nans, read.infs) == (-3, 3, 0.75, 0, 0)
    assert (output.nans, output.infs, output.shape) == (1, 0, (4, 1))
    logs = np.log(rows[:3].astype(np.float64))
    assert np.allclose([output.low, output.high, output.mean], [logs.min(), logs.max(), logs.mean()], atol=1e-6)
    assert "1 NaN, 0 Inf" in str(origin) and "-3 to 3, mean 0.75" in str(origin)
    ones = column(1, 1, 1, 1)
    origin = exe.find_nan({"X": np.vstack([ones, half])})
    assert origin.node.device == 1 and (origin.outputs[0].nans, origin.outputs[0].infs) == (1, 1)  # of -1 and of 0


def test_a_feed_that_is_not_finite_shows_at_its_first_reader() -> None:
    exe = classifier().start().parallel(2)
    feed = batch()
    feed["x"][6, 2] = np.inf
    origin = exe.find_nan(feed)
    assert (origin.node.type, origin.node.device) == ("mul", 1)
    assert "hands on what is not finite" in str(origin)
    assert [(i.name, i.infs) for i in origin.inputs] == [("x", 1), ("fc_0.w_0", 0)]


def test_an_update_that_overflows_is_found_before_it_is_applied() -> None:
    model = build(product, wb.optimizer.SGD(1e38)).start()
    exe = model.parallel(2)
    origin = exe.find_nan({"X": column(10, 20)})
    assert origin.node.type == "sgd" and origin.outputs[0].name == "fc_0.w_0" and origin.outputs[0].infs == 1
    assert model.value("fc_0.w_0").tolist() == [[1.0]]


def test_sparse_gradients_are_looked_at() -> None:
    model = build(embedding, wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(2)
    exe.run([], feed=words())
    weights = model.scope.find_var("fc_0.w_0")
    weights.set(np.full_like(model.value("fc_0.w_0"), np.nan))
    origin = exe.find_nan(words())
    assert origin.node.type == "mul" and {i.name: i.nans for i in origin.inputs}["fc_0.w_0"] == 12


def test_in_a_branch_the_node_is_the_branch() -> None:
    def body() -> Any:
        x = static.data("X", [None, 1])
        h = static.nn.cond(wb.mean(x) > 0.0, lambda: x * 2.0, lambda: wb.sqrt(x))
        return wb.mean(static.nn.fc(h, 1))

    exe = build(body, wb.optimizer.SGD(0.1)).start().parallel(2)
    origin = exe.find_nan({"X": column(1, 2, -1, -2)})
    assert (origin.node.type, origin.node.device) == ("cond", 1)


def test_steps_by_hand_stop_where_the_flag_says() -> None:
    exe = build(forward, wb.optimizer.SGD(0.1)).start().parallel(2)
    feed = {"X": column(1, 2, -3, 4)}
    with checked(), exe.stepper(feed) as step:
        with pytest.raises(ExecutionError, match=r"op 'log' made 1 NaN.*'log_0.tmp_0' on cpu:1"):
            step.finish()
        assert np.isnan(step.value("log_0.tmp_0", 1)).sum() == 1
    with checked():
        assert exe.find_nan(feed).node.type == "log"  # returned, not raised
    with exe.stepper(feed) as step:
        step.finish()  # without the flag nobody minds
    assert np.isnan(exe.local_scope(0).find_var("fc_0.w_0").get_tensor().numpy()).all()
