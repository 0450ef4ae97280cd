"""Gradients that are recorded in turn: an op's rule run on tensors, for higher derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.dygraph.dispatch.prepared import PreparedOp
from workbench.dygraph.tape.node import TapeNode, TapeOutput
from workbench.dygraph.tensor.tensor import Tensor, tensor_from
from workbench.errors import Unimplemented
from workbench.framework.op.grad_op import call_rule
from workbench.framework.values.spec import Spec
from workbench.ops.math.reductions.like import REDUCE_TO_LIKE


def recorded_gradients(call: PreparedOp, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> list[Any]:
    """Gradients of the receivers of a recorded op, as tensors with a history of their own.

    Raises:
        Unimplemented: the op has a direct gradient alone.
    """
    op = call.op
    if op.grad is None:
        raise Unimplemented(f"op {op.type!r} has no second derivative")
    ins, outs = _inputs(call, node), _outputs(call, node)
    gs = call.by_slot([gradients] if call.is_single else gradients, _zeros)
    grads = call_rule(op, gs, outs, ins, call.attrs)
    rest = iter(wanted)
    results: list[Any] = []
    for i in call.receivers:
        kind, grad = call.input_kinds[i], grads[i]
        if not isinstance(kind, list):
            results.append(_fitted(grad, ins[i]) if next(rest) else None)
            continue
        flags = [next(rest) for _ in kind]
        grad = grad() if callable(grad) and any(flags) else grad
        parts = grad if isinstance(grad, list | tuple) else [grad] * len(kind)
        results += [_fitted(g, x) if keep else None for g, x, keep in zip(parts, ins[i], flags, strict=True)]
    return results


def _zeros(spec: Spec) -> Tensor:
    return Tensor(np.zeros(spec.shape, spec.dtype.numpy))


def _fitted(grad: Any, like: Any) -> Any:
    """Undo broadcasting, and what a rule computed in another precision."""
    grad = grad() if callable(grad) else grad
    if grad is None:
        return None
    if grad.shape != like.shape:
        grad = REDUCE_TO_LIKE(grad, like)
    return grad if grad.dtype is like.dtype else grad.astype(like.dtype)


def _inputs(call: PreparedOp, node: TapeNode) -> list[Any]:
    edges = iter(node.edges)
    inputs: list[Any] = []
    for i, array in enumerate(node.arrays[: len(call.input_kinds)]):
        receives = i in call.receivers
        if isinstance(array, list):
            inputs.append([_tensor(a, next(edges) if receives else None) for a in array])
        else:
            inputs.append(None if array is None else _tensor(array, next(edges) if receives else None))
    return inputs


def _tensor(array: Any, edge: Any) -> Tensor:
    if isinstance(edge, Tensor):
        return edge
    return tensor_from(array, edge)


def _outputs(call: PreparedOp, node: TapeNode) -> list[Any]:
    """The saved outputs by slot, None for the others."""
    kept = iter(node.arrays[len(call.input_kinds) :])
    outputs: list[Any] = []
    number = 0
    for slot, spec in zip(call.op.outputs, call.specs, strict=True):
        count = len(spec) if isinstance(spec, list) else 1
        sources = [node if call.is_single else TapeOutput(node, number + k) for k in range(count)]
        number += count
        if slot.name not in call.op.saved:
            outputs.append(None)
            continue
        value = next(kept)
        if isinstance(value, list):
            outputs.append([tensor_from(v, s) for v, s in zip(value, sources, strict=True)])
        else:
            outputs.append(None if value is None else tensor_from(value, sources[0]))
    return outputs
