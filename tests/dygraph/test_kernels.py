"""Ops of dynamic mode in compiled kernels: what their bodies give, on whatever memory, in several threads."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

import workbench as paddle
from tests.ops import case as C
from tests.ops.test_cases import CASES, _close
from workbench.dygraph.dispatch import kernels
from workbench.dygraph.dispatch.recorder import DynamicRecorder, dynamic_recorder
from workbench.dygraph.tensor.tensor import Tensor
from workbench.executors.lowering.tape.one_op import OneOp
from workbench.executors.lowering.tape.registry import RULES
from workbench.framework.op.record import OPS
from workbench.framework.op.recorder import recording
from workbench.runtime.native.library import kernels as compiled_kernels

pytestmark = pytest.mark.skipif(compiled_kernels() is None, reason="there are no compiled kernels here")

CASES_OF: dict[str, list[C.Case]] = defaultdict(list)
for one in CASES:
    if not any(map(C.is_rows, one.inputs)) and one.check is None:
        CASES_OF[one.type].append(one)
RULED = {
    type
    for type, op in OPS.items()
    if (type in RULES or op.is_elementwise) and not op.is_grad and set(op.needs) <= {"wanted"}
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Dynamic mode in which kernels do whatever they can, however small; the ops they did."""
    for name in ("LEAST", "LEAST_ROWS", "LEAST_WORK"):
        monkeypatch.setattr(kernels, name, 0)
    types: list[str] = []
    run = OneOp.__call__

    def noted(self: OneOp, *arrays: Any) -> Any:
        results = run(self, *arrays)
        types.extend([] if results is None else [self._node.type])
        return results

    monkeypatch.setattr(OneOp, "__call__", noted)
    with recording(DynamicRecorder()):
        yield types


def askew(array: np.ndarray) -> np.ndarray:
    """The same values in memory that is not contiguous."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]


@pytest.mark.parametrize("type", sorted(RULED & CASES_OF.keys()))
def test_cases_give_what_the_body_gives(type: str, runs: list[str]) -> None:
    """Each twice, on other memory, the second time not contiguous: what points there is put right each time."""
    for case in CASES_OF[type]:
        arrays = case.arrays("float32")
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        gs = C.cotangents(case, outputs) if case.differentiated() else []
        want = C.run_backward(case, arrays, outputs, gs) if case.differentiated() else {}
        for place in (np.copy, askew):
            given = [
                C.tree_map(lambda a, keep=slot.name in want: Tensor(place(a), stop_gradient=not keep), value)  # noqa: B023
                for slot, value in zip(case.op.inputs, arrays, strict=True)
            ]
            outs = case.op(*given, **case.attrs)
            outs = outs if isinstance(outs, tuple) else (outs,)
            for out, expected in zip(outs, outputs, strict=True):
                if out is not None and not isinstance(expected, list | tuple):
                    _close(out.array, expected, case.label, rtol=1e-4, atol=1e-5)
            starts = [(o, Tensor(g)) for o, g in zip(outs, gs, strict=False) if isinstance(o, Tensor) and g is not None]
            starts = [(o, g) for o, g in starts if not o.stop_gradient]
            if not starts or len(starts) < sum(g is not None for g in gs):
                continue
            paddle.autograd.backward(*map(list, zip(*starts, strict=True)))
            for slot, value in zip(case.op.inputs, given, strict=True):
                if slot.name in want and isinstance(value, Tensor):
                    assert value.grad is not None
                    gradient = C.dense(value.grad.array)
                    _close(gradient, C.dense(want[slot.name]), f"{slot.name} of {case.label}", rtol=1e-3, atol=1e-4)


def test_most_ops_with_kernels_take_them(runs: list[str]) -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32), stop_gradient=False)
    w = Tensor(np.ones((4, 3, 3, 3), np.float32), stop_gradient=False)
    F = paddle.nn.functional
    y = F.gelu(F.max_pool2d(F.conv2d(x, w, padding=1), 2, 2))
    y = F.layer_norm(y, [4], Tensor(np.ones(4, np.float32)), Tensor(np.zeros(4, np.float32)))
    loss = F.cross_entropy(F.softmax(y).reshape([2, -1]), paddle.to_tensor([1, 2]))
    loss.backward()
    forward = ["conv2d", "pool2d", "gelu", "layer_norm", "softmax", "softmax_with_cross_entropy"]
    assert set(forward) | {f"{type}_grad" for type in forward} <= set(runs)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_dtypes_run_in_kernels(dtype: str, runs: list[str]) -> None:
    """Against formulas in float64: of halves the result is rounded once."""
    F, rng = paddle.nn.functional, np.random.default_rng(0)
    x = paddle.to_tensor(rng.standard_normal((7, 65)).astype(np.float32)).astype(dtype)
    wide = x.numpy().astype(np.float64)
    grown, away = np.exp(wide), wide - wide.mean(1, keepdims=True)
    expected = {
        "gelu": (F.gelu(x), 0.5 * wide * (1 + erf(wide / np.sqrt(2)))),
        "softmax": (F.softmax(x), grown / grown.sum(1, keepdims=True)),
        "layer_norm": (F.layer_norm(x, [65]), away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5)),
    }
    near = {"float64": 1e-13, "bfloat16": 2.0**-9, "float16": 2.0**-11}[dtype]  # half a unit in the last place
    for type, (result, exact) in expected.items():
        assert type in runs
        np.testing.assert_allclose(result.numpy().astype(np.float64), exact, rtol=2.01 * near, atol=near * 1e-3)


def test_what_kernels_decline_is_said_by_the_body(runs: list[str]) -> None:
    logits = paddle.ones([4, 3])
    with pytest.raises(ValueError, match=r"label(.|\n)*softmax_with_cross_entropy"):
        paddle.nn.functional.cross_entropy(logits, paddle.to_tensor([0, 1, 2, 7]))
    paddle.nn.functional.cross_entropy(logits, paddle.to_tensor([0, 1, 2, 0]))
    assert "softmax_with_cross_entropy" in runs


def test_threads_have_tapes_of_their_own() -> None:
    """The same op at the same time on other values: nobody sees another's memory."""
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((64, 256)).astype(np.float32) for _ in range(4)]
    with recording(dynamic_recorder):
        want = [paddle.nn.functional.gelu(Tensor(a)).numpy() for a in given]
    wrong: list[int] = []

    def work(number: int) -> None:
        with recording(dynamic_recorder):
            for _ in range(200):
                result = paddle.nn.functional.gelu(Tensor(given[number]))
                if not np.array_equal(result.numpy(), want[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(t.is_alive() for t in threads) and wrong == []


def test_the_same_bits_from_the_first_call_on() -> None:
    """Nothing is prepared later that would give others."""
    x = Tensor(np.random.default_rng(2).standard_normal((32, 128)).astype(np.float32))
    with recording(DynamicRecorder()):
        results = {paddle.nn.functional.gelu(x).numpy().tobytes() for _ in range(6)}
    assert len(results) == 1
