"""Images: what is written is what is run; a file that is not as it was written is refused, and never run."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.native.one_row import kernels
from workbench.errors import Unavailable
from workbench.runtime.native import image as image_module
from workbench.runtime.native import library
from workbench.runtime.native.elf import PAGE, Image, Unlinkable, joined, link
from workbench.runtime.native.image import Damaged, Described, Kernels, write_image
from workbench.runtime.native.source import IMAGE, loader
from workbench.runtime.native.tape import address
from workbench.runtime.words.codes import DECLINED, DONE

DESCRIBED = Described({"same": "i", "load": ""}, {}, ["same", "load"])
# mov rax, rdi; ret — and: mov rax, [rip + distance to a word]; ret
SAME, LOAD = b"\x48\x89\xf8\xc3", b"\x48\x8b\x05"


def small() -> Image:
    """Two functions: one returns its argument, the other a word that holds the image's own address plus 16."""
    code = SAME.ljust(16, b"\x90") + LOAD + (PAGE - 16 - 7).to_bytes(4, "little") + b"\xc3"
    content = code.ljust(PAGE, b"\0") + bytes(16)
    symbols = {"kernel.same": 0, "kernel.load": 16}
    return Image(content, [(0, PAGE)], symbols, rebased=[(PAGE, 16)], outside=[(PAGE + 8, "memset")])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_image(tmp_path / "image", small(), DESCRIBED)
    return tmp_path / "image"


def test_code_runs_and_addresses_in_it_are_those_of_this_process(path: Path) -> None:
    first, second = Kernels(path), Kernels(path)
    assert first.base != second.base
    for loaded in (first, second):
        assert loaded.entry("same", 1)(41) == 41
        assert loaded.entry("load", 0)() == loaded.base + 16
        assert loaded.arguments == {"same": "i", "load": ""}
        memset = ctypes.cast(ctypes.CDLL(None).memset, ctypes.c_void_p).value
        assert ctypes.c_uint64.from_address(loaded.base + PAGE + 8).value == memset


def test_the_file_is_its_owners_and_appears_at_once(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["image"]
    before = path.stat().st_ino
    write_image(path, small(), DESCRIBED)
    assert path.stat().st_ino != before


def test_a_writer_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = path.read_bytes()
    monkeypatch.setattr(image_module.os, "replace", lambda *names: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_image(path, small(), DESCRIBED)
    assert path.read_bytes() == old


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_that_is_cut_or_changed_anywhere_is_refused(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes()
    spoilt = path.with_name("spoilt")
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        spoilt.write_bytes(whole[:at])
    else:
        spoilt.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    with pytest.raises(Damaged, match="holds no compiled kernels, or is damaged"):
        Kernels(spoilt)


@pytest.mark.parametrize("content", [b"", b"workbench image 1\n", b"\0" * 5000, b"{}"])
def test_other_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(Damaged):
        Kernels(path)


def test_a_function_the_c_library_lacks_is_named(tmp_path: Path) -> None:
    image = small()
    image.outside = [(PAGE + 8, "no_such_function_anywhere")]
    write_image(tmp_path / "image", image, DESCRIBED)
    with pytest.raises(Unavailable, match="the kernels need 'no_such_function_anywhere'"):
        Kernels(tmp_path / "image")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(60), b"\x7fELF\x02\x01" + bytes(58)])
def test_what_is_no_object_file_is_not_linked(data: bytes) -> None:
    with pytest.raises(Unlinkable, match="not an object file for x86-64"):
        link(data)


# The image of this machine


def mapped() -> Kernels:
    """The kernels, mapped from their image; skips the test where LLVM loads them."""
    loaded = kernels()
    if loader() != IMAGE:
        pytest.skip("the kernels are loaded by LLVM")
    return loaded


def test_code_cannot_be_written_and_data_cannot_be_run() -> None:
    image: Any = mapped()
    base = image.base
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, *_ = line.split()
        begin, end = (int(x, 16) for x in span.split("-"))
        rights[begin, end] = mode
    modes = [mode for (begin, end), mode in rights.items() if begin <= base < end]
    assert modes == ["r-xp"]
    end = base + len(image._memory)
    ours = [mode for (begin, stop), mode in rights.items() if begin < end and base < stop]
    assert not any("w" in mode and "x" in mode for mode in ours)


def test_it_needs_nothing_but_the_c_library() -> None:
    mapped()
    header, _ = image_module._parts(library.image_path())
    names = {name for _, name in header["outside"]}
    assert names and all(hasattr(ctypes.CDLL(None), name) for name in names)
    assert not any(name.startswith(("numba", "NRT", "Py")) for name in names)


def test_every_kernel_is_inside_the_code() -> None:
    loaded: Any = mapped()
    header, _ = image_module._parts(library.image_path())
    assert loaded.addresses.keys() >= loaded.arguments.keys()
    inside = [range(offset, offset + size) for offset, size in header["code"]]
    assert all(any(at - loaded.base in part for part in inside) for at in loaded.addresses.values())


def test_joined_images_run_each_with_its_own_data(tmp_path: Path) -> None:
    other = small()
    other.symbols = {"kernel.same_too": 0, "kernel.load_too": 16}
    cut = Image(other.content[:-3], other.code, other.symbols, other.rebased, other.outside)
    image = joined([small(), cut, small()])
    write_image(tmp_path / "image", image, DESCRIBED)
    loaded = Kernels(tmp_path / "image")
    assert image.code == [(0, PAGE), (2 * PAGE, PAGE), (4 * PAGE, PAGE)]
    assert loaded.entry("same_too", 1)(7) == 7 and loaded.entry("same", 1)(8) == 8
    assert loaded.entry("load_too", 0)() == loaded.base + 2 * PAGE + 16
    assert loaded.entry("load", 0)() == loaded.base + 4 * PAGE + 16


@pytest.mark.parametrize("numbers", [[2.0, 2.0, 2.0], [2.0, 2.0, 3.0]])
def test_a_copy_of_the_image_computes_the_same(numbers: list[float]) -> None:
    given = np.float32(numbers)
    statuses = []
    for loaded in (kernels(), Kernels(library.image_path())):
        row = np.array([loaded.addresses["require_equal"], 6, address(given), address(given), given.size, 1], np.int64)
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loaded.addresses["require_equal"])
        statuses.append(function(address(row)))
    assert statuses == [DONE if len(set(numbers)) == 1 else DECLINED] * 2
