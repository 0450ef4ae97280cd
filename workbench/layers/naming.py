"""How layers are called: `BatchNorm2D` counts as `batch_norm2d_0`, `batch_norm2d_1`, …"""

from __future__ import annotations

import re

from workbench.errors import InvalidArgument, InvalidType

_BEFORE_A_WORD = re.compile(r"(.)([A-Z][a-z]+)")
_WITHIN_A_WORD = re.compile(r"([a-z])([A-Z])")


def snake_case(name: str) -> str:
    """The key under which a class is counted; digits stay with the word before them (`conv2d`, `p_re_lu`)."""
    return _WITHIN_A_WORD.sub(r"\1_\2", _BEFORE_A_WORD.sub(r"\1_\2", name)).lower()


class UnusableName(InvalidArgument, KeyError):
    """A name no member of a layer can have."""

    __str__ = Exception.__str__  # a KeyError would show its message in quotes


def require_member_name(what: str, name: object, owner: object, members: object) -> str:
    """The name of a new parameter, buffer or sublayer.

    Args:
        what: the kind of member, for the message.
        owner: the layer; members: what it has of this kind already, whose names may be taken again.

    Raises:
        InvalidType: it is no string. UnusableName: it is empty, holds a dot, or the layer has another attribute of that
            name.
    """
    if not isinstance(name, str):
        raise InvalidType(f"the name of a {what} is a string, got {type(name).__name__} {name!r}")
    if not name:
        raise UnusableName(f"the name of a {what} must not be empty")
    if "." in name:
        raise UnusableName(
            f"the name of a {what} must not hold a dot, as dots separate the layers of a structured name; got {name!r}"
        )
    if hasattr(owner, name) and name not in members:  # type: ignore[operator]
        raise UnusableName(f"attribute {name!r} of {type(owner).__name__} exists already and is no {what}")
    return name
