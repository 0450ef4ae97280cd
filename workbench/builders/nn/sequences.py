"""Layers over sequences: `static.nn.row_conv` over padded ones, and what Paddle has for sequences of varying length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from workbench.builders.layer import building
from workbench.builders.param_attr import required_attr
from workbench.errors import InvalidArgument, ShapeError, Unimplemented
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import one_int
from workbench.ops.tensor.pad import PAD
from workbench.ops.tensor.slicing import slice as slice_of

_WHY = "works on sequences of varying length (LoD), which are not supported; pad the sequences and feed a mask instead"
_REFUSAL = """Refused: Paddle's `{name}` works on sequences of varying length (LoD).

Raises:
    Unimplemented: always.

Example:
    >>> static.nn.{name}()
    Traceback (most recent call last):
        ...
    workbench.errors.Unimplemented: static.nn.{name} {why}
"""


def row_conv(input: Variable, future_context_size: int, param_attr: Any = None, act: str | None = None) -> Variable:
    """Every step of a sequence and the few after it, weighted per feature and added up.

    `out[n, t, d] = sum_i w[i, d] * input[n, t + i, d]` for i from 0 to `future_context_size`; nothing comes after
    the end. Source: Amodei et al., "Deep Speech 2", ICML 2016.

    Args:
        input: padded sequences `[n, steps, features]`, steps and features known.
        future_context_size: how many steps after each one.
        param_attr: the weights `[future_context_size + 1, features]`.

    Raises:
        Unimplemented: two dimensions, which in Paddle are sequences of varying length (LoD).
        InvalidArgument: other sizes, a negative context.

    Example:
        >>> wb.enable_static()
        >>> static.nn.row_conv(static.data("x", [None, 9, 16]), future_context_size=2).shape
        (-1, 9, 16)
    """
    if not isinstance(input, Variable):
        raise not_a_variable("row_conv takes a Variable as input", input)
    if input.ndim == 2:
        _refuse("row_conv of two dimensions")
    if input.ndim != 3 or -1 in input.shape[1:]:
        raise ShapeError(
            "row_conv takes padded sequences", "[n, steps, features], the last two known", shape_text(input.shape)
        )
    after = one_int("row_conv's future_context_size", future_context_size)
    if after < 0:
        raise InvalidArgument(f"row_conv takes a future_context_size of at least 0, got {after}")
    steps, features = input.shape[1:]
    with building("row_conv") as layer:
        activate = layer.activation(act)
        w: Any = layer.parameter(
            required_attr(param_attr, "param_attr", "row_conv"), [after + 1, features], input.dtype
        )
        padded = PAD(input, paddings=[0, 0, 0, after, 0, 0]) if after else input
        total: Any = None
        for i in range(after + 1):
            part = slice_of(padded, [1], [i], [i + steps]) * w[i]
            total = part if total is None else total + part
        return activate(total)


def _refuse(what: str) -> NoReturn:
    raise Unimplemented(f"{what} {_WHY}")


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"static.nn.{name}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = _REFUSAL.format(name=name, why=_WHY)
    return refuse


sequence_concat = _refused("sequence_concat")
sequence_conv = _refused("sequence_conv")
sequence_enumerate = _refused("sequence_enumerate")
sequence_expand = _refused("sequence_expand")
sequence_expand_as = _refused("sequence_expand_as")
sequence_first_step = _refused("sequence_first_step")
sequence_last_step = _refused("sequence_last_step")
sequence_pad = _refused("sequence_pad")
sequence_pool = _refused("sequence_pool")
sequence_reshape = _refused("sequence_reshape")
sequence_reverse = _refused("sequence_reverse")
sequence_scatter = _refused("sequence_scatter")
sequence_slice = _refused("sequence_slice")
sequence_softmax = _refused("sequence_softmax")
sequence_unpad = _refused("sequence_unpad")
