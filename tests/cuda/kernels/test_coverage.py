"""For how many types of ops a CUDA kernel can be generated; run with `-s` to see the count."""

from __future__ import annotations

import workbench.ops  # fills the op table
import workbench.optimizer
from workbench.cuda.kernels.declared import DRAWS, MOVES, covered, has_kernel
from workbench.framework.op.record import all_ops

assert workbench.ops
assert workbench.optimizer


def test_how_many_types_have_kernels() -> None:
    ops = list(all_ops().values())
    kinds = covered(ops)
    for way, types in kinds.items():
        print(f"{len(types):4} from {way}")
    total = sum(map(len, kinds.values()))
    print(f"{total:4} of {len(ops)} types of ops have CUDA kernels")
    assert total >= 180


def test_all_element_wise_ops_have_one() -> None:
    assert [op.type for op in all_ops().values() if op.is_elementwise and not has_kernel(op)] == []


def test_ops_whose_kernels_are_written_by_hand_are_there() -> None:
    assert set(all_ops()) >= {*MOVES, *DRAWS}
    assert has_kernel(all_ops()["while"]) == ""
