"""Integers that Python reads of what a recorded function computes: sizes, repetitions, axes, indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.framework.notice import Notice
from workbench.jit import NeedsValue

pytestmark = pytest.mark.filterwarnings("ignore:.* is recorded again")

RNG = np.random.default_rng(3)


def rows(count: int, width: int = 3) -> Any:
    return wb.to_tensor(RNG.standard_normal((count, width), np.float32))


def length_of(k: Any) -> Any:
    return wb.shape(k)[0]


def sum_of(k: Any) -> Any:
    return wb.cast(k, "int32").sum()


USES: dict[str, Callable[[Any, Any], Any]] = {
    "expand": lambda x, n: x[:1].expand([n, 3]),
    "broadcast_to": lambda x, n: wb.broadcast_to(x[:1], [n, -1]),
    "tile": lambda x, n: wb.tile(x, [n, 1]),
    "full": lambda x, n: wb.full([n, 2], 1.5) + x.mean(),
    "zeros": lambda x, n: wb.zeros([2, n]) + x.sum(),
    "arange": lambda x, n: wb.arange(n).astype("float32") * x.sum(),
    "reshape": lambda x, n: wb.reshape(wb.tile(x, [n, 1]), [n, -1]),
    "one_hot": lambda x, n: wb.nn.functional.one_hot(wb.to_tensor([0, 0]), n) * x.mean(),
    "shape tensor": lambda x, n: wb.zeros(wb.stack([n, n + 1])) + x.sum(),
    "slice": lambda x, n: wb.tile(x, [4, 1])[: n - 1],
    "roll": lambda x, n: wb.roll(x, n),
    "axis": lambda x, n: x.sum(axis=n % 2),
    "unsqueeze": lambda x, n: x.unsqueeze(n % 2),
    "repeat_interleave": lambda x, n: wb.repeat_interleave(x, n),
    "sequence_mask": lambda x, n: wb.nn.functional.sequence_mask(wb.to_tensor([1, 2]), maxlen=n) * x.sum(),
    "list index": lambda x, n: x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0][n],
    "range": lambda x, n: sum((x * i for i in range(n)), x),
}


@pytest.mark.parametrize("make", [wb.jit.to_static, wb.jit.capture], ids=["to_static", "capture"])
@pytest.mark.parametrize("number", [length_of, sum_of], ids=["shape", "sum"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_sizes_follow_computed_integers(make: Any, number: Any, use: Any) -> None:
    def function(x: Any, k: Any) -> Any:
        return use(x, number(k))

    recorded, x = make(function), rows(2)
    for values in ([1, 1, 1], [1, 1, 1], [2, 1, 0], [1, 4, 1], [3], [1, 1, 1]):
        k = wb.to_tensor(values)
        np.testing.assert_allclose(recorded(x, k).numpy(), function(x, k).numpy(), rtol=1e-6)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_any_series_of_values(counts: list[int]) -> None:
    recorded = wb.jit.capture(lambda x, n: x.expand([n * 2, 3]).sum())
    x = wb.ones([1, 3])
    assert [float(recorded(x, wb.to_tensor(n))) for n in counts] == [6.0 * n for n in counts]


def test_a_recording_for_each_value_and_no_more() -> None:
    recorded = wb.jit.capture(lambda x, n: wb.tile(x, [n]))
    for n in (2, 3, 2, 3, 2, 3):
        assert recorded(wb.ones([2]), wb.to_tensor(n)).shape == [2 * n]
    assert recorded.captures == 2


def test_shapes_that_are_known_need_no_look_at_values() -> None:
    recorded = wb.jit.capture(lambda x, k: x.expand([wb.shape(k)[0] + 1, 3]))
    x, k = wb.ones([1, 3]), wb.ones([4, 2])
    recorded(x, k)
    recorded(x, k)
    assert not recorded.recorded.follows_values
    assert recorded.recorded.feed_if_unchanged((x, k)) is not None


def test_the_notice_names_the_line_and_both_values() -> None:
    recorded = wb.jit.capture(lambda x, n: wb.tile(x, [n]))
    recorded(wb.ones([2]), wb.to_tensor(2))
    with pytest.warns(Notice, match=r"test_read_integers.py, line \d+: it was 2 and is 5"):
        recorded(wb.ones([2]), wb.to_tensor(5))


def test_integers_of_tensors_from_outside_that_others_write() -> None:
    count = wb.to_tensor(np.int64(2))
    recorded = wb.jit.capture(lambda x: wb.tile(x, [count + 1]))
    assert recorded(wb.ones([2])).shape == [6]
    count.set_value(np.int64(4))
    assert recorded(wb.ones([2])).shape == [10]


def test_gradients_through_sizes_that_follow_values() -> None:
    @wb.jit.to_static
    def forward(w: Any, k: Any) -> Any:
        return (w.expand([k.sum(), 3]) * 2).sum()

    for n in (1, 3, 2):
        w = wb.to_tensor(np.ones((1, 3), np.float32), stop_gradient=False)
        forward(w, wb.to_tensor([n])).backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.full((1, 3), 2.0 * n))


def test_a_captured_step_trains_with_sizes_that_follow_values() -> None:
    def trained(wrap: Any) -> list[float]:
        w = wb.create_parameter([1, 3], "float32", default_initializer=wb.nn.initializer.Constant(1.0))
        optimizer = wb.optimizer.SGD(0.1, parameters=[w])

        def step(n: Any) -> Any:
            loss = (w.expand([n, 3]) ** 2).mean() * wb.cast(n, "float32")
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        run = wrap(step)
        return [float(run(wb.to_tensor(n))) for n in (1, 2, 1, 3, 2, 2, 1)]

    np.testing.assert_allclose(trained(wb.jit.capture), trained(lambda step: step), rtol=1e-6)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "random": (lambda x: wb.tile(x, [wb.randint(1, 4, [1])]), "random numbers"),
    "float": (lambda x: wb.tile(x, [x.sum()]), "tensor of float32|value of a tensor|an int"),
}


@pytest.mark.parametrize(("function", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_integers_that_cannot_be_computed_alone_are_refused(function: Any, why: str) -> None:
    with pytest.raises(Exception, match=why):
        wb.jit.capture(function)(wb.ones([2]))


def test_an_integer_of_what_the_function_writes_is_refused() -> None:
    count = wb.to_tensor(np.int64(1))

    @wb.jit.capture
    def step(x: Any) -> Any:
        count.set_value(count + 1)
        return wb.tile(x, [count + 1])

    with pytest.raises(NeedsValue, match=r"which the function writes(.|\n)*test_read_integers.py, line"):
        step(wb.ones([2]))
    assert int(count) == 1


def test_several_devices_refuse_integers_that_may_differ_among_them() -> None:
    step = wb.jit.capture(lambda x: x.sum() * wb.zeros([wb.shape(x)[0]]).sum(), devices=2)
    with pytest.raises(NeedsValue, match=r"each of several devices(.|\n)*x.shape"):
        step(wb.ones([4, 2]))


def test_what_is_saved_serves_all_values_or_is_refused(tmp_path: Any) -> None:
    from workbench.static import InputSpec

    def function(x: Any, k: Any) -> Any:
        return x.expand([wb.shape(k)[0], 3]) + k.sum()

    fixed = [InputSpec([1, 3]), InputSpec([4, 2])]
    wb.jit.save(wb.jit.to_static(function, input_spec=fixed), str(tmp_path / "fixed"))
    assert wb.jit.load(str(tmp_path / "fixed"))(wb.ones([1, 3]), wb.ones([4, 2])).shape == [4, 3]
    with pytest.raises(NeedsValue, match="serve all values"):
        open_rows = [InputSpec([1, 3]), InputSpec([None, 2])]
        wb.jit.save(wb.jit.to_static(function, input_spec=open_rows), str(tmp_path / "open"))


def test_open_sizes_of_a_specification_are_read_anew_in_every_call() -> None:
    from workbench.static import InputSpec

    @wb.jit.to_static(input_spec=[InputSpec([1, 3]), InputSpec([None, 2])])
    def function(x: Any, k: Any) -> Any:
        return x.expand([wb.shape(k)[0], 3]) + k.sum()

    for count in (4, 2, 4, 5):
        assert function(wb.ones([1, 3]), wb.ones([count, 2])).shape == [count, 3]
