"""What a loader hands over: tensors in dynamic mode, arrays where programs are fed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader, Dataset, TensorDataset


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


class Samples(Dataset):
    def __getitem__(self, index: int) -> Any:
        return {"x": (np.full(2, index, np.float32), index), "name": f"s{index}"}

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_structure_stays(prefetch: int) -> None:
    first, _ = DataLoader(Samples(), batch_size=2, prefetch=prefetch)
    x, y = first["x"]
    assert isinstance(x, wb.Tensor) and x.shape == [2, 2] and x.dtype == wb.float32 and x.stop_gradient
    assert isinstance(y, wb.Tensor) and y.numpy().tolist() == [0, 1] and y.dtype == wb.int64
    assert first["name"] == ["s0", "s1"]


def test_without_batches_too() -> None:
    data = TensorDataset([np.arange(4), np.ones((4, 2), np.float32)])
    index, row = next(iter(DataLoader(data, batch_size=None)))
    assert int(index) == 0 and isinstance(row, wb.Tensor) and row.shape == [2]


def test_programs_are_fed_with_arrays() -> None:
    data = TensorDataset([np.arange(4)])
    with static_mode():
        (batch,) = next(iter(DataLoader(data, batch_size=2)))
    assert type(batch) is np.ndarray
    assert type(next(DataLoader(data, batch_size=2).arrays())[0]) is np.ndarray
    feed = next(iter(DataLoader(data, [Named("data")], batch_size=2, return_list=False)))
    assert type(feed["data"]) is np.ndarray


def test_a_dataset_of_tensors_gives_tensors() -> None:
    data = TensorDataset([wb.arange(4), wb.ones([4, 2])])
    index, row = data[2]
    assert isinstance(index, wb.Tensor) and int(index) == 2 and row.shape == [2]
    (whole, _) = next(iter(DataLoader(data, batch_size=4)))
    assert whole.numpy().tolist() == [0, 1, 2, 3]


def test_batches_can_be_trained_on() -> None:
    w = wb.create_parameter([2, 1], "float32")
    for x, y in DataLoader(TensorDataset([np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)]), batch_size=2):
        ((x @ w - y) * (x @ w - y)).sum().backward()
    assert w.grad.shape == [2, 1]
