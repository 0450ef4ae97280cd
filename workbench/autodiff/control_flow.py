"""Gradients of `cond` and `while`: gradient blocks beside the forward ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.autodiff.expand import expand_grad_ops
from workbench.autodiff.reach import Use
from workbench.autodiff.walk import Walk, differentiate, grad_maker, gradient_of, gradient_or_zeros
from workbench.errors import Unimplemented
from workbench.framework.names import EMPTY, grad_name
from workbench.framework.op.record import grad_slot
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import Spec
from workbench.ops.flow.control_flow import SAVED, cond_grad_op, cond_op, while_grad_op, while_op


@grad_maker(cond_op)
def cond_grad(walk: Walk, use: Use) -> None:
    """Append `cond_grad` with one gradient block per side."""
    op = use.op
    index, grads = _incoming(walk, use)
    if not grads:
        return
    receivers = _receivers(walk, use, "Input")
    inner = op.attrs["input_names"]
    attrs: dict[str, Any] = {"input_names": list(inner), "grad_index": receivers}
    for side in ("true", "false"):
        block, outs = op.attrs[f"{side}_block"], op.attrs[f"{side}_outs"]
        told = [outs[i] for i in index]
        grad_block, seeds, source_grads = _gradient_block(walk, block, told, [inner[i] for i in receivers])
        _also_save(op, f"{side}_saved", _saved_names(grad_block, block, inner))
        attrs.update({f"{side}_block": grad_block, f"{side}_outs": told})
        attrs.update({f"{side}_seeds": seeds, f"{side}_grads": source_grads})
    inputs = {
        "Cond": op.inputs["Cond"],
        "Input": op.inputs["Input"],
        "Saved": [_saved_output(walk, op)],
        grad_slot("Out"): grads,
    }
    outputs = {grad_slot("Input"): _receive(walk, use, "Input", receivers)}
    walk.append(cond_grad_op.type, inputs, outputs, attrs, op)


@grad_maker(while_op)
def while_grad(walk: Walk, use: Use) -> None:
    """Append `while_grad` with the gradient block of one pass."""
    op = use.op
    body, inner = op.attrs["body_block"], op.attrs["input_names"]
    outs, x_names = op.attrs["body_outs"], op.attrs["x_names"]
    _, grads = _incoming(walk, use)
    if not grads:
        return
    # Every floating loop variable is carried: one pass may mix a gradient of any into all others.
    carried = [i for i, n in enumerate(outs) if body.var_recursive(n).dtype.is_float]
    receivers = _receivers(walk, use, "Input")
    sources = [*(x_names[i] for i in carried), *(inner[i] for i in receivers)]
    grad_block, seeds, source_grads = _gradient_block(walk, body, [outs[i] for i in carried], sources)
    _also_save(op, "body_saved", _saved_names(grad_block, body, [*inner, *x_names]))
    op.set_attr("save", True)
    attrs = {
        "grad_block": grad_block,
        "x_names": list(x_names),
        "input_names": list(inner),
        "seeds": seeds,
        "seed_index": carried,
        "x_grads": source_grads[: len(carried)],
        "input_grads": source_grads[len(carried) :],
        "input_index": receivers,
    }
    inputs = {
        "X": op.inputs["X"],
        "Out": op.outputs["Out"],
        "Saved": [_saved_output(walk, op)],
        grad_slot("Out"): [gradient_or_zeros(walk, use, op.outputs["Out"][i]) for i in carried],
    }
    if "Input" in op.inputs:
        inputs["Input"] = op.inputs["Input"]
    outputs = {grad_slot("X"): _receive(walk, use, "X", carried)}
    if receivers:
        outputs[grad_slot("Input")] = _receive(walk, use, "Input", receivers)
    walk.append(while_grad_op.type, inputs, outputs, attrs, op)


def _incoming(walk: Walk, use: Use) -> tuple[list[int], list[str]]:
    """Positions and names of the output gradients there are."""
    arriving = [(i, walk.arriving(use.writes[n], use.op)) for i, n in enumerate(use.op.outputs.get("Out", ()))]
    kept = [(i, g) for i, g in arriving if g is not None]
    return [i for i, _ in kept], [g for _, g in kept]


def _receivers(walk: Walk, use: Use, slot: str) -> list[int]:
    """Positions of the inputs that gradients are passed on to."""
    names = use.op.inputs.get(slot, ())
    return [i for i, n in enumerate(names) if use.reads[n] in walk.reach.requires]


def _receive(walk: Walk, use: Use, slot: str, positions: Sequence[int]) -> list[str]:
    names = use.op.inputs[slot]
    return [
        walk.receive(names[i], use.reads[names[i]]) if use.reads[names[i]] in walk.reach.requires else EMPTY
        for i in positions
    ]


def _gradient_block(
    walk: Walk, block: Block, outs: Sequence[str], sources: Sequence[str]
) -> tuple[Block, list[str], list[str]]:
    """The gradient block of `block`.

    Returns:
        the new block, the names under which it is given the gradients of `outs`, and the names of the gradients of
        `sources` ("" where there is none).

    Raises:
        Unimplemented: an operator of `block` writes an input of it, as none does in what `static.nn` builds.
    """
    _refuse_written_inputs(block)
    program = block.program
    with program.block_guard(block):
        grad_block = program.create_block(block.idx)
        seeds = []
        for name in outs:
            variable = block.var_recursive(name)
            seed = _fresh(grad_block, grad_name(name))
            grad_block.add_var(Variable(grad_block, seed, variable.shape, variable.dtype))
            seeds.append(seed)
        grad_block.inputs = list(seeds)
        ops, stand_ins = expand_grad_ops(block, outs, sources)
        given = [(stand_ins.get(n, n), seed) for n, seed in zip(outs, seeds, strict=True)]
        inner = differentiate(block, given, sources, into=grad_block, ops=ops)
        grads = [gradient_of(inner, n) or "" for n in sources]
    return grad_block, seeds, grads


def _refuse_written_inputs(block: Block) -> None:
    """A gradient block is given the inputs as they were at the beginning, and would read these."""
    for op in block.ops:
        for name in set(block.inputs).intersection(op.output_arg_names):
            raise Unimplemented(
                f"op {op.type!r} writes {name!r}, an input of block {block.idx}, whose gradient needs one name for "
                f"each value; write the new value to another variable\n  at {op.site}"
            )


def _fresh(block: Block, name: str) -> str:
    while block.find_var(name) is not None:
        name = "grad/" + name
    return name


def _saved_names(grad_block: Block, block: Block, given: Sequence[str]) -> list[str]:
    """What a gradient block reads of the forward block's own values."""
    read = dict.fromkeys(n for op in grad_block.ops for n in op.input_arg_names)
    return [n for n in read if n in block.vars and n not in given]


def _also_save(op: Operator, attr: str, names: Sequence[str]) -> None:
    """Add to what an operator keeps; another gradient may have asked for values of its own."""
    op.set_attr(attr, list(dict.fromkeys([*op.attrs[attr], *names])))


def _saved_output(walk: Walk, op: Operator) -> str:
    """The variable that holds the saved values; made when first asked for."""
    if op.outputs.get("Saved"):
        return op.outputs["Saved"][0]
    name = walk.fresh(op.outputs["Out"][0] + "@SAVED")
    spec: Spec = SAVED
    op.block.add_var(Variable(op.block, name, spec.shape, spec.dtype, spec.kind, stop_gradient=True))
    op.outputs["Saved"] = [name]
    return name
