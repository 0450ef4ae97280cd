"""`pylayer`: values whose gradients a block of the program computes."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.declare import op
from workbench.framework.values.spec import Spec


def _infer(inputs: list[Spec], values: list[Spec], **attrs: Any) -> list[Spec]:
    return list(values)


@op(
    "pylayer",
    "Input*, Value* -> Out*",
    attrs={"backward_block": None, "given_names": (), "gradient_names": ()},
    infer=_infer,
    no_grad="Value",
    shape_only="Input, Value",
)
def PY_LAYER(xp: Any, inputs: list[Any], values: list[Any], **attrs: Any) -> list[Any]:
    """The values. They were computed from Input; of their gradients, given to `backward_block` as `given_names`,
    those of Input are what it computes as `gradient_names` ("" for none).
    """
    return [xp.array(value) for value in values]
