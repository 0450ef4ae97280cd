"""`summary`: a table of a net's layers, their shapes and the number of their parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType
from workbench.layers.containers import LayerList, Sequential
from workbench.layers.layer import Layer
from workbench.ops.tensor.creation import zeros

HEADS = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
WIDTHS = (15, 20, 20, 15)
MARGIN = 5  # the lines between the parts are longer than the columns
MEGABYTE = 1024.0**2
BYTES = 4  # what an element counts as


class SummaryRow(NamedTuple):
    """One call of a layer.

    Attributes:
        name: `Linear-1`.
        inputs, outputs: shapes.
        parameters, trainable: how many elements the layer's own parameters have.
        size: how many elements the outputs have.
    """

    name: str
    inputs: Any
    outputs: Any
    parameters: int
    trainable: int
    size: int


def summary(net: Any, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict[str, int]:
    """Print a table of the layers that a call of `net` runs through.

    Args:
        net: a layer.
        input_size: shape of the input, or a list of shapes of several; unknown dimensions (None, -1) count as 1.
        dtypes: dtype of the inputs, or one each; float32 if None.
        input: the input itself, a tensor, a list or dictionary of tensors, instead of `input_size`.

    Returns:
        how many elements the parameters have, and those that are trained, of the layers in the table.

    Raises:
        InvalidType: `net` is no layer. InvalidArgument: neither `input_size` nor `input`, or dimensions below 1.

    Example:
        >>> wb.summary(wb.nn.Linear(4, 3), (2, 4))
        ---------------------------------------------------------------------------
         Layer (type)       Input Shape          Output Shape         Param #
        ===========================================================================
           Linear-1           [[2, 4]]              [2, 3]              15
        ===========================================================================
        Total params: 15
        Trainable params: 15
        Non-trainable params: 0
        ---------------------------------------------------------------------------
        Input size (MB): 0.00
        Forward/backward pass size (MB): 0.00
        Params size (MB): 0.00
        Estimated Total Size (MB): 0.00
        ---------------------------------------------------------------------------
        <BLANKLINE>
        {'total_params': 15, 'trainable_params': 15}
    """
    if not isinstance(net, Layer):
        raise InvalidType(f"summary takes a layer, got {type(net).__name__} {net!r}")
    inputs = _inputs(input_size, dtypes) if input is None else [input]
    rows = _rows(net, inputs)
    print(_table(rows, sum(map(_elements, inputs))))
    return {"total_params": sum(row.parameters for row in rows), "trainable_params": sum(row.trainable for row in rows)}


def _inputs(input_size: Any, dtypes: Any) -> list[Any]:
    if input_size is None:
        raise InvalidArgument("summary takes input_size or input, so that it can call the net")
    sizes = getattr(input_size, "shape", input_size)
    several = isinstance(sizes, list | tuple) and any(hasattr(s, "__len__") or hasattr(s, "shape") for s in sizes)
    shapes = [_shape(getattr(size, "shape", size)) for size in (sizes if several else [sizes])]
    kinds = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes] * len(shapes)
    if len(kinds) != len(shapes):
        raise InvalidArgument(f"summary takes a dtype per input\n  expected: {len(shapes)}\n  got:      {len(kinds)}")
    return [zeros(shape, kind or "float32") for shape, kind in zip(shapes, kinds, strict=True)]


def _shape(size: Any) -> list[int]:
    dims = [1 if d is None or d == -1 else d for d in ([size] if isinstance(size, int) else size)]
    if any(isinstance(d, bool) or not isinstance(d, int) or d < 1 for d in dims):
        raise InvalidArgument(f"a shape has dimensions of at least 1 (None or -1: unknown), got {list(size)}")
    return dims


def _rows(net: Layer, inputs: Sequence[Any]) -> list[SummaryRow]:
    """What the layers below the net were called with, by one call of it; those called again count as they were last."""
    rows: dict[str, SummaryRow] = {}

    def note(layer: Layer, given: Any, outputs: Any) -> None:
        row = _row(layer, given, outputs)
        rows[row.name] = row

    listed = [layer for layer in net.sublayers() if type(layer) not in (Sequential, LayerList)] or [net]
    handles = [layer.register_forward_post_hook(note) for layer in listed]
    modes = [(layer, layer.training) for layer in net.sublayers(include_self=True)]
    net.eval()
    try:
        net(*inputs)
    finally:
        for handle in handles:
            handle.remove()
        for layer, training in modes:
            layer.training = training
    return list(rows.values())


def _row(layer: Layer, given: Any, outputs: Any) -> SummaryRow:
    kind, number = type(layer).__name__, int(layer.full_name().rpartition("_")[2]) + 1
    own = [p for p in layer._parameters.values() if p is not None]
    return SummaryRow(
        f"{kind}-{number}",
        [_shapes(value) for value in given],
        _shapes(outputs),
        sum(math.prod(p.shape) for p in own),
        sum(math.prod(p.shape) for p in own if p.trainable and not p.stop_gradient),
        _elements(outputs),
    )


def _shapes(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_shapes(part) for part in value]
    if isinstance(value, dict):
        return {key: _shapes(part) for key, part in value.items()}
    return list(value.shape) if isinstance(value, Tensor) else None


def _elements(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(map(_elements, value))
    if isinstance(value, dict):
        return sum(map(_elements, value.values()))
    return math.prod(value.shape) if isinstance(value, Tensor) else 0


def _table(rows: Sequence[SummaryRow], input_elements: int) -> str:
    cells = [(row.name, str(row.inputs), str(row.outputs), f"{row.parameters:,}") for row in rows]
    widths = [max([width, *map(len, column)]) for width, column in zip(WIDTHS, zip(*cells, strict=True), strict=True)]
    total, trained = sum(row.parameters for row in rows), sum(row.trainable for row in rows)
    megabytes = [BYTES * count / MEGABYTE for count in (input_elements, 2 * sum(row.size for row in rows), total)]
    thin, thick = ("".join([sign * (sum(widths) + MARGIN)]) for sign in "-=")
    return "\n".join(
        [
            thin,
            _line(HEADS, widths),
            thick,
            *(_line(row, widths) for row in cells),
            thick,
            f"Total params: {total:,}",
            f"Trainable params: {trained:,}",
            f"Non-trainable params: {total - trained:,}",
            thin,
            f"Input size (MB): {megabytes[0]:0.2f}",
            f"Forward/backward pass size (MB): {megabytes[1]:0.2f}",
            f"Params size (MB): {megabytes[2]:0.2f}",
            f"Estimated Total Size (MB): {sum(megabytes):0.2f}",
            thin,
            "",
        ]
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{cell:^{width}}" for cell, width in zip(cells, widths, strict=True))
