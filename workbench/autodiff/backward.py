"""`append_backward` and `gradients`, the public entry points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workbench.autodiff.expand import expand_grad_ops
from workbench.autodiff.recompute import checkpoint_names, recompute_between
from workbench.autodiff.walk import Walk, differentiate, gradient_of, names_of
from workbench.errors import InvalidArgument, InvalidType, Unimplemented
from workbench.framework.names import grad_name
from workbench.framework.notice import tell
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS, LOSS_GRAD, ROLE, ROLE_VAR
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Parameter, Variable
from workbench.ops.tensor.creation import FILL_ANY_LIKE, FILL_CONSTANT


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Parameter | str] | None = None,
    no_grad_set: set[Variable | str] | None = None,
    callbacks: Sequence[Any] | None = None,
    checkpoints: Sequence[Any] | None = None,
) -> list[tuple[Parameter, Variable]]:
    """Append the gradient operators of `loss` to its program.

    Args:
        loss: shape [1].
        parameter_list: the parameters wanted; every trainable one by default.
        no_grad_set: Variables or names no gradient flows through.
        callbacks: not supported.
        checkpoints: Variables or names that are kept for the backward pass; values between them are computed once more
            in it, which takes time and saves memory. The gradients have the same bits.

    Returns:
        (parameter, gradient) pairs in the order the parameters were created; those without a gradient are left out.

    Raises:
        InvalidType: `loss` is not a Variable. InvalidArgument: its shape is not [1], or it depends on no
            trainable parameter. Unimplemented: callbacks. NotFound: a checkpoint is no variable of the program.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> [(parameter.name, gradient.name) for parameter, gradient in static.append_backward(loss)]
        [('fc_0.w_0', 'fc_0.w_0@GRAD'), ('fc_0.b_0', 'fc_0.b_0@GRAD')]
    """
    if callbacks:
        raise Unimplemented("append_backward does not support callbacks")
    _check_loss(loss)
    kept = checkpoint_names(loss.block, checkpoints or ())
    with _whole_or_not_at_all(loss.block.program):
        begin = len(loss.block.ops)
        pairs = _append_backward(loss, parameter_list, set(names_of(no_grad_set)))
        if kept:
            recompute_between(loss.block, begin, kept)
        return pairs


def _append_backward(
    loss: Variable, parameter_list: Sequence[Parameter | str] | None, no_grad: set[str]
) -> list[tuple[Parameter, Variable]]:
    block = loss.block
    leaves = [p.name for p in block.program.all_parameters() if p.trainable]
    ops, stand_ins = expand_grad_ops(block, [loss.name], leaves)
    seed = _seed_loss(loss)
    seeding = block.ops[-1]
    walk = differentiate(block, [(stand_ins.get(loss.name, loss.name), seed.name)], None, no_grad, ops=ops)
    pairs = _parameter_gradients(walk, loss, parameter_list, no_grad)
    if not pairs:
        raise InvalidArgument(
            f"the loss {loss.name!r} depends on no trainable parameter, so there is nothing to differentiate\n"
            f"  at {loss.op.site if loss.op else loss.site}"
        )
    if loss.op is not None:
        loss.op.attrs[ROLE] = loss.op.attrs.get(ROLE, 0) | LOSS
    for parameter, grad in pairs:
        producer = walk.producer.get(grad.name, seeding)
        producer.attrs[ROLE_VAR] = [parameter.name, grad.name, *producer.attrs.get(ROLE_VAR, ())]
    return pairs


def _check_loss(loss: Variable) -> None:
    if not isinstance(loss, Variable):
        raise not_a_variable("the loss is a Variable of a static Program", loss)
    if loss.shape not in ((1,), ()):
        raise InvalidArgument(
            f"the loss {loss.name!r} must have shape [1], got {list(loss.shape)}; reduce it first, "
            "for example with mean() (use static.gradients for other targets)"
        )
    if not loss.dtype.is_float:
        raise InvalidType(f"the loss {loss.name!r} must have a floating dtype, got {loss.dtype}")


def _seed_loss(loss: Variable) -> Variable:
    """Append `loss@GRAD = 1` (P-30)."""
    block = loss.block
    name = grad_name(loss.name)
    while block.find_var(name) is not None:
        name = "grad/" + name
    grad = block.create_var(name, loss.shape, loss.dtype)
    attrs = {"shape": loss.shape, "value": 1.0, "dtype": loss.dtype.name, ROLE: LOSS_GRAD}
    block.append_op(FILL_CONSTANT.type, outputs={"Out": grad}, attrs=attrs)
    return grad


def _parameter_gradients(
    walk: Walk, loss: Variable, parameter_list: Sequence[Parameter | str] | None, no_grad: set[str]
) -> list[tuple[Parameter, Variable]]:
    chosen = None if parameter_list is None else set(names_of(parameter_list))
    pairs = []
    for parameter in loss.block.program.all_parameters():
        if not parameter.trainable or parameter.name in no_grad:
            continue
        if chosen is not None and parameter.name not in chosen:
            continue
        grad = gradient_of(walk, parameter.name)
        if grad is not None:
            pairs.append((parameter, walk.block.var_recursive(grad)))
    return pairs


def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Variable | Sequence[Variable | None] | None = None,
    no_grad_set: set[Variable | str] | None = None,
) -> list[Variable | None]:
    """Append operators that compute d(targets)/d(inputs), summed over the targets.

    Args:
        targets: Variables of any shape.
        inputs: Variables to differentiate by (a feed with `stop_gradient` too).
        target_gradients: what to multiply from the left with, shaped as the targets; ones where None.
        no_grad_set: Variables or names no gradient flows through.

    Returns:
        one Variable per input, None where no target depends on it; None after a notice for an input of integers or
        bools, where Paddle cuts the gradient off to the integers before it.

    Raises:
        InvalidType: something is not a Variable. InvalidArgument: counts or shapes do not match.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 2])
        >>> y = x * x
        >>> (dx,) = static.gradients(y, x)
        >>> static.Executor().run(feed={"x": np.array([[1.0, 3.0]], np.float32)}, fetch_list=[dx])[0].tolist()
        [[2.0, 6.0]]
    """
    target_list, input_list = _as_list(targets, "targets"), _as_list(inputs, "inputs")
    given = _given_gradients(target_list, target_gradients)
    block = target_list[0].block
    names = [v.name for v in input_list]
    program = block.program
    with _whole_or_not_at_all(program), program.role_guard(BACKWARD), program.block_guard(block):
        ops, stand_ins = expand_grad_ops(block, [t.name for t in target_list], names)
        seeds = [
            (stand_ins.get(target.name, target.name), grad.name if grad is not None else _ones(target))
            for target, grad in zip(target_list, given, strict=True)
        ]
        sources = [stand_ins.get(n, n) for n in names]
        continuous = [n for n, v in zip(sources, input_list, strict=True) if v.dtype.is_float]
        walk = differentiate(block, seeds, continuous, set(names_of(no_grad_set)), ops=ops)
        grads = [gradient_of(walk, n) if n in continuous else None for n in sources]
    _tell_of_integers(input_list)
    return [block.var_recursive(n) if n is not None else None for n in grads]


def _tell_of_integers(inputs: Sequence[Variable]) -> None:
    """Say which inputs have no gradient because of their dtype, and where they become numbers that have one."""
    for variable in inputs:
        if not variable.dtype.is_float:
            op = next((op for op in variable.block.ops if variable.name in op.input_arg_names), None)
            reader = f"op {op.type!r} reads it; " if op is not None else ""
            tell(
                f"gradients: the gradient by {variable.name!r} is None, for it holds {variable.dtype}; {reader}"
                "differentiate by what a cast to a floating dtype gives"
            )


@contextmanager
def _whole_or_not_at_all(program: Program) -> Iterator[None]:
    """If the `with` body raises, take back what it appended and what it asked control flow to save."""
    touched = program.all_ops() if program.num_blocks > 1 else ()
    kept = [(op, dict(op.outputs), dict(op.attrs)) for op in touched if op.blocks()]
    try:
        with unchanged_on_error(program):
            yield
    except BaseException:
        for op, outputs, attrs in kept:
            op.outputs, op.attrs = outputs, attrs
        raise


def _as_list(values: Any, what: str) -> list[Variable]:
    variables = list(values) if isinstance(values, list | tuple) else [values]
    for value in variables:
        if not isinstance(value, Variable):
            raise not_a_variable(f"static.gradients takes Variables as {what}", value)
    if not variables:
        raise InvalidArgument(f"static.gradients needs at least one variable in {what}")
    return variables


def _given_gradients(targets: list[Variable], given: Any) -> list[Variable | None]:
    if given is None:
        return [None] * len(targets)
    grads = list(given) if isinstance(given, list | tuple) else [given]
    if len(grads) != len(targets):
        raise InvalidArgument(f"target_gradients has {len(grads)} entries for {len(targets)} targets")
    for target, grad in zip(targets, grads, strict=True):
        if grad is None:
            continue
        if not isinstance(grad, Variable):
            raise not_a_variable("static.gradients takes Variables as target_gradients", grad)
        if len(grad.shape) != len(target.shape) or any(
            a != b and -1 not in (a, b) for a, b in zip(grad.shape, target.shape, strict=True)
        ):
            raise InvalidArgument(
                f"the gradient {grad.name!r} of target {target.name!r} must have its shape "
                f"{list(target.shape)}, got {list(grad.shape)}"
            )
    return grads


def _ones(target: Variable) -> str:
    block = target.block
    name = grad_name(target.name)
    while block.find_var(name) is not None:
        name = "grad/" + name
    grad = block.create_var(name, target.shape, target.dtype)
    block.append_op(
        FILL_ANY_LIKE.type,
        inputs={"X": target},
        outputs={"Out": grad},
        attrs={"value": 1.0, "dtype": target.dtype.name},
    )
    return name
