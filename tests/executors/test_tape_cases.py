"""Every op that has a rule: its cases on the tape against NumPy calls, forward and backward.

The list is that of the rules, so an op is tested here as soon as it has one and a case.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import workbench as wb
from tests.executors.tape_runs import compare
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.executors.tape.rules import RULES
from workbench.executors.tape.table import rule_of  # noqa: F401 (notes the rules)
from workbench.framework.op import OPS
from workbench.ops.update import UPDATES

CASES_OF: dict[str, list[C.Case]] = defaultdict(list)
for one in CASES:
    CASES_OF[one.type].append(one)

TYPES = sorted(type for type in RULES if type in OPS and not OPS[type].is_grad and type not in UPDATES)


def by_numpy(case: C.Case, last: bool = False) -> set[str]:
    """The types of ops a case's program runs as NumPy calls; its results are the same both ways.

    Args:
        last: only the last output is made, as a loss is.
    """
    arrays = case.arrays("float32")
    feed = {f"x{i}": a for i, a in enumerate(C.leaves(arrays))}

    def body(*variables: Any) -> list[Any]:
        rest = iter(variables)
        found = case.op(*(C.tree_map(lambda a: next(rest), value) for value in arrays), **case.attrs)
        slots = found if isinstance(found, tuple) else (found,)
        outs = [one for out in slots if out is not None for one in (out if isinstance(out, list) else [out])]
        return [wb.cast(out, "float32") for out in (outs[-1:] if last else outs)]

    return compare(body, feed, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("type", TYPES)
def test_the_cases_of_an_op_give_the_same_on_the_tape(type: str) -> None:
    """And some of them, whose operands suit the rule, run in kernels, forward and backward."""
    cases = [c for c in CASES_OF[type] if c.check is None and not any(map(C.is_rows, c.inputs))]
    found = [by_numpy(case, last) for case in cases for last in {False, len(case.op.outputs) > 1}]
    assert not cases or not all(type in types for types in found)
    assert not cases or type + "_grad" not in RULES or not all(type + "_grad" in types for types in found)
