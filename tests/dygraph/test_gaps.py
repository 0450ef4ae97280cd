"""What dynamic mode cannot do yet is refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.framework.op.recorder import recording
from workbench.framework.program.guard import program_guard, static_mode

nn, static = paddle.static.nn, paddle.static
LAYERS: dict[str, Callable[[Any], Any]] = {
    "fc": lambda x: nn.fc(x, 3),
    "conv2d": lambda x: nn.conv2d(x, 3, 3),
    "conv2d_transpose": lambda x: nn.conv2d_transpose(x, 3, filter_size=3),
    "batch_norm": nn.batch_norm,
    "layer_norm": nn.layer_norm,
    "embedding": lambda x: nn.embedding(x.astype("int64"), [3, 3]),
    "append_backward": lambda x: static.append_backward(paddle.mean(x)),
    "gradients": lambda x: static.gradients(paddle.mean(x), x),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "data": lambda x: static.data("x", [2]),
    "create_parameter": lambda x: static.create_parameter([2], "float32"),
    "create_global_var": lambda x: static.create_global_var([1], 0.0, "float32"),
}


@pytest.fixture
def x() -> Iterator[Any]:
    with recording(dynamic_recorder):
        yield paddle.to_tensor(np.ones((2, 3, 4, 4), np.float32))


@pytest.mark.parametrize("name", {**LAYERS, **OTHERS})
def test_it_says_what_to_call(name: str, x: Any) -> None:
    with pytest.raises((RuntimeError, AttributeError), match=r"enable_static\(\)"):
        ({**LAYERS, **OTHERS})[name](x)


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in ("append_backward", "gradients", "embedding")])
def test_a_tensor_made_before_static_mode_is_told_apart(name: str, x: Any) -> None:
    program = static.Program()
    with static_mode(), program_guard(program, static.Program()), pytest.raises(TypeError, match=r"static\.data"):
        LAYERS[name](x)
    assert not program.global_block().ops and not program.all_parameters()
