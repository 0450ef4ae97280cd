"""`grad` and `autograd.backward`: gradients of several tensors, with or without a history of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.dygraph.autograd.modes import enable_grad, no_grad
from workbench.dygraph.dispatch.prepared import PreparedOp
from workbench.dygraph.dispatch.rules import recorded_gradients
from workbench.dygraph.tape import leaves
from workbench.dygraph.tape.leaves import ArrayGradients
from workbench.dygraph.tape.node import TapeNode, node_and_index
from workbench.dygraph.tape.walk import BackwardWalk
from workbench.dygraph.tensor.tensor import Tensor, first_gradient
from workbench.errors import InvalidArgument, InvalidForm, Unimplemented
from workbench.framework.op.recorder import current_recorder


class RecordedGradients:
    """Arithmetic of a walk that is recorded in turn: gradients are tensors."""

    def add(self, first: Any, second: Any) -> Any:
        return first + second

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        call: Any = node.call
        if isinstance(call, PreparedOp):
            return recorded_gradients(call, node, gradients, wanted)
        grads: Sequence[Any] = call.recorded_backward(node, gradients, wanted)
        return grads

    def through(self, hook: Any, gradient: Any) -> Any:
        changed = hook(gradient)
        return gradient if changed is None else changed

    def keep(self, tensor: Any, gradient: Any) -> None:
        tensor.grad = gradient


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Tensor | Sequence[Tensor] | None = None,
) -> list[Tensor | None]:
    """The gradients of the sum of `outputs` by `inputs`; `grad` of no tensor changes.

    Args:
        outputs, inputs: tensors, or lists of them.
        grad_outputs: what to multiply from the left with, shaped as the outputs; ones where None.
        retain_graph: keep the values for another walk; by default if `create_graph`.
        create_graph: record how the gradients are computed, so that they can be differentiated in turn.
        only_inputs: True; gradients of other leaves are never computed.
        allow_unused: give None for an input that no output depends on.
        no_grad_vars: tensors no gradient flows through.

    Returns:
        one tensor per input, like it in shape and dtype.

    Raises:
        InvalidForm: no tensors where some are due, or lists of different lengths (an AssertionError too).
        InvalidArgument: an input no output depends on. PreconditionNotMet: values were freed or overwritten.

    Example:
        >>> x = wb.to_tensor(3.0, stop_gradient=False)
        >>> (slope,) = wb.grad(x * x * x, x, create_graph=True)
        >>> (curvature,) = wb.grad(slope, x)
        >>> slope.item(), curvature.item()
        (27.0, 18.0)
    """
    targets, sources = tensor_list(outputs, "outputs"), tensor_list(inputs, "inputs")
    blocked = [] if no_grad_vars is None else tensor_list(no_grad_vars, "no_grad_vars", may_be_empty=True)
    first = given_gradients(targets, grad_outputs, "grad_outputs")
    if not only_inputs:
        raise Unimplemented("grad computes the gradients of the inputs only; leave only_inputs=True")
    record_gradients = getattr(current_recorder(), "gradients_of", None)
    if record_gradients is not None:
        return _each_used(record_gradients(targets, sources, first, create_graph, blocked), sources, allow_unused)
    retain = create_graph if retain_graph is None else bool(retain_graph)
    math: Any = RecordedGradients() if create_graph else ArrayGradients(Tensor)
    walk = BackwardWalk(math, retain, [t.source or t for t in sources], [t.source or t for t in blocked])
    with enable_grad() if create_graph else no_grad():
        for target, given in zip(targets, first, strict=True):
            if not target.stop_gradient:
                seed = first_gradient(target, given)
                beginning = given if given is not None else Tensor(seed)
                walk.start(target.source or target, beginning if create_graph else seed)
        walk.run()
        grads = _each_used([_found(math, walk, source) for source in sources], sources, allow_unused)
    walk.finish()
    return [one if one is None or isinstance(one, Tensor) else _alone(math, one) for one in grads]


def _each_used(grads: list[Any], sources: Sequence[Tensor], allow_unused: bool) -> list[Any]:
    """Gradients, one per input.

    Raises:
        InvalidArgument: there is none by an input, and that is not allowed.
    """
    for source, (number, one) in zip(sources, enumerate(grads), strict=True):
        if one is None and not allow_unused:
            raise InvalidArgument(
                f"no output depends on input {number} ({source.name!r}), so there is no gradient by it; "
                "allow_unused=True gives None for it"
            )
    return grads


def _found(math: Any, walk: BackwardWalk, source: Tensor) -> Any:
    if source.source is not None:
        node, index = node_and_index(source.source)
        return walk.goal_grads.get((id(node), index))
    if id(source) not in walk.leaves:
        return None
    gradient = walk.leaves[id(source)][1]
    for hook in list((source._hooks or {}).values()):
        gradient = math.through(hook, gradient)
    return gradient


def _alone(math: ArrayGradients, gradient: Any) -> Tensor:
    tensor: Tensor = math.tensor(gradient)
    tensor.stop_gradient = True
    return tensor


def backward(tensors: Tensor | Sequence[Tensor], grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Add the gradients of the sum of `tensors` to `grad` of every leaf they were computed from.

    Args:
        tensors: a tensor, or a list of different ones.
        grad_tensors: the gradients to begin with, shaped as the tensors; ones where None.
        retain_graph: keep the values, so that it can be called once more.

    Raises:
        InvalidForm: no tensors, one twice, or lists of different lengths (an AssertionError too).
        PreconditionNotMet: values were freed or overwritten. If it raises, every `grad` is as it was.

    Example:
        >>> x = wb.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> wb.autograd.backward([x * 2, x * x])
        >>> print(x.grad.numpy())
        [4. 6.]
    """
    targets = tensor_list(tensors, "tensors")
    if len({id(t) for t in targets}) < len(targets):
        raise InvalidForm("backward takes every tensor once")
    first = given_gradients(targets, grad_tensors, "grad_tensors")
    starts = [(t._start(), first_gradient(t, given)) for t, given in zip(targets, first, strict=True)]
    leaves.backward([(start, seed) for start, seed in starts if start is not None], bool(retain_graph), Tensor)


def tensor_list(values: Any, what: str, may_be_empty: bool = False) -> list[Tensor]:
    """One tensor or several as a list.

    Raises:
        InvalidForm: something else, or nothing; the message begins with `what`.
    """
    tensors = list(values) if isinstance(values, list | tuple | set) else [values]
    if not tensors and not may_be_empty:
        raise InvalidForm(f"{what} must name at least one tensor")
    for value in tensors:
        if not isinstance(value, Tensor):
            raise InvalidForm(f"{what} must be a Tensor or a list of Tensors, got {type(value).__name__} {value!r}")
    return tensors


def given_gradients(targets: Sequence[Tensor], given: Any, what: str) -> list[Tensor | None]:
    """One gradient to begin with per target.

    Raises:
        InvalidForm: another number of them, or something that is no tensor.
    """
    if given is None:
        return [None] * len(targets)
    grads = list(given) if isinstance(given, list | tuple) else [given]
    if len(grads) != len(targets):
        raise InvalidForm(f"{what} has {len(grads)} entries for {len(targets)} tensors")
    for one in grads:
        if not (one is None or isinstance(one, Tensor)):
            raise InvalidForm(f"{what} must be Tensors or None, got {type(one).__name__} {one!r}")
    return grads
