"""Object files of LLVM (ELF, x86-64) as images: code at offsets from its own start, ready to be put anywhere."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PAGE = 4096
_ALLOCATED, _WRITABLE, _NO_BITS, _SYMBOLS, _RELOCATIONS, _COMMON = 2, 1, 8, 2, 4, 0xFFF2
_ABSOLUTE, _RELATIVE, _CALL = 1, 2, 4
_THROUGH_TABLE = (9, 41, 42)


class Unlinkable(Exception):
    """The object asks for something images do not have."""


@dataclass
class Image:
    """Code and data that run at any address.

    Attributes:
        content: instructions and constants, then, on a page of its own, what is written to; in whole pages.
        code: (offset, bytes) of the first part, one or more.
        symbols: offsets by name.
        rebased: (offset of a word, offset it is to point to).
        outside: (offset of a word, name of a function of the C library it is to point to).
    """

    content: bytes
    code: list[tuple[int, int]]
    symbols: dict[str, int] = field(default_factory=dict)
    rebased: list[tuple[int, int]] = field(default_factory=list)
    outside: list[tuple[int, str]] = field(default_factory=list)


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    size: int


def link(data: bytes) -> Image:
    """An image of one object file.

    Raises:
        Unlinkable: it is no object file for x86-64, or has relocations that are not known here.
    """
    if data[:6] != b"\x7fELF\x02\x01" or data[18:20] != b"\x3e\x00":
        raise Unlinkable("not an object file for x86-64")
    return _Linking(data).image()


def joined(images: Sequence[Image]) -> Image:
    """Images one after the other; of functions with one name the last counts."""
    whole = Image(b"", [])
    for image in images:
        start = len(whole.content)
        whole.content += image.content.ljust(-(-len(image.content) // PAGE) * PAGE, b"\0")
        whole.code += [(start + offset, size) for offset, size in image.code]
        whole.symbols |= {name: start + offset for name, offset in image.symbols.items()}
        whole.rebased += [(start + place, start + target) for place, target in image.rebased]
        whole.outside += [(start + place, name) for place, name in image.outside]
    return whole


class _Linking:
    def __init__(self, data: bytes) -> None:
        self.data = data
        start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        self.sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i)) for i in range(count)]
        self.symbols = self._read_symbols()
        self.places: dict[int, int] = {}
        self.slots: dict[str, int] = {}  # words that hold the address of a symbol
        self.stubs: dict[str, int] = {}  # jumps to functions of the C library

    def _read_symbols(self) -> list[_Symbol]:
        table = next(s for s in self.sections if s.kind == _SYMBOLS)
        names = self.sections[table.link].offset
        symbols = []
        for at in range(table.offset, table.offset + table.size, 24):
            name, _, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            end = self.data.index(b"\0", names + name)
            symbols.append(_Symbol(self.data[names + name : end].decode(), section, value, size))
        return symbols

    def image(self) -> Image:
        needed = self._outside_names()
        end = self._lay_out(writable=False, start=0)
        self.stubs = {name: end + 16 * i for i, name in enumerate(needed)}
        code_size = -(-(end + 16 * len(needed)) // PAGE) * PAGE
        end = self._lay_out(writable=True, start=code_size)
        end = self._lay_out_common(end)
        tabled = dict.fromkeys([*needed, *self._tabled_names()])
        self.slots = {name: end + 8 * i for i, name in enumerate(tabled)}
        end += 8 * len(tabled)
        self.bytes = bytearray(end)
        image = Image(b"", [(0, code_size)])
        for index, place in self.places.items():
            section = self.sections[index]
            if section.kind != _NO_BITS:
                self.bytes[place : place + section.size] = self.data[section.offset : section.offset + section.size]
        for name, stub in self.stubs.items():  # jmp [rip + distance to the slot]
            self.bytes[stub : stub + 6] = b"\xff\x25" + struct.pack("<i", self.slots[name] - stub - 6)
        self._relocate(image)
        self._fill_slots(image, set(needed))
        image.content = bytes(self.bytes)
        image.symbols = {
            s.name: self.places[s.section] + s.value for s in self.symbols if s.name and s.section in self.places
        }
        return image

    def _outside_names(self) -> list[str]:
        return list(dict.fromkeys(s.name for s in self.symbols if s.section == 0 and s.name))

    def _tabled_names(self) -> list[str]:
        return [self.symbols[n].name for _, kind, n, _, _ in self._relocations() if kind in _THROUGH_TABLE]

    def _lay_out(self, writable: bool, start: int) -> int:
        end = start
        for index, section in enumerate(self.sections):
            if section.flags & _ALLOCATED and bool(section.flags & _WRITABLE) == writable:
                end = -(-end // max(section.align, 1)) * max(section.align, 1)
                self.places[index] = end
                end += section.size
        return -(-end // 16) * 16

    def _lay_out_common(self, end: int) -> int:
        """Room for symbols without a section; `value` is then their alignment."""
        self.common: dict[str, int] = {}
        for symbol in self.symbols:
            if symbol.section == _COMMON:
                end = -(-end // 16) * 16
                self.common[symbol.name] = end
                end += symbol.size
        return -(-end // 16) * 16

    def _relocations(self) -> list[tuple[int, int, int, int, int]]:
        """(section, kind, symbol, offset in the section, addend)."""
        relocations = []
        for section in self.sections:
            if section.kind != _RELOCATIONS or not self.sections[section.info].flags & _ALLOCATED:
                continue
            for at in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                relocations.append((section.info, info & 0xFFFFFFFF, info >> 32, offset, addend))
        return relocations

    def _target(self, symbol: _Symbol) -> int:
        if symbol.name in self.common:
            return self.common[symbol.name]
        if symbol.section in self.places:
            return self.places[symbol.section] + symbol.value
        raise Unlinkable(f"symbol {symbol.name!r} is nowhere")

    def _relocate(self, image: Image) -> None:
        for section, kind, number, offset, addend in self._relocations():
            place, symbol = self.places[section] + offset, self.symbols[number]
            if kind in _THROUGH_TABLE:
                self._put(place, self.slots[symbol.name] + addend - place)
            elif kind in (_RELATIVE, _CALL):
                target = self.stubs[symbol.name] if symbol.section == 0 else self._target(symbol)
                self._put(place, target + addend - place)
            elif kind == _ABSOLUTE:
                image.rebased.append((place, self._target(symbol) + addend))
            else:
                raise Unlinkable(f"relocation of kind {kind} at symbol {symbol.name!r}")

    def _put(self, place: int, distance: int) -> None:
        struct.pack_into("<i", self.bytes, place, distance)

    def _fill_slots(self, image: Image, outside: set[str]) -> None:
        by_name = {s.name: s for s in self.symbols}
        for name, slot in self.slots.items():
            if name in outside:
                image.outside.append((slot, name))
            else:
                image.rebased.append((slot, self._target(by_name[name])))
