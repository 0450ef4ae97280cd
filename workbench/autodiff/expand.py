"""Second derivatives: a `_grad` operator is differentiated by way of its rule.

The rule of its forward op is run under the static recorder, which appends ordinary operators that compute the
same gradients; the walk then goes through those instead. Everything they need is already in the program.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from workbench.autodiff.reach import Overwrites
from workbench.errors import Unimplemented
from workbench.framework.names import EMPTY
from workbench.framework.op.grad_op import call_rule
from workbench.framework.op.record import Op, grad_slot
from workbench.framework.op.recorder import recording
from workbench.framework.program.block import Block
from workbench.framework.program.guard import static_recorder, switch_main_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import BACKWARD, OPTIMIZE
from workbench.ops.math.reductions.like import REDUCE_TO_LIKE


def expand_grad_ops(
    block: Block, targets: Collection[str], sources: Collection[str]
) -> tuple[list[Operator], dict[str, str]]:
    """Replace the `_grad` operators that lead to `targets` by the operators of their rules.

    Args:
        block: expanded operators are appended to it.
        targets: names to be differentiated.
        sources: names to differentiate by; what they do not reach is left alone.

    Returns:
        the operators to walk over, updates left out, and `{name an expanded operator stood for: its stand_in}`.
    """
    ops = _leading_to([op for op in block.ops if not op.role & OPTIMIZE], targets)
    if not any(op.record.is_grad or _is_control_flow_grad(op) for op in ops):
        return ops, {}
    needed = _depending_on(ops, sources)
    overwrites = Overwrites(block)
    walked: list[Operator] = []
    stand_ins: dict[str, str] = {}
    for i, op in enumerate(ops):
        if i in needed and (op.record.is_grad or _is_control_flow_grad(op)):
            overwrites.refuse(op)
            walked += _expand(block, op, stand_ins)
        elif i in needed and any(n in stand_ins for n in op.input_arg_names):
            walked += _repeat(block, op, stand_ins)
        else:
            walked.append(op)
    return walked, stand_ins


def _is_control_flow_grad(op: Operator) -> bool:
    """Whether this is `cond_grad` or `while_grad`, which no rule stands behind."""
    return bool(op.role & BACKWARD) and bool(op.blocks())


def _leading_to(ops: list[Operator], targets: Collection[str]) -> list[Operator]:
    needed, leading = set(targets), []
    for op in reversed(ops):
        if any(n in needed for n in op.output_arg_names):
            leading.append(op)
            needed.update(op.input_arg_names)
    return leading[::-1]


def _depending_on(ops: list[Operator], sources: Collection[str]) -> set[int]:
    reached, depending = set(sources), set()
    for i, op in enumerate(ops):
        if any(n in reached for n in op.input_arg_names):
            depending.add(i)
            reached.update(op.output_arg_names)
    return depending


def _expand(block: Block, op: Operator, stand_ins: dict[str, str]) -> list[Operator]:
    """Append the operators of a rule and note what they stand for."""
    forward = op.record.forward_of
    if forward is None or forward.grad is None:
        raise Unimplemented(f"op {op.type!r} has no second derivative\n  at {op.site}")
    start = len(block.ops)
    gs, outs, ins = _rule_arguments(block, op, forward, stand_ins)
    with _appending(block):
        grads = call_rule(forward, gs, outs, ins, op.call_attrs())
        for slot, grad in zip(forward.inputs, grads, strict=True):
            _note_stand_ins(op, slot.name, grad, ins[forward.inputs.index(slot)], stand_ins)
    return block.ops[start:]


def _rule_arguments(
    block: Block, op: Operator, forward: Op, stand_ins: dict[str, str]
) -> tuple[list[Any], list[Any], list[Any]]:
    def read(slot: Any, name: str) -> Any:
        names = op.operands.get(name)
        if not names:
            return None
        variables = [block.var_recursive(stand_ins.get(n, n)) for n in names]
        return variables if slot.is_list else variables[0]

    gs = [read(s, grad_slot(s.name)) for s in forward.outputs]
    outs = [read(s, s.name) if s.name in forward.saved else None for s in forward.outputs]
    ins = [read(s, s.name) for s in forward.inputs]
    return gs, outs, ins


def _note_stand_ins(op: Operator, slot: str, grad: Any, like: Any, stand_ins: dict[str, str]) -> None:
    names = op.outputs.get(grad_slot(slot))
    if not names:
        return
    grad = grad() if callable(grad) else grad
    likes = like if isinstance(like, list) else [like]
    values = grad if isinstance(grad, list | tuple) else [grad] * len(likes)  # None stands for a list of None
    for name, value, shaped in zip(names, values, likes, strict=True):
        value = value() if callable(value) and name != EMPTY else value
        if name != EMPTY and value is not None:
            stand_ins[name] = _fit(value, shaped).name


def _fit(value: Any, like: Any) -> Any:
    """Undo broadcasting, as the default body of a `_grad` op does; unknown dimensions may differ when it runs."""
    if value.shape != like.shape or -1 in value.shape:
        value = REDUCE_TO_LIKE(value, like)
    return value.astype(like.dtype)


def _repeat(block: Block, op: Operator, stand_ins: dict[str, str]) -> list[Operator]:
    """A copy of an operator that reads stand_ins; its outputs get stand_ins too."""
    outputs: dict[str, list[str]] = {}
    for slot, names in op.outputs.items():
        outputs[slot] = []
        for name in names:
            if name == EMPTY:
                outputs[slot].append(name)
                continue
            old = block.var_recursive(name)
            stand_in = _fresh(block, name)
            block.create_var(stand_in, old.shape, old.dtype, old.kind)
            stand_ins[name] = stand_in
            outputs[slot].append(stand_in)
    inputs = {slot: [stand_ins.get(n, n) for n in names] for slot, names in op.inputs.items()}
    return [block.add_operator(op.type, inputs, outputs, dict(op.attrs), op.site)]


def _fresh(block: Block, name: str) -> str:
    while block.find_var(name) is not None:
        name = "grad/" + name
    return name


class _appending:
    """Static recording into a given block with the Backward role."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def __enter__(self) -> None:
        program = self.block.program
        self.old_main = switch_main_program(program)
        self.contexts: list[Any] = [
            recording(static_recorder), program.block_guard(self.block), program.role_guard(BACKWARD)
        ]  # fmt: skip
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)
        switch_main_program(self.old_main)
