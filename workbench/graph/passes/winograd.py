"""Convolutions of 3 x 3 pixels may be computed after Winograd, where that is quicker."""

from __future__ import annotations

from workbench.framework.values.dtype import float32
from workbench.graph.ssa import Graph, Node
from workbench.ops.conv.convolutions.conv import CONV2D, WINOGRAD
from workbench.ops.conv.windows import NCHW

_SUITING = {"strides": [1, 1], "dilations": [1, 1], "groups": 1, "data_format": NCHW}


class Winograd:
    """Marks convolutions, and their backward ops, whose kernels may add up pixels before they multiply.

    Products are then fewer than half as many, of sums of pixels and of weights. Results differ in rounding: against
    the largest pixels and results they are as close to the exact ones as others, but a small result beside large pixels
    loses digits. A NaN or an Inf reaches the results it belongs to and no others, where an Inf may become a NaN; sums
    of four pixels may be too large for a float. Where it is quicker is known when shapes are.
    """

    name = "winograd"
    exact = False

    def __call__(self, graph: Graph) -> bool:
        marked = {node: [_marked(node)] for node in graph.nodes if _suits(node)}
        if marked:
            graph.replace(marked)
        return bool(marked)


def _suits(node: Node) -> bool:
    if node.type not in (CONV2D.type, CONV2D.grad_type) or WINOGRAD in node.attrs:
        return False
    filter = node.inputs[1].spec
    is_plain = all(node.attrs[name] == value for name, value in _SUITING.items())
    return is_plain and filter.shape[2:] == (3, 3) and filter.dtype == float32


def _marked(node: Node) -> Node:
    attrs = {**node.attrs, WINOGRAD: True}
    marked = Node(node.type, node.places, node.inputs, node.outputs, attrs, node.role, node.origins)
    marked.after = node.after
    return marked
