"""Tensors share no memory with the caller's arrays."""

import numpy as np

import workbench as wb


def test_a_tensor_made_of_an_array_does_not_follow_it() -> None:
    array = np.ones(3, np.float32)
    tensors = [
        wb.to_tensor(array),
        wb.reshape(array, [3, 1]),
        wb.transpose(array.reshape(1, 3), [1, 0]),
        wb.assign(array),
    ]
    array[...] = 5
    assert all((tensor.numpy() == 1).all() for tensor in tensors)


def test_the_array_of_a_tensor_is_a_copy() -> None:
    tensor = wb.to_tensor([1.0, 2.0])
    for array in (tensor.numpy(), np.array(tensor), np.asarray(tensor)):
        array[...] = 9
    assert tensor.tolist() == [1.0, 2.0]
