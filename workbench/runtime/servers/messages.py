"""The form of a message: a head in JSON, and after it the bytes of its arrays.

    "WBPS" | length of the head, 4 bytes | checksum of the head, 4 bytes | head | array | array …

The head says what is asked for, by whom, and name, dtype and shape of every array; nothing else can be in a message, so
that reading one never runs anything. Spaces at its end, and up to 7 bytes behind an array, let every array begin at a
multiple of 8 bytes. All sizes are bounded, and checked before memory is taken.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from workbench.errors import InvalidArgument
from workbench.framework.values.dtype import as_dtype

MAGIC = b"WBPS"
PREFIX = struct.Struct("<4sII")
MAX_HEAD = 1 << 22
MAX_BYTES = (1 << 31) - (1 << 23)  # of a message's arrays: with its head it is what gRPC, and one message of MPI, carry
MAX_ARRAYS, MAX_DIMS = 1 << 16, 16
_ALIGNED = 8  # bytes
_DTYPES = {"float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"}


class Message(NamedTuple):
    """One message.

    Attributes:
        kind: what is asked for, or answered. fields: numbers, strings, None and flat lists of them, by name.
        arrays: by name, in the order they are sent.
    """

    kind: str
    fields: Mapping[str, Any] = {}
    arrays: Mapping[str, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def number(self, name: str, least: int = 0) -> int:
        """A field that is a whole number.

        Raises:
            InvalidArgument: it is missing, no number, or below `least`.
        """
        value = self.fields.get(name)
        if type(value) is not int or not least <= value < 1 << 62:
            raise InvalidArgument(
                f"message {self.kind[:100]!r}: {name} is a whole number from {least} on, got {_short(value)}"
            )
        return value

    def names(self, name: str) -> list[str]:
        """A field that is a list of different strings; [] if it is missing.

        Raises:
            InvalidArgument: it is something else.
        """
        value = self.fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value) or len({*value}) < len(value):
            raise InvalidArgument(
                f"message {self.kind[:100]!r}: {name} is a list of different names, got {_short(value)}"
            )
        return value

    def text(self, name: str) -> str:
        """A field that is a string; "" if it is missing.

        Raises:
            InvalidArgument: it is something else.
        """
        value = self.fields.get(name, "")
        if not isinstance(value, str):
            raise InvalidArgument(f"message {self.kind[:100]!r}: {name} is a string, got {_short(value)}")
        return value


class Form(NamedTuple):
    """An array that a head tells of."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Head(NamedTuple):
    """What is known of a message before its arrays have come."""

    kind: str
    fields: Mapping[str, Any]
    forms: Sequence[Form]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(form.nbytes for form in self.forms)


def encoded_head(frame: Message) -> bytes:
    """All of a message but its arrays.

    Raises:
        InvalidArgument: the message is too long, or an array is of a dtype that does not travel.
    """
    told = [[name, _dtype_name(name, array), list(array.shape)] for name, array in frame.arrays.items()]
    head = json.dumps([frame.kind, dict(frame.fields), told], allow_nan=False).encode()
    head += b" " * (-(PREFIX.size + len(head)) % _ALIGNED)
    if len(head) > MAX_HEAD or frame.nbytes > MAX_BYTES:
        raise InvalidArgument(
            f"message {frame.kind!r} is too long\n"
            f"  expected: a head of at most {MAX_HEAD} bytes and arrays of at most {MAX_BYTES}\n"
            f"  got:      {len(head)} and {frame.nbytes}"
        )
    return PREFIX.pack(MAGIC, len(head), crc32(head)) + head


def _dtype_name(name: str, array: np.ndarray) -> str:
    dtype = array.dtype.name
    if dtype not in _DTYPES:
        raise InvalidArgument(f"array {name!r} of dtype {dtype} does not travel; those that do: {sorted(_DTYPES)}")
    return dtype


def decoded_head(data: Any, most: int = MAX_BYTES) -> tuple[Head, int]:
    """The head at the beginning of `data`, and where it ends.

    Args:
        most: bytes its arrays may have.

    Raises:
        InvalidArgument: it is no head, or one that asks for more than there may be.
    """
    if len(data) < PREFIX.size:
        raise InvalidArgument(f"a message of {len(data)} bytes is shorter than its prefix of {PREFIX.size}")
    magic, length, checksum = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise InvalidArgument(f"a message begins with {MAGIC!r}, got {bytes(magic)!r}")
    end = PREFIX.size + length
    if length > MAX_HEAD or end > len(data):
        raise InvalidArgument(f"a message of {len(data)} bytes says that its head has {length}")
    text = bytes(data[PREFIX.size : end])
    if crc32(text) != checksum:
        raise InvalidArgument("the head of a message is damaged: its checksum is another one")
    head = _parsed(text)
    if head.nbytes > most:
        raise InvalidArgument(
            f"message {head.kind[:100]!r} has arrays of {head.nbytes} bytes; at most {most} are taken"
        )
    return head, end


