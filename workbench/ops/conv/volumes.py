"""Volumes: their layouts, and what is given per depth, height and width."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import int_list
from workbench.ops.tensor.transpose import transpose

FORMATS = ("NCDHW", "NDHWC")


def triple(what: str, value: Any) -> list[int]:
    """Depth, height and width.

    Raises:
        InvalidArgument: neither an int nor three.
    """
    sizes = int_list(what, value if isinstance(value, list | tuple) else [value] * 3)
    if len(sizes) != 3:
        raise ShapeError(f"{what} is an int or three", "depth, height, width", value)
    return sizes


def channels_first(what: str, x: Any, data_format: str) -> Any:
    """A volume as `[n, c, d, h, w]`.

    Raises:
        InvalidArgument: another layout, or sizes that are not known.
    """
    if data_format not in FORMATS:
        raise InvalidArgument(f"{what} takes 'NCDHW' or 'NDHWC' as data_format, got {data_format!r}")
    if len(x.shape) != 5 or -1 in x.shape[1:]:
        raise ShapeError(f"{what} takes volumes of a known size", data_format, shape_text(x.shape))
    return x if data_format == "NCDHW" else transpose(x, [0, 4, 1, 2, 3])


def from_channels_first(x: Any, data_format: str, name: str | None) -> Any:
    """A volume `[n, c, d, h, w]` in its layout."""
    return x if data_format == "NCDHW" else transpose(x, [0, 2, 3, 4, 1], name=name)


def depth_and_plane(padding: Any) -> tuple[Any, Any]:
    """Padding (before, behind) along the depth, and of planes as the 2-D functions take it; words for both stay words.

    Raises:
        InvalidArgument: neither an int, nor three or six sizes, nor a pair per dimension.
    """
    if isinstance(padding, str):
        return padding, padding
    given = padding if isinstance(padding, list | tuple) else [padding] * 3
    if any(isinstance(size, list | tuple) for size in given):
        given = [size for pair in given for size in pair]
        given = given[4:] if len(given) == 10 and not any(given[:4]) else given
    sizes = int_list("padding", given)
    if len(sizes) == 3:
        sizes = [size for size in sizes for _ in (0, 1)]
    if len(sizes) != 6:
        raise ShapeError("padding of a volume", "an int, three or six sizes, 'SAME' or 'VALID'", padding)
    return (sizes[0], sizes[1]), sizes[2:]
