"""The cases of all ops in programs whose sizes are unknown, one shape after the other: kernels against NumPy calls."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import tape
from tests.ops import case as C
from tests.ops.test_cases import CASES
from tests.parallel.models import devices
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet

Arrays = list[np.ndarray]
NEEDS_SIZES = {"batch_norm_grad_with_sums", "batch_norm_with_sums"}  # every case of theirs
CASES_OF: dict[str, list[C.Case]] = defaultdict(list)
for _case in CASES:
    if not any(map(C.is_rows, _case.inputs)) and C.leaves(_case.inputs):
        CASES_OF[_case.type].append(_case)


class Unknown(NamedTuple):
    """A program with one op, and what is fetched: its results, and the gradients of the numbers it is fed."""

    program: Any
    fetch: list[str]
    loss: str | None

    def executor(self) -> Any:
        with devices(1):
            return static.ParallelExecutor(
                use_cuda=False, main_program=self.program, loss_name=self.loss, scope=static.Scope()
            )


def unknown(case: C.Case) -> Unknown:
    """A case in which every dimension is unknown that is 2 or more, and that `infer` can do without."""
    slots = case.arrays("float32")
    shapes = [
        [None if d > 1 and case.known.get(slot.name) is None else d for d in array.shape]
        for slot, value in zip(case.op.inputs, slots, strict=False)
        for array in C.leaves([value])
    ]
    with Built() as built:
        fed = [
            static.data(f"x{i}", shape, str(array.dtype))
            for i, (shape, array) in enumerate(zip(shapes, C.leaves(slots), strict=True))
        ]
        for x in fed:
            x.stop_gradient = False
        rest = iter(fed)
        outputs = case.op(*(C.tree_map(lambda array: next(rest), value) for value in slots), **case.attrs)
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        outs = [v for value in values if value is not None for v in (value if isinstance(value, list) else [value])]
        outs = [wb.cast(out, "float32") for out in outs]
        loss = wb.add_n([wb.sum(out * out) for out in outs])
        try:
            grads = [g for g in static.gradients(loss, [x for x in fed if x.dtype.is_float]) if g is not None]
        except EnforceNotMet:  # it has none
            grads = []
    return Unknown(built.main, [v.name for v in (*outs, *grads)], loss.name if grads else None)


IN_ORDER = {"searchsorted"}  # ops whose first operand is a sorted sequence: what they say of others is open


def repeated(case: C.Case, arrays: Arrays, axis: int, times: int) -> Arrays:
    """Longer ones, where they have such an axis and it is unknown."""
    longer = [np.concatenate([a] * times, axis) if a.ndim > axis and a.shape[axis] > 1 else a for a in arrays]
    return [np.sort(longer[0]), *longer[1:]] if case.type in IN_ORDER else longer


def shortened(arrays: Arrays, count: int) -> Arrays:
    """The first few rows of those that have as many as the first one."""
    rows = arrays[0].shape[:1]
    return [a[:count] if rows and a.shape[:1] == rows and rows[0] > 1 else a for a in arrays]


def outcome(executor: Any, fetch: list[str], arrays: Arrays) -> Arrays | type[EnforceNotMet]:
    """What a step gives, or which error it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.array(a) for a in executor.run(fetch, feed={f"x{i}": a for i, a in enumerate(arrays)})]
        except EnforceNotMet as error:
            return type(error)


def check(case: C.Case) -> int:
    """Run a case in several shapes; how many of them the op takes."""
    program, first = unknown(case), C.leaves(case.arrays("float32"))
    with override(cpu_tape=False):
        by_numpy = program.executor()
    with tape():
        in_kernels = program.executor()
    shapes = [repeated(case, first, axis, times) for axis, times in ((0, 1), (0, 2), (0, 3), (1, 2), (0, 5), (2, 3))]
    taken = 0
    for arrays in (*shapes, shortened(first, 0), shortened(first, 1), first):
        with override(cpu_tape=False):
            expected = outcome(by_numpy, program.fetch, arrays)
        with tape():
            results = outcome(in_kernels, program.fetch, arrays)
        if not isinstance(expected, list):
            assert results is expected, [a.shape for a in arrays]
            continue
        taken += 1
        assert isinstance(results, list)
        for name, a, b in zip(program.fetch, results, expected, strict=True):
            most = np.abs(b[np.isfinite(b)]).max(initial=0)
            np.testing.assert_allclose(a, b, 2e-4, 2e-5 * (1 + most), err_msg=f"{name} of {[x.shape for x in arrays]}")
    return taken


@pytest.mark.parametrize("type", sorted(CASES_OF))
def test_shapes_in_turn_give_what_each_gives_alone(type: str) -> None:
    wb.enable_static()
    taken = 0
    for case in CASES_OF[type]:
        try:
            unknown(case)
        except EnforceNotMet:
            continue  # it has to know its sizes
        taken += check(case)
    assert taken or type in NEEDS_SIZES
