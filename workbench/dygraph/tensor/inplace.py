"""Methods that write their result over the tensor itself: `x.add_(y)` is `x.add(y)` in the memory of `x`.

They are made of the methods without `_`. What a gradient needs of the value that is overwritten is kept aside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from workbench.dygraph.overwrites import here
from workbench.dygraph.tape.node import TapeNode, node_and_index
from workbench.dygraph.tape.rewrites import note_rewrite
from workbench.dygraph.tensor.tensor import Tensor, tensor_from
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.infix import is_number
from workbench.framework.program.variable import Variable
from workbench.framework.values.random import RandomStream
from workbench.framework.values.spec import require_place_for
from workbench.ops.math.arithmetic import SCALE

# Paddle's names; those whose function is not there (yet) are left out.
VALUES = """
    abs acos acosh add addmm asin asinh atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip cos cosh
    cumprod cumsum digamma divide erf erfinv exp expm1 fill_diagonal fill_diagonal_tensor
    floor floor_divide floor_mod frac gcd hypot
    i0 index_add index_fill index_put lcm ldexp lerp lgamma log log10 log1p log2 logit masked_fill mod multigammaln
    multiply nan_to_num neg polygamma pow put_along_axis reciprocal remainder renorm round rsqrt scale scatter sigmoid
    sin sinh sqrt square subtract tan tanh tril triu trunc
"""  # shape and dtype stay
SHAPES = """
    cast equal flatten greater_equal greater_than less_equal less_than logical_and logical_not logical_or logical_xor
    not_equal reshape squeeze t transpose unsqueeze
"""  # shape or dtype change

_WITH_ONE_LIKE_IT = """
    add divide equal floor_divide floor_mod greater_equal greater_than less_equal less_than logical_and logical_or
    logical_xor maximum minimum mod multiply not_equal remainder subtract
"""
_GIVEN_TO_OTHERS = """
    squeeze: 0
    unsqueeze: 0
    cast: "float64"
    clip: 0.0, 1.0
    index_add: wb.to_tensor([0]), 0, wb.to_tensor([[1.0, 1.0]])
    pow: 2.0
    put_along_axis: wb.to_tensor([[0]]), 3.0, 1
    reshape: [2, 1]
    scatter: wb.to_tensor([0]), wb.to_tensor([[3.0, 4.0]])
    transpose: [1, 0]
    addmm: wb.to_tensor([[1.0]]), wb.to_tensor([[1.0, 1.0]])
    cumprod: 1
    cumsum: 1
    gcd: x
    lcm: x
    index_fill: wb.to_tensor([0]), 0, 1.0
    index_put: (wb.to_tensor([0]),), wb.to_tensor([1.0])
    ldexp: wb.to_tensor([1.0, 1.0])
    hypot: x
    masked_fill: wb.to_tensor([[True, False]]), 0.0
    multigammaln: 1
    polygamma: 1
    renorm: 2.0, 0, 1.0
    bitwise_and: x
    bitwise_or: x
    bitwise_xor: x
    lerp: x, 0.5
    fill_diagonal: 5.0
    fill_diagonal_tensor: wb.to_tensor([1.0])
"""
_GIVEN = {  # what the examples of the docstrings give, by method
    **dict.fromkeys(_WITH_ONE_LIKE_IT.split(), "x"),
    **dict(line.strip().split(": ", 1) for line in _GIVEN_TO_OTHERS.strip().splitlines()),
}


def as_it_was(x: Tensor) -> Tensor:
    """What `x` is now, apart from the tensor that is about to change: a view with the same history."""
    before = Tensor(x.array, stop_gradient=x.stop_gradient)
    before.source = x.source
    return before


def writing(by: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """What writes the result of a function over its first argument.

    Args:
        by: what messages call it.
    """

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(x, Tensor):
            return _beside(by, function, x, *args, **kwargs)
        if not recording_gradients.get():
            result = _like(x, function(x, *args, **kwargs), by)
            result._write_over(x, by)
            return x
        x._require_writable(by)
        result = _like(x, function(as_it_was(x), *args, **kwargs), by)
        _keep_aside(result.source, x.array)
        return x._become(result, by)

    return method


def _beside(by: str, function: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function gives for a variable of a program, which keeps its value, as in Paddle.

    Raises:
        InvalidType: `x` is no variable either.
    """
    if not isinstance(x, Variable):
        raise InvalidType(f"{by} writes over a Tensor, got {type(x).__name__} {x!r}")
    return x.beside(by, function)(*args, **kwargs)


def _writing(name: str) -> Callable[..., Tensor]:
    return _described(writing(f"{name}_", getattr(Tensor, name)), name)


def _like(x: Tensor, result: Any, by: str) -> Any:
    """A result in the dtype of the tensor it is written over.

    Raises:
        InvalidArgument: it has another shape.
    """
    if result.kind is x.kind:
        return result
    if result.kind.shape != x.kind.shape:
        raise InvalidArgument(
            f"{by} writes over a tensor of its own shape\n"
            f"  expected: a result of shape {x.shape}\n  got:      {result.shape}\n  at {here().site}"
        )
    result = result if result.dtype is x.dtype else result.astype(x.dtype)
    require_place_for(result.kind.spec, "the tensor it is written to", x.kind.spec)
    return result


def _reshaping(name: str) -> Callable[..., Tensor]:
    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(x, Tensor):
            return _beside(f"{name}_", getattr(Tensor, name), x, *args, **kwargs)
        x._require_writable(f"{name}_")
        result = getattr(as_it_was(x), name)(*args, **kwargs)
        x._put(result.array)
        x.source, x.stop_gradient = result.source, result.stop_gradient
        return x

    return _described(method, name)


