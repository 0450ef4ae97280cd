"""Optimizers over flat buckets on a simulated GPU, against the NumPy form in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.optimizer  # fills the op table
from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.kernels.elementwise import ElementwiseKernel
from workbench.cuda.kernels.launch import Launch
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.updates import update_kernel
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import Op, all_ops
from workbench.framework.values.dtype import as_dtype

assert workbench.optimizer
NEAR = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}


def updates() -> list[Op]:
    """The ops whose formula holds element by element."""
    covering = []
    for op in all_ops().values():
        if op.update is not None:
            try:
                update_kernel(op, ["float32"] * len(op.inputs), op.complete({}))
            except NoKernel:
                continue
            covering.append(op)
    return covering


UPDATES = updates()


def arrays_for(op: Op, count: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(3)
    betas = len(op.update.betas)
    arrays = []
    for n in range(len(op.inputs)):
        is_scalar = n == 2 or n >= len(op.inputs) - betas
        values = rng.random(1 if is_scalar else count) * (0.5 if is_scalar else 1.0) + 0.1
        own = "float32" if is_scalar and dtype != "float64" else dtype
        arrays.append((values if n != 1 else values - 0.6).astype(as_dtype(own).numpy))
    return arrays


def run_part(part: ElementwiseKernel, how: Launch, arrays: list[Any], in_place: dict[int, int], seed: int) -> None:
    """Run a kernel on arrays; an output goes where the input is that it replaces."""
    slots = [int(name[1:]) if name[0] == "x" else in_place[int(name[1:])] for name, _ in part.kernel.operands]
    given = list(dict.fromkeys(slots))
    after, counted = run_kernel(part.kernel, how, [arrays[n] for n in slots], seed, shared=slots)
    for n in given:
        arrays[n] = after[len(slots) - 1 - slots[::-1].index(n)]
    assert counted.loads.sectors <= 1.1 * counted.loads.ideal


def updated(op: Op, arrays: list[Any], seed: int) -> list[Any]:
    kernel = update_kernel(op, [a.dtype for a in arrays], op.complete({}))
    in_place = dict(enumerate([0, *range(3, len(op.inputs))]))
    after = list(arrays)
    parts = [kernel.formula] + ([kernel.powers] if kernel.powers is not None else [])
    for part, how in zip(parts, kernel.launches(arrays[0].size), strict=True):
        run_part(part, how, after, in_place, seed)
    return [after[n] for n in in_place.values()]


@pytest.mark.parametrize("op", UPDATES, ids=[op.type for op in UPDATES])
def test_updates_agree_with_the_formula_in_double_precision(op: Op) -> None:
    for dtype, near in NEAR.items():
        for count in (1, 1000):
            arrays = arrays_for(op, count, dtype)
            wide = [a.astype(np.float64) for a in arrays]
            want = op.forward(numpy_xp, *wide, **op.complete({}))
            got = updated(op, arrays, seed=count)
            for a, b in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
                np.testing.assert_allclose(a.astype(np.float64), b, rtol=4 * near, atol=near, err_msg=dtype)


def test_adam_and_its_like_are_among_them() -> None:
    types = {op.type for op in UPDATES}
    assert {"sgd", "momentum", "adam", "adagrad", "rmsprop", "adamax", "adadelta"} <= types


def test_an_op_that_is_no_update_is_refused() -> None:
    with pytest.raises(NoKernel):
        update_kernel(all_ops()["relu"], ["float32"], {})
