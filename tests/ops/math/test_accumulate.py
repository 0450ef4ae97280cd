"""The `sum` op on sparse gradients: rows stay rows, a mixture becomes dense, buffers are written."""

from __future__ import annotations

import numpy as np
import pytest

import workbench.ops  # fills the op table
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import ROWS, spec_of

assert workbench.ops
SUM = find_op("sum")
A = Rows(np.array([0, 3, 0]), np.arange(6.0).reshape(3, 2), 5)
B = Rows(np.array([4]), np.array([[10.0, 20.0]]), 5)
DENSE = np.arange(10.0).reshape(5, 2)
# written out by hand: rows 0, 3, 0 of A hold [0 1], [2 3], [4 5]
A_DENSE = np.array([[4.0, 6.0], [0, 0], [0, 0], [2, 3], [0, 0]])
B_DENSE = np.array([[0.0, 0], [0, 0], [0, 0], [0, 0], [10, 20]])


def test_rows_stay_rows() -> None:
    total = SUM.forward(numpy_xp, [A, B])
    assert isinstance(total, Rows) and total.shape == (5, 2)
    assert total.rows.tolist() == [0, 3, 0, 4]
    np.testing.assert_array_equal(total.to_dense(np), A_DENSE + B_DENSE)
    assert SUM.infer([spec_of(A), spec_of(B)]).kind == ROWS


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_mixture_becomes_dense(order: int) -> None:
    terms = [A, DENSE, B]
    terms = terms[order:] + terms[:order]
    total = SUM.forward(numpy_xp, terms)
    np.testing.assert_array_equal(total, A_DENSE + B_DENSE + DENSE)
    assert SUM.infer([spec_of(t) for t in terms]) == spec_of(total)


def test_a_single_term_is_copied() -> None:
    total = SUM.forward(numpy_xp, [DENSE])
    assert total is not DENSE and not np.shares_memory(total, DENSE)