def _parsed(text: bytes) -> Head:
    try:
        kind, fields, told = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"the head of a message cannot be read: {_short(error)}") from None
    if not (isinstance(kind, str) and isinstance(fields, dict) and isinstance(told, list)):
        raise InvalidArgument("the head of a message is its kind, its fields and its arrays")
    if not all(map(_is_flat, fields.values())):
        raise InvalidArgument(f"message {kind[:100]!r}: a field is a number, a string, None or a flat list of them")
    if len(told) > MAX_ARRAYS:
        raise InvalidArgument(f"a message has at most {MAX_ARRAYS} arrays, got {len(told)}")
    forms = [_form(one) for one in told]
    if len({form.name for form in forms}) < len(forms):
        raise InvalidArgument(f"message {kind[:100]!r} names an array twice")
    return Head(kind, fields, forms)


def _is_flat(field: Any) -> bool:
    return all(map(_is_plain, field)) if isinstance(field, list) else _is_plain(field)


def _is_plain(value: Any) -> bool:
    """Whether JSON can carry a value back: it has no word for numbers that are not finite."""
    return math.isfinite(value) if isinstance(value, float) else value is None or isinstance(value, str | int)


def _short(value: object) -> str:
    """The beginning of a value, for an error."""
    return (str(value) if isinstance(value, Exception) else repr(value))[:100]


def _form(told: Any) -> Form:
    if not isinstance(told, list) or len(told) != 3:
        raise InvalidArgument(f"an array is told by name, dtype and shape, got {type(told).__name__}")
    name, dtype, shape = told
    if not isinstance(name, str) or not isinstance(dtype, str) or dtype not in _DTYPES:
        got = f"{type(name).__name__} and {_short(dtype) if isinstance(dtype, str) else type(dtype).__name__}"
        raise InvalidArgument(f"no name and dtype of an array: {got}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMS:
        raise InvalidArgument(f"array {name[:100]!r}: a shape is a list of at most {MAX_DIMS} sizes")
    if not all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape):
        raise InvalidArgument(f"array {name[:100]!r}: a size is a whole number from 0 to {MAX_BYTES}")
    form = Form(name, np.dtype(as_dtype(dtype).numpy), tuple(shape))
    if math.prod(size or 1 for size in shape) * form.dtype.itemsize > MAX_BYTES:  # NumPy has no such empty array
        raise InvalidArgument(f"array {name[:100]!r} is too large: {shape}")
    return form


def encoded(frame: Message) -> bytes:
    """A message as bytes.

    Raises:
        InvalidArgument: see `encoded_head`.
    """
    pieces: list[Any] = [encoded_head(frame)]
    end = len(pieces[0])
    for array in frame.arrays.values():
        pieces += bytes(-end % _ALIGNED), _bytes_of(array).data
        end += -end % _ALIGNED + array.nbytes
    return b"".join(pieces)


def written(frame: Message, memory: Callable[[int], np.ndarray]) -> np.ndarray:
    """A message as bytes, in memory of the caller's.

    Args:
        memory: gives at least so many bytes, in one piece.

    Returns:
        as many of them as the message has.

    Raises:
        InvalidArgument: see `encoded_head`.
    """
    head = encoded_head(frame)
    arrays = list(frame.arrays.values())
    *starts, length = _starts([array.nbytes for array in arrays], len(head))
    whole = memory(length)[:length]
    whole[: len(head)] = np.frombuffer(head, np.uint8)
    for array, start in zip(arrays, starts, strict=True):
        whole[start : start + array.nbytes] = _bytes_of(array)
    return whole


def _bytes_of(array: np.ndarray) -> np.ndarray:
    flat: np.ndarray = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat


def _starts(sizes: Sequence[int], start: int) -> Iterator[int]:
    """Where arrays of so many bytes begin, and where the last one ends."""
    for size in sizes:
        start += -start % _ALIGNED
        yield start
        start += size
    yield start


def decoded(data: Any, most: int = MAX_BYTES) -> Message:
    """The message that bytes are; its arrays show their memory and cannot be written to.

    Args:
        most: bytes its arrays may have.

    Raises:
        InvalidArgument: they are no message, one that was cut short, or too long.
    """
    head, start = decoded_head(data, most)
    *starts, end = _starts([form.nbytes for form in head.forms], start)
    if len(data) != end:
        raise InvalidArgument(
            f"message {head.kind[:100]!r} is not whole: it ends after {end} bytes, and {len(data)} came"
        )
    arrays = {}
    for form, start in zip(head.forms, starts, strict=True):
        arrays[form.name] = np.frombuffer(data, form.dtype, math.prod(form.shape), start).reshape(form.shape)
        arrays[form.name].flags.writeable = False
    return Message(head.kind, head.fields, arrays)
