"""Writes tapes: rows of numbers that name a kernel and what it works on."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.runtime.footprint import OutOfBounds, footprint_of, kernel_for
from workbench.runtime.native.image import Kernels
from workbench.runtime.words.codes import ROW_LENGTH


class Pointer(NamedTuple):
    """An address, and how much of the array it comes from lies around it.

    Attributes:
        before, behind: bytes of the array before the address, and from there on.
        when: 1, or 0 where a row is to point nowhere instead; open sizes may decide that.
    """

    address: int
    before: int
    behind: int
    when: int = 1

    @property
    def begin(self) -> int:
        """The first byte of the array."""
        return self.address - self.before

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.behind

    def moved(self, distance: int) -> Pointer:
        """So many bytes further on in the same array."""
        return Pointer(self.address + distance, self.before + distance, self.behind - distance, self.when)

    def aligned(self, unit: int) -> Pointer:
        """The next address in the array that is a multiple of `unit`."""
        return self.moved(-self.address % unit)


class Desk(Protocol):
    """Where a block of control flow, a tape of its own, asks for the rows of it that Python runs.

    Attributes:
        rows: these, of its plan.
    """

    rows: list[Any]

    def answer(self) -> bool:
        """Make the call that is asked for; False if none is."""

    def clear(self) -> None:
        """None is asked for any more."""


class Tape:
    """The program of one thread.

    Attributes:
        words: the rows one after the other.
        kept: what rows point to and nobody else keeps.
        growing: each sees to it that a loop has memory for its next pass.
        desks: of the blocks it walks of which Python runs a part.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.words: Any = array("q")
        self.kept: list[Any] = []
        self.growing: list[Callable[[], None]] = []
        self.desks: list[Desk] = []
        self._constants: dict[bytes, np.ndarray] = {}

    def __len__(self) -> int:
        """In words: where the next row begins."""
        return len(self.words)

    def row(self, kernel: str, *arguments: Any) -> None:
        """Add a row.

        Whatever it points to is given as the array itself, as a `Pointer`, or as None where the kernel can do without:
        what the kernel declares to touch (`runtime.footprint`) has to lie inside.

        Args:
            kernel: of one that is compiled for float32 and for float64 the arrays tell which it is.
            arguments: pointers and numbers in the order the kernel declares them.

        Raises:
            OutOfBounds: the kernel would touch what lies outside. TypeError: an address that comes from nowhere.
        """
        words, kernel = list(arguments), kernel_for(kernel, arguments)
        for index, first, end in footprint_of(kernel).touched(*arguments):
            words[index] = pointed(kernel, index, arguments[index], first, end)
        self.checked_row(kernel, words)

    def checked_row(self, kernel: str, words: Sequence[Any]) -> None:
        """Add a row whose pointers are addresses that have been looked at."""
        letters = self.kernels.arguments[kernel]
        if letters != "*":
            assert len(letters) == len(words), f"{kernel} takes {len(letters)} arguments, got {len(words)}"
            if "f" in letters:
                words = [_bits(a) if kind == "f" else a for kind, a in zip(letters, words, strict=True)]
        self.words.extend((self.kernels.addresses[kernel], 2 + len(words), *words))

    def block(self, flag: np.ndarray, control: np.ndarray, write: Callable[[], None]) -> None:
        """Add a row that one of several threads runs.

        Args:
            flag: tells that it is done, and who has taken it. write: adds the row that is run.
        """
        self._around("block", flag, control, write)

    def unless(self, flag: np.ndarray, control: np.ndarray, write: Callable[[], None]) -> None:
        """Add a row that is run unless a flag is up.

        Args:
            write: adds the row that is run.
        """
        self._around("unless", flag, control, write)

    def _around(self, kernel: str, flag: np.ndarray, control: np.ndarray, write: Callable[[], None]) -> None:
        """Add a row with one inside it."""
        begin = len(self.words)
        self.row(kernel, flag, control)
        write()
        self.words[begin + ROW_LENGTH] = len(self.words) - begin

    def make_room(self) -> None:
        """For the next pass of every loop that has no memory left."""
        for grow in self.growing:
            grow()

    def answer(self) -> None:
        """Make the call that a block it walks has asked for."""
        assert any(desk.answer() for desk in self.desks), "no block has asked for a call"

    def table(self) -> int:
        """Where the rows are in memory, now that there are all of them."""
        return address(self.keep(np.array(self.words, np.int64)))

    def number(self, x: Any, dtype: Any = np.float32) -> Any:
        """A number in memory as an operand."""
        return self.keep(np.full((1,), x, dtype))

    def truncate(self, words: int) -> None:
        """Take back what was written since the tape had so many words."""
        del self.words[words:]

    def constant(self, data: bytes, count: int) -> np.ndarray:
        """At least so many float32 or float64, as many bytes as it has tell, that are the number in `data`."""
        repeated = self._constants.get(data)
        if repeated is None or repeated.size < count:
            repeated = self._constants[data] = np.repeat(np.frombuffer(data, f"f{len(data)}"), count)
            self.kept.append(repeated)
        return repeated

    def keep(self, array: np.ndarray) -> np.ndarray:
        """The array, which lives as long as the tape from now on."""
        self.kept.append(array)
        return array


def pointed(kernel: str, index: int, given: Any, first: int, end: int) -> int:
    """The address in an argument of a row, if what is touched from there lies in the array it comes from."""
    if isinstance(given, np.ndarray):
        given = pointer(given)
    if type(given) is not Pointer:
        if given is None and end <= first:
            return 0
        raise TypeError(f"argument {index} of kernel {kernel!r} points to memory; expected an array, got {given!r}")
    at, before, behind, when = given
    if first < end and (before + first < 0 or end > behind):
        raise OutOfBounds(
            f"kernel {kernel!r} would touch the bytes {before + first} to {before + end} of argument {index}, "
            f"which has {before + behind}"
        )
    return at if type(when) is int and when == 1 else at * when


def address(array_: np.ndarray) -> int:
    """Where an array's first element is; what only stands for one tells itself."""
    if type(array_) is not np.ndarray and hasattr(array_, "pointer"):
        return array_.pointer().address
    return array_.__array_interface__["data"][0]


def pointer(array_: np.ndarray) -> Pointer:
    """To an array's first element.

    Raises:
        TypeError: a scalar, such as an index of an array without dimensions gives; its memory nobody keeps.
    """
    if not isinstance(array_, np.ndarray):
        raise TypeError(f"a row of a tape points to arrays, got {array_!r}")
    if type(array_) is not np.ndarray and hasattr(array_, "pointer"):
        return array_.pointer()
    at = array_.__array_interface__["data"][0]
    if array_.flags.c_contiguous:
        return Pointer(at, 0, array_.nbytes)
    before = behind = 0
    for size, stride in zip(array_.shape, array_.strides, strict=True):
        distance = (size - 1) * stride
        before, behind = before - min(distance, 0), behind + max(distance, 0)
    return Pointer(at, before, behind + array_.itemsize)


def _bits(number: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return bits
