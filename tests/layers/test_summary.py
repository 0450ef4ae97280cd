"""`summary`: the table, its numbers, and that it leaves the net as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework import names

nn = wb.nn


def lenet() -> Any:
    return nn.Sequential(nn.Conv2D(1, 6, 3), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(), nn.Linear(1014, 10))


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with names.guard():
        net = lenet()
        counts = wb.summary(net, (None, 1, 28, 28))
    parameters = 6 * 9 + 6 + 1014 * 10 + 10
    assert counts == {"total_params": parameters, "trainable_params": parameters}
    outputs = 2 * 4 * (6 * 26 * 26 * 2 + 6 * 13 * 13 + 1014 + 10) / 1024**2
    assert capsys.readouterr().out.splitlines() == [
        "-" * 75,
        f"{'Layer (type)':^15} {'Input Shape':^20} {'Output Shape':^20} {'Param #':^15}",
        "=" * 75,
        f"{'Conv2D-1':^15} {'[[1, 1, 28, 28]]':^20} {'[1, 6, 26, 26]':^20} {'60':^15}",
        f"{'ReLU-1':^15} {'[[1, 6, 26, 26]]':^20} {'[1, 6, 26, 26]':^20} {'0':^15}",
        f"{'MaxPool2D-1':^15} {'[[1, 6, 26, 26]]':^20} {'[1, 6, 13, 13]':^20} {'0':^15}",
        f"{'Flatten-1':^15} {'[[1, 6, 13, 13]]':^20} {'[1, 1014]':^20} {'0':^15}",
        f"{'Linear-1':^15} {'[[1, 1014]]':^20} {'[1, 10]':^20} {'10,150':^15}",
        "=" * 75,
        f"Total params: {parameters:,}",
        f"Trainable params: {parameters:,}",
        "Non-trainable params: 0",
        "-" * 75,
        "Input size (MB): 0.00",
        f"Forward/backward pass size (MB): {outputs:.2f}",
        f"Params size (MB): {4 * parameters / 1024**2:.2f}",
        f"Estimated Total Size (MB): {outputs + 4 * (parameters + 28 * 28) / 1024**2:.2f}",
        "-" * 75,
        "",
    ]


class Classifier(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(10, 4), nn.LSTM(4, 8)
        self.fc, self.norm = nn.Linear(8, 2), nn.BatchNorm1D(2)

    def forward(self, ids: Any) -> Any:
        outputs, (hidden, _) = self.lstm(self.table(ids))
        return self.norm(self.fc(hidden[0])), outputs


def test_wide_rows_and_parameters_that_are_not_trained(capsys: pytest.CaptureFixture[str]) -> None:
    with names.guard():
        net = Classifier()
        net.fc.bias.trainable = False
        counts = wb.summary(net, (3, 5), dtypes="int64")
    lines = capsys.readouterr().out.splitlines()
    shape = "[[3, 5, 8], [[1, 3, 8], [1, 3, 8]]]"
    assert f"{'LSTM-1':^15} {'[[3, 5, 4]]':^20} {shape} {'448':^15}" in lines
    assert lines[0] == "-" * (75 + len(shape) - 20) and "Non-trainable params: 6" in lines
    assert counts == {"total_params": 514, "trainable_params": 508}
    assert [line.split()[0] for line in lines[3:7]] == ["Embedding-1", "LSTM-1", "Linear-1", "BatchNorm1D-1"]


def test_the_net_is_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    net = Classifier()
    net.fc.eval()
    mean = net.norm._mean.numpy()
    wb.summary(net, (3, 5), dtypes="int64")
    assert net.training and not net.fc.training and np.array_equal(net.norm._mean.numpy(), mean)
    capsys.readouterr()
    net(wb.zeros([3, 5], "int64"))
    assert capsys.readouterr().out == ""


def test_several_inputs_and_given_ones(capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.Bilinear(4, 2, 5)
    assert wb.summary(net, [(3, 4), (3, 2)]) == {"total_params": 45, "trainable_params": 45}
    assert "[[3, 4], [3, 2]]" in capsys.readouterr().out
    assert wb.summary(nn.Linear(4, 3), input=wb.ones([7, 4]))["total_params"] == 15
    assert "[[7, 4]]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: wb.summary(nn.ReLU()), InvalidArgument, "takes input_size or input"),
        (lambda: wb.summary(3, (1,)), InvalidType, "takes a layer, got int 3"),
        (lambda: wb.summary(nn.ReLU(), (0, 1)), InvalidArgument, "at least 1"),
        (lambda: wb.summary(nn.ReLU(), (1,), dtypes=["int64", "int64"]), InvalidArgument, "a dtype per input"),
    ],
)
def test_what_it_refuses(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
