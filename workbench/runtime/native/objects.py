"""Object files of LLVM brought into the process by LLVM's own linker, on whatever machine it knows.

`elf.py` and `image.py` do the same on Linux on x86-64 without LLVM, in a few milliseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from workbench.errors import Unavailable


def addresses_of(objects: Sequence[bytes], symbols: Iterable[str]) -> dict[str, int]:
    """Where functions of object files are, now that these are linked to each other and to what the process has.

    Raises:
        Unavailable: llvmlite is not installed, or something that the files need is missing.
    """
    if find_spec("llvmlite") is None:
        raise Unavailable("llvmlite is not installed, which loads kernels on this machine")
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    library = llvm.JITLibraryBuilder()
    for data in objects:
        library.add_object_img(data)
    for symbol in symbols:
        library.export_symbol(symbol)
    compiler = llvm.create_lljit_compiler()
    try:
        linked = library.add_current_process().link(compiler, "kernels")
    except RuntimeError as error:
        raise Unavailable(f"LLVM does not load the kernels: {error}") from None
    for kept in (compiler, linked):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # for good: threads may be in it when Python ends
    return {symbol: linked[symbol] for symbol in symbols}
