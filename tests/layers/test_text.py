"""The text of layers, as Paddle writes it, and the signatures of those made from a table."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import workbench as wb

nn = wb.nn


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Linear(2, 3), "Linear(in_features=2, out_features=3, dtype=float32)"),
        (lambda: nn.Linear(2, 3, name="l"), "Linear(in_features=2, out_features=3, dtype=float32, name=l)"),
        (lambda: nn.Bilinear(2, 3, 4), "Bilinear(in1_features=2, in2_features=3, out_features=4, dtype=float32)"),
        (lambda: nn.Embedding(5, 3), "Embedding(5, 3, sparse=False)"),
        (lambda: nn.Embedding(5, 3, -1, sparse=True), "Embedding(5, 3, padding_idx=4, sparse=True)"),
        (lambda: nn.PReLU(3), "PReLU(num_parameters=3, data_format=NCHW, init=0.25, dtype=float32)"),
        (lambda: nn.Conv1D(4, 6, 3), "Conv1D(4, 6, kernel_size=[3], data_format=NCL)"),
        (
            lambda: nn.Conv2D(4, 6, (3, 2), 2, 1, 2, 2, "reflect", data_format="NHWC"),
            "Conv2D(4, 6, kernel_size=[3, 2], stride=[2, 2], padding=1, padding_mode=reflect, dilation=[2, 2], "
            "groups=2, data_format=NHWC)",
        ),
        (
            lambda: nn.Conv2DTranspose(4, 6, 3, 2, output_padding=1),
            "Conv2DTranspose(4, 6, kernel_size=[3, 3], stride=[2, 2], output_padding=1, data_format=NCHW)",
        ),
        (lambda: nn.BatchNorm2D(4), "BatchNorm2D(num_features=4, momentum=0.9, epsilon=1e-05)"),
        (
            lambda: nn.BatchNorm1D(4, name="n"),
            "BatchNorm1D(num_features=4, momentum=0.9, epsilon=1e-05, data_format=NCL, name=n)",
        ),
        (lambda: nn.BatchNorm(4), "BatchNorm()"),
        (lambda: nn.LayerNorm(3), "LayerNorm(normalized_shape=[3], epsilon=1e-05)"),
        (lambda: nn.GroupNorm(2, 4), "GroupNorm(num_groups=2, num_channels=4, epsilon=1e-05)"),
        (lambda: nn.InstanceNorm2D(4), "InstanceNorm2D(num_features=4, epsilon=1e-05)"),
        (lambda: nn.LocalResponseNorm(5), "LocalResponseNorm(size=5, alpha=0.0001, beta=0.75, k=1.0)"),
        (lambda: nn.SpectralNorm([2, 3]), "SpectralNorm()"),
        (lambda: nn.ReLU(), "ReLU()"),
        (lambda: nn.ReLU(name="r"), "ReLU(name=r)"),
        (lambda: nn.Softplus(2, 3), "Softplus(beta=2, threshold=3)"),
        (lambda: nn.Dropout(0.1), "Dropout(p=0.1, axis=None, mode=upscale_in_train)"),
        (lambda: nn.Flatten(), "Flatten()"),
        (lambda: nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
        (lambda: nn.MaxPool2D(3, 2), "MaxPool2D(kernel_size=3, stride=2, padding=0)"),
        (lambda: nn.AdaptiveMaxPool2D(2), "AdaptiveMaxPool2D(output_size=2, return_mask=False)"),
        (
            lambda: nn.Upsample(scale_factor=2),
            "Upsample(scale_factor=2, mode=nearest, align_corners=False, align_mode=0, data_format=NCHW)",
        ),
        (lambda: nn.UpsamplingBilinear2D([4, 4]), "UpsamplingBilinear2D(size=[4, 4], data_format=NCHW)"),
        (lambda: nn.Unfold([2, 2]), "Unfold(kernel_size=[2, 2], dilation=1, padding=0, stride=1)"),
        (lambda: nn.PairwiseDistance(), "PairwiseDistance(p=2.0)"),
        (lambda: nn.PairwiseDistance(1, 0.1, True), "PairwiseDistance(p=1, epsilon=0.1, keepdim=True)"),
        (
            lambda: nn.RReLU(0.1, 0.3),
            "RReLU(lower=0.1, upper=0.3, training=True, dtype=float32)",
        ),
        (lambda: nn.LSTMCell(3, 4), "LSTMCell(3, 4)"),
        (lambda: nn.SimpleRNNCell(3, 4, "relu"), "SimpleRNNCell(3, 4, activation=relu)"),
    ],
)
def test_text_of_one_layer(make: Any, text: str) -> None:
    assert repr(make()) == text == str(make())


def test_text_of_nested_layers() -> None:
    net = nn.Sequential(("body", nn.Sequential(nn.Linear(1, 2), nn.ReLU())), ("last", nn.Tanh()))
    assert repr(net).splitlines() == [
        "Sequential(",
        "  (body): Sequential(",
        "    (0): Linear(in_features=1, out_features=2, dtype=float32)",
        "    (1): ReLU()",
        "  )",
        "  (last): Tanh()",
        ")",
    ]
    assert repr(nn.LSTM(3, 4, 2, dropout=0.5)).splitlines() == [
        "LSTM(3, 4, num_layers=2, dropout=0.5",
        "  (0): RNN(",
        "    (cell): LSTMCell(3, 4)",
        "  )",
        "  (1): RNN(",
        "    (cell): LSTMCell(4, 4)",
        "  )",
        ")",
    ]
    assert repr(nn.Sequential()) == "Sequential()"


@pytest.mark.parametrize(
    ("kind", "signature"),
    [
        (nn.CELU, "(alpha=1.0, name=None)"),
        (nn.Maxout, "(groups, axis=1, name=None)"),
        (nn.MSELoss, "(reduction='mean')"),
        (nn.AvgPool1D, "(kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None)"),
    ],
)
def test_signatures(kind: Any, signature: str) -> None:
    assert str(inspect.signature(kind)) == signature


def test_options_are_attributes_that_may_be_changed() -> None:
    layer = nn.Dropout(0.3)
    assert (layer.p, layer.axis, layer.mode) == (0.3, None, "upscale_in_train")
    layer.p = 1.0
    assert not layer(wb.ones([5])).numpy().any()
    assert nn.CELU(0.5)._alpha == 0.5 and nn.MaxPool2D(3).ksize == 3


def test_a_table_layer_may_be_derived_from() -> None:
    class Twice(nn.ReLU):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 2.0

    assert Twice()(wb.ones([1])).item() == 2.0 and Twice.__name__ == "Twice" and repr(Twice()) == "Twice()"
