"""An error inside nested layers says which layer it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from workbench.errors import InvalidArgument

nn = wb.nn


class Model(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2)
        self.head = nn.Sequential(nn.Linear(5, 3), nn.ReLU())

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x))


def said(call: Any) -> str:
    with pytest.raises(InvalidArgument) as caught:
        call()
    return str(caught.value)


def test_the_path_of_the_layer_is_told_once() -> None:
    text = said(lambda: Model()(wb.ones([1, 2, 4])))
    assert text.endswith("\n  in layer model.head.0 (Linear)") and text.count("in layer") == 1
    assert "matmul" in text and __file__ in text  # the op and the user's line


def test_a_path_through_several_layers() -> None:
    text = said(lambda: Model()(wb.ones([1, 2, 3])))
    assert text.endswith("\n  in layer model.encoder.layers.0.self_attn.q_proj (Linear)")


def test_a_layer_that_skips_a_level() -> None:
    """What calls a layer need not be its direct parent."""

    class Skipping(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.LayerList([nn.LayerDict({"a": nn.Linear(2, 2)})])

        def forward(self, x: Any) -> Any:
            return self.blocks[0]["a"](x)

    assert said(lambda: Skipping()(wb.ones([1, 3]))).endswith("in layer skipping.blocks.0.a (Linear)")


def test_a_layer_called_alone() -> None:
    assert said(lambda: nn.Linear(2, 2)(wb.ones([1, 3]))).endswith("in layer linear (Linear)")


def test_a_layer_that_is_called_by_one_it_is_no_part_of() -> None:
    stranger = nn.Sequential(nn.Linear(2, 2))

    class Calling(nn.Layer):
        def forward(self, x: Any) -> Any:
            return stranger(x)

    assert said(lambda: Calling()(wb.ones([1, 3]))).endswith("in layer sequential.0 (Linear)")


def test_what_forward_itself_refuses() -> None:
    class Picky(nn.Layer):
        def forward(self, x: Any) -> Any:
            raise InvalidArgument("no")

    outer = nn.Sequential(("inner", Picky()))
    assert said(lambda: outer(1)) == "no\n  in layer sequential.inner (Picky)"


def test_hooks_count_as_the_layer() -> None:
    layer = nn.Sequential(nn.ReLU())
    layer[0].register_forward_pre_hook(lambda layer, inputs: wb.matmul(inputs[0], wb.ones([7, 7])))
    assert said(lambda: layer(wb.ones([1, 3]))).endswith("in layer sequential.0 (ReLU)")


def test_programs_say_it_too() -> None:
    with program():
        text = said(lambda: Model()(wb.static.data("x", [None, 2, 4])))
    assert text.endswith("in layer model.head.0 (Linear)")


def test_other_errors_pass_as_they_are() -> None:
    class Broken(nn.Layer):
        def forward(self, x: Any) -> Any:
            return {}[x]

    with pytest.raises(KeyError) as caught:
        nn.Sequential(Broken())(3)
    assert caught.value.args == (3,)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: nn.Linear(2, 2)(np.ones((1, 3), np.float32)), "in layer linear"),
        (lambda: nn.ReLU()(3.0), "takes Tensors"),
        (lambda: nn.CELU(1, 2, 3, 4), "CELU: too many positional arguments"),
        (lambda: nn.Maxout(), "Maxout: missing a required argument: 'groups'"),
        (lambda: nn.CELU(beta=3), "CELU: got an unexpected keyword argument 'beta'"),
        (lambda: nn.CELU()(wb.ones([1]), y=3), r"CELU takes \(x\), got 1 inputs and \['y'\]"),
        (lambda: nn.LSTM(3, 2)(wb.ones([2, 5, 4])), r"expected: \[..., 3\]"),
        (lambda: nn.LSTM(3, 2)(wb.ones([2, 3])), "takes sequences"),
        (lambda: nn.LSTM(3, 2)(wb.ones([2, 5, 3]), wb.ones([1, 2, 2])), "2 of .1, batch, 2."),
        (lambda: nn.LSTM(3, 2, direction="back"), "direction is"),
        (lambda: nn.GRUCell(3, 0), "at least 1, got 0"),
        (lambda: nn.SimpleRNN(3, 2, activation="gelu"), "'tanh' or 'relu'"),
        (lambda: nn.MultiHeadAttention(5, 2), "multiple of num_heads"),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, activation="rellu"), "Did you mean 'relu'"),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, weight_attr=[None] * 3), "a list of 3 for 2"),
        (lambda: nn.Transformer(4, 2, weight_attr=[]), "one to three"),
        (lambda: nn.Conv2D(3, 4, 3, groups=2), "groups divide the channels"),
        (lambda: nn.Conv2D(4, 4, 3, padding_mode="same"), "padding_mode is one of"),
        (lambda: nn.Conv2D(4, 4, 3, padding="SAME", padding_mode="reflect"), "takes an int per dimension"),
        (lambda: nn.Conv2D(4, 4, [3, 3, 3]), "takes an int or 2 as kernel_size"),
        (lambda: nn.Conv1D(4, 4, 3, data_format="NCHW"), "'NCL' or 'NLC'"),
        (lambda: nn.BatchNorm2D(3)(wb.ones([2, 3])), "BatchNorm2D takes NCHW or NHWC\n  expected: 4 dimensions"),
        (lambda: nn.BatchNorm2D(3, data_format="NCL"), "takes NCHW, NHWC"),
        (lambda: nn.InstanceNorm2D(3, weight_attr=False), "both False, or neither"),
        (lambda: nn.Embedding(3, 4, padding_idx=3), r"in \[-3, 3\), got 3"),
        (lambda: nn.Embedding(0, 4), "num_embeddings of an Embedding is at least 1"),
        (lambda: nn.PReLU(3)(wb.ones([2, 4])), "one per channel"),
        (lambda: nn.Upsample()(wb.ones([1, 1, 2, 2])), "either size or scale_factor"),
        (lambda: nn.Upsample([2, 2], mode="cubic")(wb.ones([1, 1, 2, 2])), "has the modes linear"),
        (lambda: nn.RNN(nn.GRUCell(1, 1))(wb.ones([2, 0, 1])), "a known length"),
    ],
)
def test_bad_input_is_told_clearly(call: Any, expected: str) -> None:
    with pytest.raises((ValueError, TypeError), match=expected):
        call()


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize(
    ("layer", "shape"), [(nn.Linear, [2, 4]), (lambda a, b: nn.Conv1D(a, b, 1), [2, 4, 3]), (nn.LSTM, [2, 3, 4])]
)
def test_a_wrong_dtype_is_that_of_the_input_not_of_the_parameters(layer: Any, shape: list[int], dtype: str) -> None:
    text = said(lambda: layer(4, 3)(wb.ones(shape, dtype)))
    assert "has float32 parameters; cast its input, as in x.astype('float32')" in text or "this one first" in text
    assert f"\n  got:      {dtype}\n" in text and "\n  expected: float" in text


def test_of_two_inputs_neither_is_the_layers_own() -> None:
    text = said(lambda: nn.MSELoss()(wb.ones([2]), wb.ones([2], "float64")))
    assert "\n  expected: float32\n  got:      float64\n" in text and "parameters" not in text
    with program(), pytest.raises(InvalidArgument, match=r"conv2d takes floating-point inputs, got .*uint8"):
        wb.static.nn.conv2d(wb.static.data("image", [None, 3, 8, 8], "uint8"), 4, 3)
