"""Every op case in dynamic mode: the bits of the op's body, and through the tape the gradients of its backward op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.ops import case as C
from tests.ops.test_cases import _close, _differentiable, _equal, over
from workbench.dygraph.dispatch import kernels
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.dygraph.tape.leaves import backward
from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.op.recorder import recording
from workbench.framework.values.random import RandomStream
from workbench.framework.values.spec import spec_of


@pytest.fixture(autouse=True)
def dynamic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dynamic mode, by NumPy alone, drawing every random number from one stream."""
    monkeypatch.setattr(kernels, "LEAST", 1 << 30)
    monkeypatch.setattr(kernels, "LEAST_ROWS", 1 << 40)
    monkeypatch.setattr(RandomStream, "dynamic", classmethod(lambda cls, seed=0: C.STREAM))
    with recording(dynamic_recorder):
        yield


def tensors(case: C.Case, arrays: list[Any]) -> list[Any]:
    """A leaf per array; those that are differentiated want a gradient."""
    wanted = case.differentiated()
    return [
        C.tree_map(lambda a, keep=slot.name in wanted: Tensor(a.copy(), stop_gradient=not keep), value)
        if not C.is_rows(value)
        else Tensor(value)
        for slot, value in zip(case.op.inputs, arrays, strict=True)
    ]


def applied(case: C.Case, given: list[Any]) -> tuple[Any, ...]:
    outs = case.op(*given, **case.attrs)
    return outs if isinstance(outs, tuple) else (outs,)


def uses(case: C.Case) -> int:
    """How often to apply a case: so often that faster calls have been made where there are some."""
    op = case.op
    return 5 if op.is_elementwise or op.is_view else 1


def flat(values: Any) -> list[Any]:
    return [t for v in values for t in (v if isinstance(v, list) else [v])]


@over()
def test_forward(case: C.Case) -> None:
    """The bits of the body, in memory of its own unless the op is a view; shape and dtype as they are said to be."""
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)
        want = C.run_forward(case.op, arrays, case.full_attrs)
        for _ in range(uses(case)):
            given = tensors(case, arrays)
            for out, expected in zip(applied(case, given), want, strict=True):
                expected = list(expected) if isinstance(expected, tuple) else expected
                _equal(C.tree_map(lambda t: t.array, out) if out is not None else None, expected, dtype)
                for tensor in flat([out]) if out is not None else []:
                    assert tensor.kind.spec == spec_of(tensor.array)
                    shares = any(
                        np.may_share_memory(tensor.array, t.array)
                        for t in flat(given)
                        if t is not None and tensor.kind.is_dense and t.kind.is_dense and tensor.size
                    )
                    assert case.op.is_view or not shares


@over(_differentiable)
def test_gradient(case: C.Case) -> None:
    """Leaves get what the backward op gives."""
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        gs = C.cotangents(case, outputs)
        want = C.run_backward(case, arrays, outputs, gs)
        for _ in range(uses(case)):
            given = tensors(case, arrays)
            outs = applied(case, given)
            starts = [
                (t.source, g)
                for out, g in zip(outs, gs, strict=True)
                if out is not None and g is not None
                for t, g in zip(flat([out]), g if isinstance(g, list) else [g], strict=True)
                if t.source is not None
            ]
            backward(starts, False, Tensor)
            for slot, value in zip(case.op.inputs, given, strict=True):
                if slot.name in case.differentiated():
                    gradients = [None if t.grad is None else C.dense(t.grad.array) for t in flat([value])]
                    expected = C.leaves([want[slot.name]])
                    assert [f is None for f in gradients] == [False] * len(expected)
                    tolerance = {"rtol": 1e-6, "atol": 1e-7} if dtype != "float16" else {"rtol": 1e-2, "atol": 1e-3}
                    _close(gradients, expected, f"{slot.name} in {dtype}", **tolerance)
