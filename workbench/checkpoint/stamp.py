"""A stamp inside a file from which truncation and every other change of the file can be told.

The stamp stands at a fixed place, `<SHA-256 in hex> <size in 20 digits>`. The hash is that of the whole file
with zeros in place of the hash. It protects against damage, not against an attacker, who can stamp anew.
"""

from __future__ import annotations

import hashlib
from typing import Final

from workbench.errors import InvalidArgument

HEX: Final = 64
BLANK: Final = "0" * HEX + " " + "0" * 20

Parts = tuple[memoryview, bytes, memoryview]


def stamped(blob: bytes, at: int) -> Parts:
    """`blob` with its `BLANK`, which must stand at offset `at`, replaced by the stamp; nothing is copied."""
    end = at + len(BLANK)
    view = memoryview(blob)
    if bytes(view[at:end]) != BLANK.encode():
        raise AssertionError("there is no blank stamp at the expected place")
    size = b" %020d" % len(blob)
    stamp = _digest(view[:at], size, view[end:]).encode() + size
    return view[:at], stamp, view[end:]


def check_stamp(path: object, blob: bytes, at: int, lead: bytes, kind: str) -> None:
    """Raise unless `blob` is whole and unchanged.

    Args:
        path: named in messages.
        at: offset of the stamp, which `lead` directly precedes.
        kind: what the file should be, in words.

    Raises:
        InvalidArgument: empty, of another kind, truncated, too long, or changed.
    """
    if not blob:
        raise InvalidArgument(f"{path} is empty; expected {kind}")
    head = blob[at - len(lead) : at]
    if head != lead[: len(head)] or not blob[at - len(lead) :]:
        raise InvalidArgument(f"{path} is not {kind}")
    end = at + len(BLANK)
    if len(blob) < end:
        raise InvalidArgument(f"{path} is truncated: only {len(blob)} bytes are there")
    size = _stated_size(blob[at + HEX : end])
    if size is not None and len(blob) < size:
        raise InvalidArgument(f"{path} is truncated: only {len(blob)} of {size} bytes are there")
    view = memoryview(blob)
    actual = _digest(view[:at], blob[at + HEX : end], view[end:])
    if size != len(blob) or actual.encode() != blob[at : at + HEX]:
        raise InvalidArgument(f"{path} is damaged: its content does not match its SHA-256 checksum")


def _stated_size(text: bytes) -> int | None:
    return int(text[1:]) if len(text) == 21 and text[:1] == b" " and text[1:].isdigit() else None


def _digest(before: memoryview, size: bytes, after: memoryview) -> str:
    digest = hashlib.sha256(before)
    digest.update(b"0" * HEX)
    digest.update(size)
    digest.update(after)
    return digest.hexdigest()
