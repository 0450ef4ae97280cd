"""Every op that has a rule or declares a kernel: its cases on the tape against NumPy calls, forward and backward.

So an op is tested here as soon as it has one of them and a case.
"""

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
from tests.parallel.models import devices
from workbench import static
from workbench.executors.lowering.tape.registry import RULES
from workbench.executors.lowering.tape.table import rule_of  # noqa: F401 (notes the rules)
from workbench.executors.planning.memory.refs import contiguous
from workbench.framework.op.record import OPS

CASES_OF: dict[str, list[C.Case]] = defaultdict(list)
for one in CASES:
    CASES_OF[one.type].append(one)

OWN = RULES.keys() & OPS.keys() | {type for type, op in OPS.items() if op.kernel is not None}  # rules or kernels
TYPES = sorted(type for type in OWN if not OPS[type].is_grad)


def by_numpy(case: C.Case, last: bool = False) -> set[str]:
    """The types of ops a case's program runs as NumPy calls; its results are the same both ways.

    Args:
        last: only the last output is made, as a loss is.
    """
    arrays = case.arrays("float32")
    feed = {f"x{i}": a for i, a in enumerate(C.leaves(arrays))}

    def body(*variables: Any) -> list[Any]:
        rest = iter(variables)
        outputs = case.op(*(C.tree_map(lambda a: next(rest), value) for value in arrays), **case.attrs)
        slots = outputs if isinstance(outputs, tuple) else (outputs,)
        outs = [one for out in slots if out is not None for one in (out if isinstance(out, list) else [out])]
        return [wb.cast(out, "float32") for out in (outs[-1:] if last else outs)]

    return compare(body, feed, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("type", TYPES)
def test_the_cases_of_an_op_give_the_same_on_the_tape(type: str) -> None:
    """And some of them, whose operands suit the rule, run in kernels, forward and backward."""
    cases = [c for c in CASES_OF[type] if c.check is None and not any(map(C.is_rows, c.inputs))]
    types_by_numpy = [by_numpy(case, last) for case in cases for last in {False, len(case.op.outputs) > 1}]
    assert not cases or not all(type in types for types in types_by_numpy)
    assert not cases or type + "_grad" not in OWN or not all(type + "_grad" in types for types in types_by_numpy)


# Layouts

FREE = sorted(type for type, op in OPS.items() if op.layout_free and not op.is_grad)
HEADS = [0, 2, 1, 3]  # what is made per head is joined along the last dimension


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


JOINS = {"reshape": lambda x: wb.reshape(x, [2, 4, 12]), "flatten": lambda x: wb.flatten(x, 2)}


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("type", FREE)
def test_what_is_layout_free_is_written_by_kernels_as_its_readers_want_it(type: str, join: str) -> None:
    """Result and gradients are transposed, then reshaped."""

    def body(*joined: Any) -> list[Any]:
        given = (wb.transpose(wb.reshape(v, [2, 4, 3, 4]), HEADS) for v in joined)
        return [JOINS[join](wb.transpose(OPS[type](*given), HEADS))]

    feed = {name: numbers(2, 4, 12) for name in operands_of(type)}
    assert compare(body, feed) == set()
    plan = plan_of(body, feed)
    written = [plan.refs[v] for n in plan.graph.nodes if n.type in (type, type + "_grad") for v in n.writes]
    assert [ref.strides != contiguous(ref) for ref in written] == [True] * (1 + len(feed))


def operands_of(type: str) -> list[str]:
    """What the op cannot do without."""
    return [slot.name for slot in OPS[type].inputs if not slot.optional]


@pytest.mark.parametrize("type", FREE)
def test_a_layout_without_a_dense_matrix_is_not_asked_of_them(type: str) -> None:
    """Kernels would leave the row to NumPy."""

    def body(*given: Any) -> list[Any]:
        return [wb.reshape(wb.transpose(OPS[type](*given), [3, 2, 1, 0]), [16, 6])]

    feed = {name: numbers(2, 3, 4, 4) for name in operands_of(type)}
    assert type not in compare(body, feed)
    (written,) = [plan.refs[n.writes[0]] for plan in [plan_of(body, feed)] for n in plan.graph.nodes if n.type == type]
    assert written.strides == contiguous(written)


def plan_of(body: Any, feed: dict[str, Any]) -> Any:
    """The plan of a step on one device that makes the gradients of the first result."""
    with Built() as built:
        inputs = [static.data(name, list(array.shape)) for name, array in feed.items()]
        for one in inputs:
            one.stop_gradient = False
        loss = wb.sum(wb.square(body(*inputs)[0]))
        fetches = [loss, *static.gradients(loss, inputs)]
    with tape(), devices(1):
        exe = static.ParallelExecutor(use_cuda=False, main_program=built.main, loss_name=loss.name)
        exe.run(fetches, feed=feed)
    return exe.inspection.last.plan
