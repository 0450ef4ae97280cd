"""Gradients of `pylayer`: what the user's own block does, repeated among the backward operators."""

from __future__ import annotations

from workbench.autodiff.reach import Use
from workbench.autodiff.walk import Walk, grad_maker, gradient_or_zeros
from workbench.framework.names import EMPTY
from workbench.framework.program.operator import Operator
from workbench.framework.program.variable import Variable
from workbench.ops.flow.py_layer import PY_LAYER, PY_LAYER_GRADIENT


@grad_maker(PY_LAYER)
def py_layer_grad(walk: Walk, use: Use) -> None:
    """Append the operators of the block; outputs without a gradient have one of zeros."""
    outs = use.op.outputs["Out"]
    if all(walk.arriving(use.writes[name], use.op) is None for name in outs):
        return
    names = dict(zip(use.op.attrs["given_names"], (gradient_or_zeros(walk, use, name) for name in outs), strict=True))
    names.update(zip(use.op.attrs["captured_names"], use.op.inputs.get("Captured", ()), strict=True))
    wanted = [
        (name, gradient)
        for name, gradient in zip(use.op.inputs["Input"], use.op.attrs["gradient_names"], strict=True)
        if gradient and use.reads[name] in walk.reach.requires
    ]
    for name, gradient in wanted:
        if not _may_differ(walk, use.op, name, gradient):
            names[gradient] = walk.receive(name, use.reads[name])
    for op in use.op.attrs["backward_block"].ops:
        _repeat(walk, op, names)
    for name, gradient in wanted:
        if _may_differ(walk, use.op, name, gradient):
            _require_shape(walk, use, name, names[gradient])


def _may_differ(walk: Walk, op: Operator, name: str, gradient: str) -> bool:
    """Whether a gradient may turn out to have another shape than its input."""
    shape = walk.source.var_recursive(name).shape
    return -1 in shape or shape != op.attrs["backward_block"].var_recursive(gradient).shape


def _require_shape(walk: Walk, use: Use, name: str, gradient: str) -> None:
    """Have a step refuse a gradient of another shape, which would be broadcast."""
    attrs = {"function": use.op.attrs["function"], "of": name}
    inputs = {"X": [gradient], "Like": [name]}
    outputs = {"Out": [walk.receive(name, use.reads[name])]}
    walk.append(PY_LAYER_GRADIENT.type, inputs, outputs, attrs, use.op)


def _repeat(walk: Walk, op: Operator, names: dict[str, str]) -> None:
    """Append a copy of an operator of the block; `names` says what its variables are called outside."""
    for name in op.output_arg_names:
        if name != EMPTY and name not in names:
            like = op.block.var_recursive(name)
            names[name] = walk.fresh(name)
            walk.block.add_var(
                Variable(walk.block, names[name], like.shape, like.dtype, like.kind, stop_gradient=like.stop_gradient)
            )
    inputs, outputs = (
        {slot: [names.get(name, name) for name in given] for slot, given in slots.items()}
        for slots in (op.inputs, op.outputs)
    )
    walk.append(op.type, inputs, outputs, op.call_attrs(), op)
