"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.values.spec import size_of
from workbench.layers.values import set_value
from workbench.ops.tensor.join import concat
from workbench.ops.tensor.shape import reshape


def parameters_to_vector(parameters: Iterable[Any], name: str | None = None) -> Any:
    """All elements of parameters, one after the other; gradients flow back to each of them.

    Example:
        >>> layer = wb.nn.Linear(2, 3)
        >>> list(wb.nn.utils.parameters_to_vector(layer.parameters()).shape)
        [9]
    """
    return concat([reshape(parameter, [-1]) for parameter in parameters], axis=0, name=name)


def vector_to_parameters(vec: Any, parameters: Iterable[Any], name: str | None = None) -> None:
    """Give parameters the elements of a vector, in order.

    Raises:
        InvalidArgument: the vector is shorter or longer than the parameters together; nothing is changed.

    Example:
        >>> layer = wb.nn.Linear(2, 1)
        >>> wb.nn.utils.vector_to_parameters(wb.ones([3]), layer.parameters())
        >>> print(layer.bias.numpy())
        [1.]
    """
    parameters = list(parameters)
    sizes = [size_of(tuple(parameter.shape)) for parameter in parameters]
    if list(vec.shape) != [sum(sizes)]:
        raise InvalidArgument(
            f"vector_to_parameters takes as many elements as the parameters have\n"
            f"  expected: shape [{sum(sizes)}]\n  got:      {list(vec.shape)}"
        )
    values, begin = vec.numpy(), 0
    for parameter, size in zip(parameters, sizes, strict=True):
        set_value(parameter, values[begin : begin + size].reshape(parameter.shape))
        begin += size
