"""NumPy arrays as operands of infix operators, against what NumPy gives; tensors where ops take numbers."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from tests.autodiff.small import Built
from workbench.errors import InvalidArgument, InvalidType

F = paddle.nn.functional


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


# Tensors of one element where an op takes a number


@pytest.mark.parametrize(
    ("function", "number"),
    [
        (lambda n: F.dropout(x_of(4), n), 1.0),
        (lambda n: paddle.nn.Dropout(n)(x_of(4)), 1.0),
        (lambda n: F.dropout2d(x_of(1, 2, 2, 2), n), 1.0),
        (lambda n: F.layer_norm(x_of(2, 4), [4], epsilon=n), 0.5),
        (lambda n: F.one_hot(paddle.to_tensor([1]), n), 3),
        (lambda n: F.cross_entropy(x_of(1, 4), paddle.to_tensor([1]), ignore_index=n), 1),
        (lambda n: F.leaky_relu(-x_of(4), n), 0.25),
        (lambda n: paddle.cumsum(x_of(2, 4), n), 1),
        (lambda n: F.elu(-x_of(4), n), 0.5),
    ],
)
def test_a_tensor_of_one_element_is_the_number_it_holds(function: Any, number: float) -> None:
    for shape in ([], [1]):
        tensor = paddle.to_tensor(np.full(shape, number))
        np.testing.assert_array_equal(function(tensor).numpy(), function(number).numpy())


def test_a_number_in_a_tensor_is_that_of_now() -> None:
    slope = paddle.to_tensor(0.5)
    captured = paddle.jit.capture(lambda x: F.leaky_relu(x, slope))
    for value in (0.5, 0.25, 0.125):
        slope.set_value(np.float32(value))
        assert F.leaky_relu(paddle.to_tensor([-1.0]), slope).item() == -value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert captured(paddle.to_tensor([-1.0])).item() == -value


def test_several_elements_and_variables_are_no_number() -> None:
    with pytest.raises(InvalidArgument, match=r"shape \[2\] needs the index"):
        F.dropout(x_of(4), paddle.to_tensor([0.5, 0.5]))
    with Built(), pytest.raises(InvalidType, match="dropout_prob is a number that is known when the program is built"):
        F.dropout(paddle.static.data("x", [4]), paddle.static.data("p", [1]))


def x_of(*shape: int) -> Any:
    return paddle.to_tensor(np.arange(1.0, np.prod(shape) + 1, dtype=np.float32).reshape(shape))
