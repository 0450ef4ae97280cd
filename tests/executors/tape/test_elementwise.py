"""Element-wise ops on the tape: every one that has a native form gives what its NumPy steps give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.native.kernels.vector_rows import run
from tests.native.one_row import kernels
from tests.ops.case import Case
from tests.ops.test_cases import CASES
from tests.parallel.models import Model, build
from workbench import static
from workbench.config import override
from workbench.executors.lowering.tape.segment import Segment
from workbench.framework.expr.lowered import Lowered
from workbench.framework.op.record import Op, look_up
from workbench.framework.op.traced import steps_of
from workbench.framework.program.guard import static_mode

NOT_NATIVE = {
    "elementwise_floordiv", "elementwise_mod", "cast", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
    "sinh_grad", "cosh_grad",
}  # fmt: skip
"""float32 ops whose steps stay NumPy calls: remainders, angles, and casts to what is neither float32 nor bool."""


def _is_plain(case: Case) -> bool:
    """Whether all its operands are arrays of float32 and truth values."""
    return case.op.is_elementwise and all(
        a is None or (isinstance(a, np.ndarray) and a.dtype in (np.float64, np.bool_) and a.size) for a in case.inputs
    )


ELEMENTWISE = [case for case in CASES if _is_plain(case)]


def _forms(case: Case) -> Iterator[tuple[Op, Lowered, list[Any]]]:
    """The op's steps and those of its gradient, with operands."""
    inputs = case.arrays("float32")
    form = steps_of(case.op, tuple(None if a is None else a.dtype for a in inputs), case.full_attrs)
    if form is None:
        assert case.type in NOT_NATIVE
        return
    yield case.op, form, inputs
    backward = look_up(f"{case.type}_grad")
    if backward is None:
        return
    with np.errstate(all="ignore"):
        outputs = dict(zip((s.name for s in case.op.outputs), form.evaluate(inputs), strict=True))
    known = dict(zip((s.name for s in case.op.inputs), inputs, strict=True)) | outputs
    g = np.random.default_rng(0).standard_normal(np.shape(next(iter(outputs.values())))).astype(np.float32)
    operands = [known.get(slot.name, g) for slot in backward.inputs]
    form = steps_of(backward, tuple(None if a is None else a.dtype for a in operands), case.full_attrs)
    if form is not None:
        yield backward, form, operands


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[case.label for case in ELEMENTWISE])
def test_steps_give_what_numpy_gives(case: Case) -> None:
    for op, form, operands in _forms(case):
        shape = np.broadcast_shapes(*(np.shape(a) for a in operands if a is not None))
        with np.errstate(all="ignore"):
            expected = [np.broadcast_to(r, shape).astype(_dtype(r)) for r in form.evaluate(operands) if r is not None]
        outs = [np.empty(shape, e.dtype) for e in expected]
        results = tuple(r for r in form.results if r is not None)
        asked = Lowered(form.dtypes, form.constants, form.steps, results)
        if run(shape, [(asked, operands, outs)]) == [False]:
            assert op.type in NOT_NATIVE
            continue
        for out, one in zip(outs, expected, strict=True):
            np.testing.assert_allclose(out, one, rtol=2e-6, atol=1e-6, err_msg=op.type)


def _dtype(result: Any) -> Any:
    """Results are float32 also where a rule gives a plain number."""
    return np.bool_ if np.asarray(result).dtype == np.bool_ else np.float32


# Programs


def activations() -> Any:
    """Rows that are joined and rows that are not: broadcasts, in-place results, rows added up, truth values."""
    functional = wb.nn.functional
    x = static.data("x", [None, 24])
    h = x
    for f in ("relu", "gelu", "sigmoid", "softplus", "elu", "silu", "hardswish", "mish", "log_sigmoid", "tanh"):
        h = getattr(functional, f)(static.nn.fc(h, 24)) + h * 0.5
    kept = wb.where(h > 0.0, wb.sqrt(wb.abs(h) + 1.0), wb.cos(h))
    return wb.mean(kept**3 + wb.log1p(wb.exp(wb.minimum(h, 2.0))))


def trained(model: Model, devices: int) -> tuple[dict[str, np.ndarray], set[str]]:
    """All that the program keeps after three steps, and the types of rows that were NumPy calls."""
    model.start()
    exe = model.parallel(devices)
    for step in range(3):
        exe.run([], feed={"x": np.random.default_rng(step).standard_normal((10, 24), np.float32)})
    programs = [p for part in (exe.inspection.last.speculative, exe.inspection.last.commit) for p in part]
    return model.values(), {u.row.node.type for p in programs for u in p.units if not isinstance(u, Segment)}


@pytest.mark.parametrize("devices", [1, 2])
def test_training_gives_what_numpy_calls_give(devices: int) -> None:
    kernels()
    with static_mode(), override(cpu_tape=True):
        values, by_numpy = trained(build(activations, wb.optimizer.Adam(1e-3)), devices)
    assert by_numpy <= {"fill_constant"}
    with static_mode(), override(cpu_tape=False):
        expected, _ = trained(build(activations, wb.optimizer.Adam(1e-3)), devices)
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
