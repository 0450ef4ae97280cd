"""`static.nn.static_pylayer`: operators with a gradient of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.builders.flow.control_flow import captured_by, traced_block
from workbench.builders.flow.structure import flatten, pack
from workbench.builders.layer import building
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.names import generate
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.block import Block
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import agree
from workbench.ops.flow.py_layer import PY_LAYER
from workbench.ops.tensor.assign import detach

Function = Callable[..., Any]


def static_pylayer(
    forward_fn: Function, inputs: Sequence[Any], backward_fn: Function | None = None, name: str | None = None
) -> Any:
    """`forward_fn(*inputs)`, with gradients that `backward_fn` builds instead of those of its operators.

    Both are called once, here. `backward_fn` may read what `forward_fn` has made.

    Args:
        forward_fn: returns a tensor, or nested lists, tuples and dicts of them.
        inputs: a list of tensors, and of what else `forward_fn` takes. Gradients go to these tensors and to no other.
        backward_fn: takes the gradients of the tensors `forward_fn` returns, in order, and returns one for each tensor
            of `inputs`, of its shape and dtype, or None. Without it no gradient passes, and every input has
            `stop_gradient=True`.

    Returns:
        what `forward_fn` returns.

    Raises:
        PreconditionNotMet: in dynamic mode, which has `autograd.PyLayer`.
        InvalidType: a function that cannot be called, `inputs` that is no list, results that are no tensors.
        InvalidArgument: as many gradients as there are inputs are needed, of their shapes and dtypes, dimensions that
            are known when the program runs included; inputs that want a gradient, and no `backward_fn`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [2], "float32")
        >>> x.stop_gradient = False
        >>> y = static.nn.static_pylayer(lambda x: wb.exp(x), [x], lambda g: g * 3.0)
        >>> (slope,) = static.gradients(y, x)
        >>> static.Executor().run(feed={"x": np.zeros(2, np.float32)}, fetch_list=[slope])[0].tolist()
        [3.0, 3.0]
    """
    for what, function in (("forward_fn", forward_fn), ("backward_fn", backward_fn)):
        if not callable(function) and (function is not None or what == "forward_fn"):
            raise InvalidType(f"static_pylayer takes a function as {what}, got {function!r}")
    if not isinstance(inputs, list | tuple):
        raise InvalidType(f"static_pylayer takes a list as inputs, got {inputs!r}")
    with building("static_pylayer", name) as layer:
        xs = [x for x in inputs if isinstance(x, Variable)]
        if backward_fn is None:
            _require_no_gradients(xs)
        result = forward_fn(*inputs)
        values = [_variable("what forward_fn returns", value) for value in flatten(result)]
        if backward_fn is None:
            return pack(result, [detach(value) for value in values])
        block, given, gradients = _backward(backward_fn, xs, values)
        captured = captured_by([block])
        outs = PY_LAYER(
            xs, values, captured or None, captured_names=[v.name for v in captured],
            backward_block=block, given_names=given, gradient_names=gradients,
            function=getattr(backward_fn, "__qualname__", "backward_fn"), name=layer.name,
        )  # fmt: skip
        return pack(result, outs)


def _require_no_gradients(xs: Sequence[Variable]) -> None:
    for x in xs:
        if not x.stop_gradient:
            raise InvalidArgument(
                f"static_pylayer without a backward_fn takes inputs with stop_gradient=True, got {x!r}; no gradient "
                "would reach it"
            )


def _variable(what: str, value: Any) -> Variable:
    if not isinstance(value, Variable):
        raise not_a_variable(f"static_pylayer takes Variables as {what}", value)
    return value


def _backward(
    backward_fn: Function, xs: Sequence[Variable], values: Sequence[Variable]
) -> tuple[Block, list[str], list[str]]:
    """The block of what `backward_fn` does, the gradients it is given and those it gives ("" for None)."""
    given = [generate(f"{value.name}@GRAD@GIVEN") for value in values]
    returned: list[Any] = []

    def gradients(*arriving: Variable) -> list[Any]:
        result = backward_fn(*arriving)
        returned.extend(result if isinstance(result, list | tuple) else [result])
        return [gradient for gradient in returned if gradient is not None]

    block, results = traced_block(gradients, values, given)
    if len(returned) != len(xs):
        raise InvalidArgument(
            "backward_fn of static_pylayer returns a gradient for each tensor of inputs, or None\n"
            f"  expected: {len(xs)}\n  got:      {len(returned)}"
        )
    left = iter(results)
    names = ["" if gradient is None else _gradient_of(x, next(left)) for x, gradient in zip(xs, returned, strict=True)]
    return block, given, names


def _gradient_of(x: Variable, gradient: Variable) -> str:
    if not agree(x.spec, gradient.spec):
        raise InvalidArgument(
            f"backward_fn of static_pylayer returns a gradient of another shape or dtype than {x!r}\n"
            f"  expected: {x.spec}\n  got:      {gradient.spec}"
        )
    return gradient.name
