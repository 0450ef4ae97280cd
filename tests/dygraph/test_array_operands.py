"""NumPy arrays as operands of infix operators, against what NumPy gives."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import workbench as paddle


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "gt", "le", "pow", "matmul"])
def test_arrays_are_operands_on_both_sides(name: str, dtype: str) -> None:
    if name == "matmul" and dtype != "float32":
        pytest.skip("products of matrices take one dtype, of tensors as well")
    function = getattr(operator, name)
    ours, array = np.array([1.0, 2.0], np.float32), np.array([2, 3], dtype)
    expected = function(ours, array)
    if expected.dtype != bool:
        expected = expected.astype(dtype if dtype == "float64" else "float32")  # as tensors of these dtypes
    results = [function(paddle.to_tensor(ours), array)]
    results += [] if name == "matmul" else [function(array, paddle.to_tensor(ours))]
    for result, value in zip(results, [expected, function(array, ours).astype(expected.dtype)], strict=False):
        assert result.numpy().dtype == value.dtype
        np.testing.assert_allclose(result.numpy(), value, rtol=1e-6)
