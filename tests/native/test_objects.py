"""Kernels that LLVM loads, where code is not mapped as it is."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from workbench.config import override
from workbench.errors import Unavailable
from workbench.runtime.native import library, source
from workbench.runtime.native.image import Damaged, Described, Kernels, write_image
from workbench.runtime.native.objects import addresses_of

llvm = pytest.importorskip("llvmlite.binding", reason="llvmlite is not installed, which loads object files")

DOUBLED = """
define i64 @"kernel.doubled"(i64 %x) {
  %y = call i64 @llabs(i64 %x)
  %z = add i64 %y, %y
  ret i64 %z
}
declare i64 @llabs(i64)
"""
SUCCESSOR = """
define i64 @"kernel.successor"(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
"""


def compiled(text: str) -> bytes:
    """An object file for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(reloc="pic", codemodel="small").emit_object(llvm.parse_assembly(text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    described = Described({"doubled": "i", "successor": "i"}, {}, ["doubled", "successor"])
    write_image(tmp_path / "objects", [compiled(DOUBLED), compiled(SUCCESSOR)], described)
    return tmp_path / "objects"


def test_functions_of_several_files_run_and_call_the_c_library(path: Path) -> None:
    kernels = Kernels(path)
    assert kernels.arguments == {"doubled": "i", "successor": "i"}
    assert kernels.entry("doubled", 1)(-21) == 42
    assert kernels.entry("successor", 1)(41) == 42
    assert set(kernels.addresses) == {"doubled", "successor"}


def test_a_changed_file_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Damaged):
        Kernels(path)


def test_what_nobody_has_is_told() -> None:
    lost = compiled(DOUBLED.replace("llabs", "no_such_function_anywhere"))
    with pytest.raises(Unavailable, match="LLVM does not load the kernels"):
        addresses_of([lost], ["kernel.doubled"])


def test_code_stays_when_nobody_holds_it() -> None:
    (at,) = addresses_of([compiled(SUCCESSOR)], ["kernel.successor"]).values()
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(at)(6) == 7


def test_the_flag_chooses_the_loader_and_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with override(kernel_loader="llvm"):
        assert source.loader() == "llvm" and library.image_path().name.endswith("-llvm")
        assert library._compiler(Path("x"))[-1] == "--llvm"
    monkeypatch.setattr(source.platform, "machine", lambda: "aarch64")
    with override(kernel_loader="auto"):
        assert source.loader() == "llvm"
        assert library.obstacle() is None
    with override(kernel_loader="image"):
        assert "FLAGS_kernel_loader is image, which is for Linux on x86-64" in str(library.obstacle())


def test_elsewhere_steps_run_as_numpy_calls_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.sys, "byteorder", "big")
    assert "kernels are made for 64-bit POSIX systems" in str(library.obstacle())
