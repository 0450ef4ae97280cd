"""What is kept of recordings: those used last, within a number and bytes; one notice says what differs."""

from __future__ import annotations

import gc
import warnings
from typing import Any
from weakref import ref

import pytest

import workbench as wb
from workbench.config import override
from workbench.framework.notice import Notice
from workbench.jit import recordings


def notices_of(step: Any, *calls: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        for call in calls:
            step(*call)
    return [str(each.message) for each in caught]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(recordings, "_MOST", 12)
    return 12


def test_a_number_that_differs_in_every_call(few: int) -> None:
    x = wb.ones([2])

    @wb.jit.capture
    def train_step(x: Any, rate: float) -> Any:
        return x * rate

    told = notices_of(train_step, *[(x, 1.0 / (i + 1)) for i in range(30)])
    assert train_step(x, 0.5).tolist() == [0.5, 0.5]
    assert len(told) == 9 and all("rate was" in each and "paddle.to_tensor(rate)" in each for each in told)
    assert "not told any more" in told[7] and "train_step has 13 recordings" in told[8]
    assert len(list(train_step._steps)) == few


def test_the_one_used_longest_ago_goes(few: int) -> None:
    step, x = wb.jit.to_static(lambda x, k: x * k), wb.ones([1])
    told = notices_of(step, (x, 0), *[call for k in range(1, few + 3) for call in ((x, k), (x, 0))])
    assert (len(told) == 1 and "k was 0 and is 12" in told[0]) or "k was 11 and is 12" in told[0]
    recorded = step.captures
    step(x, 0), step(x, few + 2), step(x, few)
    assert step.captures == recorded
    assert step(x, 1).item() == 1.0 and step.captures == recorded + 1
    assert len(step.program_cache) == few


def test_shapes_are_told_with_an_input_spec(few: int) -> None:
    step = wb.jit.to_static(lambda x: x * 2.0)
    told = notices_of(step, *[(wb.ones([n]),) for n in range(1, 30)])
    assert len(told) == 1 and "x was a tensor (float32[12]) and is a tensor (float32[13])" in told[0]
    assert "input_spec with None" in told[0]


def test_they_are_kept_within_bytes() -> None:
    step = wb.jit.to_static(lambda x: (x * 2.0).exp().sum() + (x * 3.0).sum())
    calls = [(wb.ones([n, 1 << 10]),) for n in range(256, 264)]
    with override(plan_cache_mib=4):
        told = notices_of(step, *calls)
        assert len(told) == 1 and "FLAGS_plan_cache_mib, 4" in told[0]
    assert 1 <= len(list(step._steps)) < len(calls)


def test_what_was_recorded_of_objects_goes_with_them(few: int) -> None:
    class Batch:
        def __init__(self) -> None:
            self.x = wb.ones([1])

    step, left = wb.jit.capture(lambda batch: batch.x * 2.0), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for _ in range(few + 5):
            batch = Batch()
            left.append(ref(batch))
            assert step(batch).item() == 2.0
    del batch
    gc.collect()
    assert sum(each() is not None for each in left) == few