def _described(method: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    method.__name__ = method.__qualname__ = f"{name}_"
    method.__module__ = __name__
    method.__doc__ = f"""`{name}` in place: the result takes the place of the tensor's value; returns the tensor.

    Raises:
        InvalidArgument: the result has another shape; or it is a leaf that wants a gradient, while gradients are
            recorded. What `{name}` raises.

    Example:
        >>> x = wb.to_tensor({_first(name)})
        >>> x.{name}_({_GIVEN.get(name, "")}) is x
        True
    """
    return method


def _first(name: str) -> str:
    """A tensor for the example of a docstring."""
    if name.startswith("logical"):
        return "[[True, False]]"
    return "[[1, 2]]" if name.startswith("bitwise") or name in ("gcd", "lcm") else "[[1.0, 2.0]]"


def _keep_aside(source: Any, array: Any) -> None:
    """Have a node that was just recorded keep a copy of a value that is about to be overwritten."""
    if source is None:
        return
    node: TapeNode = node_and_index(source)[0]
    if any(a is array for a in node.arrays):
        node.arrays = [a.copy() if a is array else a for a in node.arrays]


def _of_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes over tensors, which refuses variables of a program."""

    @wraps(function)
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Tensor):
            raise InvalidType(
                f"{function.__name__} writes over a Tensor of dynamic mode, got {type(x).__name__} {x!r}; "
                "in a program, wb.assign(value, output=variable) writes over a variable"
            )
        return function(x, *args, **kwargs)

    return method


def fill_(x: Tensor, value: float) -> Tensor:
    """Write one number over all elements; what they were computed from gets a gradient of 0.

    Raises:
        InvalidType: no number. InvalidArgument: a leaf that wants a gradient, while gradients are recorded.
    """
    if not is_number(value):
        raise InvalidType(f"fill_ takes a number, got {value!r}")
    return _filled(x, value, "fill_")


def zero_(x: Tensor) -> Tensor:
    """Write 0 over all elements. Raises: as for `fill_`."""
    return _filled(x, 0.0, "zero_")


def _filled(x: Tensor, value: float, by: str) -> Tensor:
    x._require_writable(by)
    if x.source is not None and recording_gradients.get():
        nothing = tensor_from(np.zeros_like(x.array), x.source)
        return x._become(SCALE(nothing, scale=0.0, bias=float(value)), by)
    x._write(np.asarray(value).astype(x.array.dtype), by)
    return x


def uniform_(x: Tensor, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Tensor:
    """Write uniform numbers in [min, max) over all elements. Raises: as for `fill_`."""
    numbers = RandomStream.dynamic(seed).uniform(np, x.kind.shape, np.float64)
    return _drawn(x, numbers * (max - min) + min, "uniform_")


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Tensor:
    """Write normal numbers over all elements. Raises: as for `fill_`.

    Example:
        >>> x = wb.zeros([3])
        >>> x.normal_() is x
        True
    """
    return _drawn(x, RandomStream.dynamic().normal(np, x.kind.shape, np.float64) * std + mean, "normal_")


def exponential_(x: Tensor, lam: float = 1.0, name: str | None = None) -> Tensor:
    """Write exponential numbers of rate `lam` over all elements. Raises: as for `fill_`."""
    numbers = RandomStream.dynamic().uniform(np, x.kind.shape, np.float64)
    return _drawn(x, -np.log1p(-numbers) / lam, "exponential_")


def _drawn(x: Tensor, numbers: Any, by: str) -> Tensor:
    x._require_writable(by)
    x._write(numbers.astype(x.array.dtype), by)
    if x.source is not None and recording_gradients.get():
        note_rewrite(x.source, by)
    x.source = None
    return x


def cauchy_(x: Tensor, loc: float = 0, scale: float = 1, name: str | None = None) -> Tensor:
    """Write Cauchy numbers over all elements. Raises: as for `fill_`."""
    numbers = RandomStream.dynamic().uniform(np, x.kind.shape, np.float64)
    return _drawn(x, np.tan(np.pi * (numbers - 0.5)) * scale + loc, "cauchy_")


def geometric_(x: Tensor, probs: Any, name: str | None = None) -> Tensor:
    """Write over all elements how often something of probability `probs` is tried until it happens, as Paddle does
    without rounding: log(u) / log(1 - probs). Raises: as for `fill_`."""
    numbers = RandomStream.dynamic().uniform(np, x.kind.shape, np.float64)
    share = probs.as_read() if isinstance(probs, Tensor) else probs
    return _drawn(x, np.log1p(-numbers) / np.log1p(-share), "geometric_")


def reconstruct_from_(x: Tensor, other: Tensor) -> None:
    """Become what another tensor is: its value, history and `stop_gradient`."""
    x._require_unrecorded("reconstruct_from_")
    x._put(other.array)
    x.source, x.stop_gradient = other.source, other.stop_gradient


def copy_(x: Tensor, other: Tensor, blocking: bool = True) -> Tensor:
    """Write another tensor's value over this one. Raises: as for `set_value`."""
    x.set_value(other)
    return x


IN_PLACE: dict[str, Callable[..., Any]] = {
    **{f"{name}_": _writing(name) for name in VALUES.split() if hasattr(Tensor, name)},
    **{f"{name}_": _reshaping(name) for name in SHAPES.split() if hasattr(Tensor, name)},
    **{
        f.__name__: _of_tensors(f)
        for f in (
            fill_,
            zero_,
            uniform_,
            normal_,
            exponential_,
            cauchy_,
            geometric_,
            copy_,
            reconstruct_from_,
        )
    },
}
for _name, _method in IN_PLACE.items():
    setattr(Tensor, _name, _method)
globals().update(IN_PLACE)  # they are functions as well: `paddle.tanh_(x)`
