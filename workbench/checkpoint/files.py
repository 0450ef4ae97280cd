"""The two kinds of files a checkpoint is made of: tensors (safetensors) and documents (JSON).

Both are data, never code; both are written atomically (`atomic`), carry a stamp that shows damage (`stamp`)
and a format version. A tensor file is an ordinary safetensors file; what is ours is in its metadata.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping
from operator import index as as_index
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from workbench.checkpoint.atomic import FilePath, read_file, replace_file
from workbench.checkpoint.stamp import BLANK, check_stamp, stamped
from workbench.errors import InvalidArgument, InvalidType, described

VERSION = 1

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
_SUPPORTED = frozenset(DTYPES.values())

# A tensor file begins with the length of the header (8 bytes); the package writes the metadata first in it.
_TENSOR_LEAD = b'{"__metadata__":{"workbench":"'
_TENSOR_AT = 8 + len(_TENSOR_LEAD)
_LARGEST_HEADER = 100_000_000  # the package refuses to read more
_DOCUMENT_LEAD = b'{"workbench": "'


def write_tensors(path: FilePath, tensors: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named arrays, and `metadata` (JSON types) with them, to one file.

    Args:
        tensors: arrays of any shape and layout; bool, (u)int8 … 64, float16, bfloat16, float32, float64.

    Raises:
        InvalidArgument, InvalidType: a name, dtype or metadata value that cannot be saved.
        OSError: it cannot be written; a file that was there is unchanged.
    """
    arrays = {_checked_name(name): _storable(name, value) for name, value in tensors.items()}
    note = f'{BLANK} {{"version": {VERSION}, "metadata": {_to_json(dict(metadata or {}), "metadata")}}}'
    blob = safetensors.numpy.save(arrays, metadata={"workbench": note})
    if _header_size(blob) > _LARGEST_HEADER:
        raise InvalidArgument(f"cannot save {path}: names and metadata take more than {_LARGEST_HEADER} bytes")
    replace_file(path, stamped(blob, _TENSOR_AT))


def read_tensors(path: FilePath) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays (writable copies) and the metadata that `write_tensors` wrote.

    Raises:
        InvalidArgument: another kind of file, a newer version, truncated or damaged.
        OSError: it cannot be read.
    """
    blob = _first_of(path, read_file(path))
    check_stamp(path, blob, _TENSOR_AT, _TENSOR_LEAD, "a workbench tensor file")
    try:
        views = safetensors.deserialize(blob)
        header = json.loads(blob[8 : 8 + _header_size(blob)])
        note = json.loads(header["__metadata__"]["workbench"][len(BLANK) :])
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError) as exc:
        raise InvalidArgument(f"{path} is not a workbench tensor file: {exc}") from exc
    _check_version(path, note)
    metadata = note.get("metadata")
    if not isinstance(metadata, dict):
        got = described(metadata) if "metadata" in note else "none"
        raise InvalidArgument(f"{path} is not a workbench tensor file: its metadata is an object, got {got}")
    return {name: _array(path, name, view) for name, view in views}, metadata


def write_json(path: FilePath, document: Any, kind: str) -> None:
    """Write a document of JSON types.

    Args:
        kind: what it is, e.g. "program"; `read_json` refuses a document of another kind.

    Raises:
        InvalidArgument, InvalidType: a value that JSON does not have, naming where it is.
        OSError: it cannot be written; a file that was there is unchanged.
    """
    content = _to_json(document, "document")
    fields = f'"kind": {json.dumps(kind)},\n"version": {VERSION},\n"content": {content}'
    blob = _DOCUMENT_LEAD + f'{BLANK}",\n{fields}}}\n'.encode()
    replace_file(path, stamped(blob, len(_DOCUMENT_LEAD)))


def read_json(path: FilePath, kind: str) -> Any:
    """The document that `write_json` wrote.

    Raises:
        InvalidArgument: another kind of file or document, a newer version, truncated or damaged.
        OSError: it cannot be read.
    """
    blob = read_file(path)
    check_stamp(path, blob, len(_DOCUMENT_LEAD), _DOCUMENT_LEAD, "a workbench document")
    try:
        document = json.loads(blob)
    except (ValueError, RecursionError) as exc:
        raise InvalidArgument(f"{path} is not a workbench document: {exc}") from exc
    _check_version(path, document)
    if document.get("kind") != kind:
        raise InvalidArgument(f"{path} is a {document.get('kind')!r} document; expected {kind!r}")
    if "content" not in document:
        raise InvalidArgument(f"{path} is a {kind!r} document without content")
    return document["content"]


def is_document(path: FilePath) -> bool:
    """Whether the file begins like those of `write_json`.

    Raises:
        InvalidArgument, OSError: as `read_json`.
    """
    return read_file(path, len(_DOCUMENT_LEAD)) == _DOCUMENT_LEAD


def _first_of(path: FilePath, blob: bytes) -> bytes:
    """Of an open file, which may hold several objects one after the other, the first; it then stands behind that."""
    if not isinstance(path, io.IOBase):
        return blob
    try:
        header = json.loads(blob[8 : 8 + _header_size(blob)])
        ends = [as_index(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return blob  # no tensor file: the stamp says so
    end = 8 + _header_size(blob) + max(ends, default=0)
    if not 8 <= end <= len(blob):
        return blob  # cut off, or no offsets: so does it
    path.seek(end - len(blob), os.SEEK_CUR)
    return blob[:end]


def _header_size(blob: bytes) -> int:
    return int.from_bytes(blob[:8], "little")


def _check_version(path: object, document: Any) -> None:
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise InvalidArgument(f"{path} has format version {version!r}; this workbench reads version {VERSION}")


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidType(f"tensor names are strings, got {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name!r} cannot be a tensor name: it is no valid Unicode") from None
    if name == "__metadata__":
        raise InvalidArgument("'__metadata__' cannot be a tensor name: safetensors reserves it")
    return name


def _storable(name: str, value: Any) -> np.ndarray:
    """`value` as a C-contiguous array of native byte order, 0-d ones staying 0-d."""
    array = np.asarray(value)
    native = array.dtype.newbyteorder("=")
    if native not in _SUPPORTED:
        known = ", ".join(sorted(dtype.name for dtype in _SUPPORTED))
        raise InvalidType(f"tensor {name!r} has dtype {array.dtype}, which cannot be saved; dtypes are {known}")
    return np.asarray(array, dtype=native, order="C")


def _array(path: object, name: str, view: dict[str, Any]) -> np.ndarray:
    dtype = DTYPES.get(view["dtype"])
    if dtype is None:
        raise InvalidArgument(f"{path}: tensor {name!r} has dtype {view['dtype']}, which is not supported")
    array = np.frombuffer(view["data"], dtype).reshape(view["shape"])
    return array if array.flags.writeable else array.copy()


def _to_json(value: Any, where: str) -> str:
    try:
        _check_json(value, where)
        return json.dumps(value)
    except RecursionError:
        raise InvalidArgument(f"{where} is nested too deeply, or contains itself") from None


def _check_json(value: Any, where: str) -> None:
    """Raise if JSON would not give `value` back as it is (apart from tuples, which become lists)."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidType(f"{where} has the key {key!r}: keys of saved documents are strings")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            _check_json(item, f"{where}[{position}]")
    elif type(value) is float and not math.isfinite(value):
        raise InvalidArgument(f"{where} is {value}, which JSON does not have")
    elif value is not None and type(value) not in (str, int, float, bool):
        raise InvalidType(f"{where} is a {type(value).__name__}, which cannot be saved in a document")
