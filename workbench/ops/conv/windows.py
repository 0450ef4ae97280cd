"""Windows that slide over height and width: how many there are, what is padded, where the channels are.

Shared by convolution and pooling. Sizes follow Paddle 2.x; -1 is known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.notice import tell
from workbench.framework.values.spec import Shape, Spec, same_dim
from workbench.ops.arguments import int_list

EXPLICIT, SAME, VALID = "EXPLICIT", "SAME", "VALID"
NCHW, NHWC = LAYOUTS = ("NCHW", "NHWC")
Pads = tuple[int, int]


# Layouts: bodies work on NCHW, the other one is a view


def require_image(what: str, x: Spec, data_format: str) -> Shape:
    """The dims of a batch of images as (n, c, h, w).

    Raises:
        ShapeError: not four dimensions, or an unknown layout.
    """
    if data_format not in LAYOUTS:
        raise ShapeError(f"{what}: an unknown data_format", " or ".join(LAYOUTS), repr(data_format))
    if len(x.shape) != 4:
        raise ShapeError(f"{what} takes images of 4 dimensions", f"[{', '.join(data_format)}]", x)
    n, a, b, c = x.shape
    return (n, a, b, c) if data_format == NCHW else (n, c, a, b)


def in_layout(dims: Shape, data_format: str) -> Shape:
    """(n, c, h, w) in the order of `data_format`."""
    n, c, h, w = dims
    return dims if data_format == NCHW else (n, h, w, c)


def as_nchw(array: Any, data_format: str) -> Any:
    """A view of an array with channels in front of height and width."""
    return array if data_format == NCHW else array.transpose(0, 3, 1, 2)


def from_nchw(xp: Any, array: Any, data_format: str) -> Any:
    """The array in `data_format`, contiguous."""
    return array if data_format == NCHW else xp.array(array.transpose(0, 2, 3, 1), order="C")


def require_result(what: str, grad: Spec, result: Spec) -> None:
    """Raise ShapeError unless a gradient is shaped as the result it belongs to."""
    if len(grad.shape) != len(result.shape) or not all(map(same_dim, grad.shape, result.shape)):
        raise ShapeError(f"{what}: the gradient must have the shape of the result", result, grad)


# Padding


def parse_padding(what: str, padding: Any, data_format: str) -> tuple[list[int], str]:
    """`([top, bottom, left, right], algorithm)` from what users write.

    Args:
        padding: an int, `[h, w]`, `[top, bottom, left, right]`, a pair for every dimension (those of batch
            and channels zero), `"SAME"` or `"VALID"`.

    Raises:
        InvalidArgument: anything else.
    """
    if isinstance(padding, str):
        algorithm = padding.upper()
        if algorithm not in (SAME, VALID):
            raise InvalidArgument(f"{what}: padding is a number, a list, 'SAME' or 'VALID', got {padding!r}")
        return [0, 0, 0, 0], algorithm
    if isinstance(padding, list | tuple) and any(isinstance(p, list | tuple) for p in padding):
        return _from_pairs(what, padding, data_format), EXPLICIT
    values = int_list(f"{what}'s padding", padding)
    if len(values) not in (1, 2, 4) or min(values) < 0:
        raise InvalidArgument(f"{what}: padding is 1, 2 or 4 ints >= 0, or a pair per dimension, got {padding!r}")
    return _four(values * 2 if len(values) == 1 else values), EXPLICIT


def _from_pairs(what: str, padding: Sequence[Any], data_format: str) -> list[int]:
    pairs = [int_list(f"{what}'s padding", p) for p in padding]
    spatial = (2, 3) if data_format == NCHW else (1, 2)
    others = [p for i, p in enumerate(pairs) if i not in spatial]
    if len(pairs) != 4 or any(len(p) != 2 or min(p) < 0 for p in pairs) or any(map(any, others)):
        raise InvalidArgument(
            f"{what}: padding by pairs has one per dimension of {data_format}, zero for batch and channels, "
            f"got {padding!r}"
        )
    return [*pairs[spatial[0]], *pairs[spatial[1]]]


def _four(paddings: Sequence[int]) -> list[int]:
    if len(paddings) == 2:
        return [paddings[0], paddings[0], paddings[1], paddings[1]]
    if len(paddings) != 4:
        raise ShapeError("paddings hold two or four sizes", "[h, w] or [top, bottom, left, right]", list(paddings))
    return list(paddings)


def pads_of(dim: int, window: int, stride: int, given: Sequence[int], algorithm: str) -> Pads:
    """Padding (before, after) of one dimension.

    Args:
        dim: its size; -1 is fine unless the algorithm is SAME.
        window: extent of the window, dilation included.
        given: (before, after) of algorithm EXPLICIT.
    """
    if algorithm == EXPLICIT:
        return given[0], given[1]
    if algorithm == VALID:
        return 0, 0
    total = max((-(-dim // stride) - 1) * stride + window - dim, 0)
    return total // 2, total - total // 2


def dilations_beside(what: str, dilations: Sequence[int], algorithm: str) -> list[int]:
    """The dilations a convolution has: 1 with SAME, as in Paddle 1.8.5 and 2.6, whose numbers ours are to be.

    Args:
        what: the function, for the notice. dilations: those that were asked for.
    """
    if algorithm != SAME or all(dilation == 1 for dilation in dilations):
        return list(dilations)
    tell(
        f"{what}: with padding='SAME' the dilation is 1, as in Paddle, and not {list(dilations)}; "
        "give the padding in numbers to have it"
    )
    return [1] * len(dilations)


def both_pads(
    dims: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    algorithm: str,
) -> tuple[Pads, Pads]:
    """Padding of height and width."""
    if algorithm not in (EXPLICIT, SAME, VALID):
        raise ShapeError("an unknown padding_algorithm", "EXPLICIT, SAME or VALID", repr(algorithm))
    four = _four(paddings)
    if min(four) < 0:
        raise ShapeError("paddings cut nothing off", "numbers >= 0", list(paddings))
    top_bottom = pads_of(dims[0], windows[0], strides[0], four[:2], algorithm)
    return top_bottom, pads_of(dims[1], windows[1], strides[1], four[2:], algorithm)


# Counting


def extent(kernel: int, dilation: int) -> int:
    """How many entries a dilated kernel spans."""
    return dilation * (kernel - 1) + 1


def count_windows(
    what: str,
    dim: int,
    window: int,
    stride: int,
    pads: Pads,
    algorithm: str = EXPLICIT,
    ceil_mode: bool = False,
) -> int:
    """How many windows fit in a padded dimension, -1 if it is unknown.

    Raises:
        ShapeError: none fits.
    """
    if dim < 0:
        return -1
    if algorithm == SAME:
        return -(-dim // stride)
    room = dim + sum(pads) - window
    if room < 0:
        padded = f"{dim} padded by {pads[0]} and {pads[1]}" if any(pads) else dim
        raise ShapeError(f"{what}: the window is larger than the input", f"a dimension of at least {window}", padded)
    count = -(-room // stride) + 1 if ceil_mode else room // stride + 1
    # A last window that would start behind the input sees padding only.
    return count - 1 if ceil_mode and (count - 1) * stride >= dim + pads[0] else count


def require_positive(what: str, **sizes: Sequence[int]) -> None:
    """Check pairs of sizes.

    Raises:
        ShapeError: not two ints >= 1.
    """
    for name, values in sizes.items():
        if len(values) != 2 or min(values) < 1:
            raise ShapeError(f"{what}: {name} are two sizes", "2 ints >= 1", list(values))
