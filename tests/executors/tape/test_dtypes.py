"""Every op that has a native form in float32: its cases in other dtypes, on the tape against NumPy calls."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, tape
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench import static
from workbench.executors.lowering.tape.registry import JOINED
from workbench.executors.lowering.tape.table import rule_of
from workbench.graph.ssa import Node

NEAR = {"float32": 1e-4, "bfloat16": 2.0**-7, "float16": 2.0**-10, "float64": 1e-9}  # of halves: one unit of the last
STATISTICS = {"batch_norm", "batch_norm_with_sums", "batch_norm_grad_with_sums"}  # float32 or longer beside halves


def has_rule(type: str) -> bool:
    return rule_of(Node(type, (0,), [], [], {}, 0)) is not None


def cases_by_type() -> dict[str, list[C.Case]]:
    cases = defaultdict(list)
    for case in CASES:
        if case.check is None and not any(map(C.is_rows, case.inputs)) and has_rule(case.type):
            cases[case.type].append(case)
    return cases


CASES_OF = cases_by_type()


def by_numpy(case: C.Case, dtype: str) -> set[str] | None:
    """The types of ops that ran as NumPy calls; None if the case has no operand of this dtype."""
    with np.errstate(over="ignore"):  # some numbers are too large for float16
        arrays = case.arrays(dtype)
    feed = {f"x{i}": a for i, a in enumerate(C.leaves(arrays))}
    if not any(str(a.dtype) == dtype for a in feed.values()):
        return None

    def body(*variables: Any) -> list[Any]:
        rest = iter(variables)
        outputs = case.op(*(C.tree_map(lambda a: next(rest), value) for value in arrays), **case.attrs)
        slots = outputs if isinstance(outputs, tuple) else (outputs,)
        outs = [one for out in slots if out is not None for one in (out if isinstance(out, list) else [out])]
        return [wb.cast(out, "float32") for out in outs]

    return compare(body, feed, rtol=NEAR[dtype], atol=NEAR[dtype] / 4)


def native_types(type: str, dtype: str) -> set[str]:
    """Which of an op and its gradient run in kernels, in some of the cases."""
    ran = [names for case in CASES_OF[type] if (names := by_numpy(case, dtype)) is not None]
    return {name for name in (type, type + "_grad") if not all(name in names for names in ran)}


@pytest.mark.parametrize("type", sorted(CASES_OF))
def test_the_cases_of_an_op_give_the_same_on_the_tape(type: str) -> None:
    """What has a form in float32 has one in the others, too."""
    in_float32 = native_types(type, "float32")
    for dtype in ("float64", "bfloat16", "float16"):
        if dtype == "float64" or type not in STATISTICS:
            missing = in_float32 - native_types(type, dtype)
            assert missing == (set() if dtype == "float64" else in_float32 & JOINED), dtype


def test_a_chain_of_two_widths_has_the_bits_of_its_ops() -> None:
    """Kernels work on float32 or on float64: what is between casts is joined, the whole is not."""
    with Built() as built:
        x = static.data("x", [None, 4])
        y = wb.tanh(wb.cast(wb.sin(wb.cast(wb.tanh(x), "float64") * 0.3), "float32") * 3.0)
    feed = {"x": np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)}
    results = []
    for joined in (False, True):
        strategy = static.BuildStrategy()
        strategy.enable_auto_fusion = joined
        with tape():
            executor = static.ParallelExecutor(use_cuda=False, main_program=built.main, build_strategy=strategy)
            results.append(np.asarray(executor.run([y.name], feed=feed)[0]))
        assert not executor.inspection.last.in_python
    assert results[0].tobytes() == results[1].tobytes()
