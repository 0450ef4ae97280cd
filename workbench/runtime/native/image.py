"""Compiled kernels: kept in a file of the user's own, brought into the process by mapping it, or by LLVM."""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import Unavailable
from workbench.runtime.footprint import note
from workbench.runtime.native.elf import Image
from workbench.runtime.native.objects import addresses_of

_MAGIC = b"workbench image 1\n"
_DIGEST = hashlib.sha256
_PREFIX = "kernel."  # of symbols
_START = len(_MAGIC) + _DIGEST().digest_size


class Described(NamedTuple):
    """What is known of kernels beside their code.

    Attributes:
        arguments: of every kernel, a letter each: i an address or a whole number, f a number, * any number of words.
        declared: what `Footprint` reads, of every kernel that rows may name.
        functions: the names of all, of those that only Python calls as well.
    """

    arguments: dict[str, str]
    declared: dict[str, Any]
    functions: list[str]


def write_image(path: str | os.PathLike[str], code: Image | Sequence[bytes], described: Described) -> None:
    """Write an image so that nobody ever sees half of it.

    Args:
        code: ready to be mapped, or object files for LLVM to load.
    """
    header = json.dumps(_header(code) | described._asdict()).encode()
    content = code.content if isinstance(code, Image) else b"".join(code)
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        body = struct.pack("<Q", len(header)) + header + content
        file.write(_MAGIC + _DIGEST(body).digest() + body)
    os.replace(partial, path)


def _header(code: Image | Sequence[bytes]) -> dict[str, Any]:
    if not isinstance(code, Image):
        return {"objects": [len(data) for data in code]}
    return {"code": code.code, "symbols": code.symbols, "rebased": code.rebased, "outside": code.outside}


class Damaged(Unavailable):
    """A file that is not as it was written."""


def _parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header and what is mapped; the file is as it was written, or refused."""
    data = path.read_bytes()
    body = data[_START:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : _START] != _DIGEST(body).digest():
        raise Damaged(f"{path} holds no compiled kernels, or is damaged")
    (length,) = struct.unpack_from("<Q", body)
    return json.loads(body[8 : 8 + length]), body[8 + length :]


class Kernels:
    """Kernels in this process.

    Args:
        path: of an image.

    Attributes:
        addresses, arguments: of every kernel, by name; the latter as in `Described`.

    Raises:
        Damaged: the file is no image, or not whole. Unavailable: the system does not let data become code.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        header, content = _parts(Path(path))
        self.arguments: dict[str, str] = header["arguments"]
        note(header["declared"])
        self.addresses = self._linked(header, content) if "objects" in header else self._mapped(header, content)

    def _linked(self, header: dict[str, Any], content: bytes) -> dict[str, int]:
        """By LLVM."""
        ends = [0, *accumulate(header["objects"])]
        names = [_PREFIX + name for name in header["functions"]]
        objects = [content[begin:end] for begin, end in pairwise(ends)]
        return {name.removeprefix(_PREFIX): at for name, at in addresses_of(objects, names).items()}

    def _mapped(self, header: dict[str, Any], content: bytes) -> dict[str, int]:
        """As they are."""
        self._memory = mmap.mmap(-1, len(content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory[:] = content
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._memory))  # for good: threads may be in it when Python ends
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._point(header)
        self._make_executable(header["code"])
        return {
            name.removeprefix(_PREFIX): self.base + offset
            for name, offset in header["symbols"].items()
            if name.startswith(_PREFIX)
        }

    def _point(self, header: dict[str, Any]) -> None:
        for place, target in header["rebased"]:
            struct.pack_into("<Q", self._memory, place, self.base + target)
        library = ctypes.CDLL(None)
        for place, name in header["outside"]:
            try:
                address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            except AttributeError:
                raise Unavailable(f"the kernels need {name!r}, which the C library lacks") from None
            struct.pack_into("<Q", self._memory, place, address)

    def _make_executable(self, code: Sequence[tuple[int, int]]) -> None:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for offset, size in code:
            if protect(self.base + offset, size, mmap.PROT_READ | mmap.PROT_EXEC):
                raise Unavailable(f"the system does not run compiled kernels: {os.strerror(ctypes.get_errno())}")

    def entry(self, name: str, arguments: int) -> Any:
        """A function that takes so many int64 and gives one; it runs without the interpreter lock."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        return kind(self.addresses[name])
