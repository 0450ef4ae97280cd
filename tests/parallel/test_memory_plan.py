"""The memory of plans: values that share it never spoil each other, whatever the program and the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build
from workbench import static

X = np.random.default_rng(5).standard_normal((6, 4)).astype("float32")


def through_views() -> Model:
    """A chain of views between two products."""

    def body() -> Any:
        h = static.nn.fc(static.data("x", [None, 4]), 4)
        views = wb.squeeze(wb.unsqueeze(wb.flatten(wb.reshape(h, [-1, 2, 2]), 1), [1]), [1])
        turned = wb.transpose(wb.transpose(views, [1, 0]), [1, 0])
        return wb.mean(wb.tanh(turned) * turned + h)

    return build(body, wb.optimizer.SGD(0.1)).start()


@pytest.mark.parametrize("fetched", [0, 1, 2, 3, 4, 5])
def test_gradients_of_views_show_the_gradient_that_came_in(fetched: int) -> None:
    """They showed the first operand of the backward op, the forward value, wherever that had memory of its own."""
    model = through_views()
    gradients = [n for op in model.main.global_block().ops for n in op.output_arg_names if n.endswith("@GRAD")]
    names = [n for n in gradients if "tmp" in n][fetched :: 3]  # what is fetched cannot be written over
    expected = static.Executor().run(model.main, {"x": X}, names, scope=model.scope)
    alone = through_views()
    found = alone.parallel(1).run(names, {"x": X})
    for name, value, right in zip(names, found, expected, strict=True):
        np.testing.assert_array_equal(value, right, err_msg=name)
    for name, value in model.values().items():
        np.testing.assert_array_equal(alone.value(name), value, err_msg=name)
