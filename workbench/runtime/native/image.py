"""Compiled kernels: kept in a file of the user's own, brought into the process by mapping it."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
from pathlib import Path
from typing import Any

from workbench.errors import Unavailable
from workbench.runtime.native.elf import Image

_MAGIC = b"workbench image 1\n"


def write_image(path: str | os.PathLike[str], image: Image, arguments: dict[str, str]) -> None:
    """Write an image so that nobody ever sees half of it.

    Args:
        arguments: of every kernel, a letter each: i an address or a whole number, f a number, * any number of words.
    """
    header = json.dumps(
        {
            "code_size": image.code_size,
            "symbols": image.symbols,
            "rebased": image.rebased,
            "outside": image.outside,
            "arguments": arguments,
        }
    ).encode()
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(_MAGIC + struct.pack("<Q", len(header)) + header + image.content)
    os.replace(partial, path)


class Kernels:
    """Kernels in this process.

    Args:
        path: of an image.

    Attributes:
        addresses, arguments: of every kernel, by name; the latter as in `write_image`.

    Raises:
        Unavailable: the file is no image, or the system does not let data become code.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        data = Path(path).read_bytes()
        if not data.startswith(_MAGIC):
            raise Unavailable(f"{path} holds no compiled kernels")
        start = len(_MAGIC) + 8
        (length,) = struct.unpack_from("<Q", data, len(_MAGIC))
        header = json.loads(data[start : start + length])
        content = data[start + length :]
        self._memory = mmap.mmap(-1, len(content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory[:] = content
        self.arguments: dict[str, str] = header["arguments"]
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._point(header)
        self._make_executable(header["code_size"])
        self.addresses = {
            name.removeprefix("kernel."): self.base + offset
            for name, offset in header["symbols"].items()
            if name.startswith("kernel.")
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

    def _make_executable(self, code_size: int) -> None:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(self.base, code_size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unavailable(f"the system does not run compiled kernels: {os.strerror(ctypes.get_errno())}")

    def entry(self, name: str, arguments: int) -> Any:
        """A function that takes so many int64 and gives one; it runs without the interpreter lock."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        return kind(self.addresses[name])
