"""`pylayer`: values whose gradients a block of the program computes; `pylayer_gradient`: one of these gradients."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.spec import Shape, Spec, same_dim, shape_text
from workbench.ops.tensor.shape import IN_THE_SHAPE_OF_LIKE, RESHAPE_LIKE


def _infer(inputs: list[Spec], values: list[Spec], captured: list[Spec] | None, **attrs: Any) -> list[Spec]:
    return list(values)


@op(
    "pylayer",
    "Input*, Value*, Captured*? -> Out*",
    attrs={
        "backward_block": None,
        "given_names": (),
        "gradient_names": (),
        "captured_names": (),
        "function": "",
    },
    infer=_infer,
    no_grad="Value, Captured",
    saved="Captured",
    named_only="Captured",
    shape_only="Input, Value",
)
def PY_LAYER(xp: Any, inputs: list[Any], values: list[Any], captured: None, **attrs: Any) -> list[Any]:
    """The values. They were computed from Input; of their gradients, given to `backward_block` as `given_names`,
    those of Input are what it computes as `gradient_names` ("" for none), which `function` has built. The block reads
    Captured from outside, as `captured_names`.
    """
    return [xp.array(value) for value in values]


def _require_shape(x: Shape, like: Shape, function: str, of: str) -> None:
    if len(x) != len(like) or not all(map(same_dim, x, like)):
        what = f"{function or 'backward_fn'} of static_pylayer returns a gradient of another shape than its input"
        raise ShapeError(f"{what} {of!r}", shape_text(like), shape_text(x))


def _infer_gradient(x: Spec, like: Spec, function: str, of: str) -> Spec:
    _require_shape(x.shape, like.shape, function, of)
    return x.with_shape(like.shape)


@op(
    "pylayer_gradient",
    "X, Like -> Out",
    attrs={"function": "", "of": ""},
    infer=_infer_gradient,
    grad=lambda g, out, x, like, **attrs: RESHAPE_LIKE(g, x),
    **IN_THE_SHAPE_OF_LIKE,
)
def PY_LAYER_GRADIENT(xp: Any, x: Any, like: Any, function: str, of: str) -> Any:
    """The gradient X that `function` has built of Like, called `of`, whose shape it has to have."""
    _require_shape(x.shape, like.shape, function, of)
    return x.reshape(like.shape)
