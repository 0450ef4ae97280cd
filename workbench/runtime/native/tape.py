"""Writes tapes: rows of numbers that name a kernel and what it works on."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import numpy as np

from workbench.runtime.native.image import Kernels


class Tape:
    """The program of one thread.

    Attributes:
        words: the rows one after the other.
        kept: what rows point to and nobody else keeps.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.words = array("q")
        self.kept: list[Any] = []
        self._constants: dict[bytes, np.ndarray] = {}

    def __len__(self) -> int:
        """In words: where the next row begins."""
        return len(self.words)

    def row(self, kernel: str, *arguments: float) -> None:
        """Add a row.

        Args:
            arguments: addresses and numbers in the order the kernel declares them.
        """
        letters = self.kernels.arguments[kernel]
        if letters != "*":
            assert len(letters) == len(arguments), f"{kernel} takes {len(letters)} arguments, got {len(arguments)}"
            arguments = tuple([_bits(a) if kind == "f" else a for kind, a in zip(letters, arguments, strict=True)])
        self.words.extend((self.kernels.addresses[kernel], 2 + len(arguments), *arguments))  # type: ignore[arg-type]

    def truncate(self, words: int) -> None:
        """Take back what was written since the tape had so many words."""
        del self.words[words:]

    def constant(self, data: bytes, count: int) -> int:
        """The address of at least so many float32 that are the number in `data`."""
        found = self._constants.get(data)
        if found is None or found.size < count:
            found = self._constants[data] = np.repeat(np.frombuffer(data, np.float32), count)
            self.kept.append(found)
        return address(found)

    def keep(self, made: np.ndarray) -> int:
        """The address of an array that lives as long as the tape."""
        self.kept.append(made)
        return address(made)


def address(array_: np.ndarray) -> int:
    """Where an array's first element is."""
    return array_.__array_interface__["data"][0]


def _bits(number: float) -> int:
    (found,) = struct.unpack("<q", struct.pack("<d", number))
    return found
