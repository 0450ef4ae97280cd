"""Compiles the kernels: `python -m workbench.runtime.native.build FILE` writes their image.

It runs in a process of its own, so that neither numba nor LLVM takes up room in the one that trains.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from workbench.runtime.native.elf import Image, link
from workbench.runtime.native.image import write_image
from workbench.runtime.native.source import MODULES

PREFIX = "kernel."
ROW = "row"  # as in `kernels.intrinsics`


def build() -> tuple[Image, dict[str, str]]:
    """The image of all kernels, compiled for this processor, and the arguments of each as `write_image` takes them."""
    from workbench.runtime.kernels.registry import ENTRIES, KERNELS

    for name in MODULES:
        import_module(f"workbench.runtime.kernels.{name}")
    texts: list[str] = []
    for name, made in KERNELS.items():
        texts += [_compiled(made, symbol := f"body.{name}"), _row_wrapper(name, made.types, symbol)]
    for name, made in ENTRIES.items():
        texts += [_compiled(made, symbol := f"body.{name}"), _entry_wrapper(name, len(made.types), symbol)]
    letters = {name: "".join(map(_letter, made.types)) for name, made in KERNELS.items()}
    return link(_object(texts)), letters


def _letter(kind: Any) -> str:
    if kind == ROW:
        return "*"
    return "f" if str(kind) == "float32" else "i"


def _compiled(made: Any, symbol: str) -> str:
    """The optimised LLVM module of a function, which is renamed in it."""
    from numba import njit, types

    options: Any = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    given = [types.CPointer(types.int64) if kind == ROW else kind for kind in made.types]
    dispatcher = njit(types.int64(*given), **options)(made.body)
    compiled: Any = next(iter(dispatcher.overloads.values()))
    return compiled.library.get_llvm_str().replace(compiled.fndesc.mangled_name, symbol)


# numba's own convention: the result through a pointer, an error code as the value. Kernels raise nothing.
_CALL = """
define i64 @"{name}"({parameters}) {{
  %result = alloca i64
  %error = alloca ptr
{loads}
  %code = call i32 @"{symbol}"(ptr %result, ptr %error{arguments})
  %value = load i64, ptr %result
  ret i64 %value
}}
declare i32 @"{symbol}"(ptr, ptr{kinds})
"""


def _row_wrapper(name: str, types: tuple[Any, ...], symbol: str) -> str:
    """A function of the row's address that hands the words of the row to the kernel."""
    lines, arguments, kinds = [], "", ""
    if types == (ROW,):
        return _CALL.format(
            name=PREFIX + name, parameters="ptr %row", loads="", symbol=symbol, arguments=", ptr %row", kinds=", ptr"
        )
    for i, kind in enumerate(types):
        lines.append(f"  %p{i} = getelementptr i64, ptr %row, i64 {2 + i}")
        if str(kind) == "float32":
            lines += [f"  %d{i} = load double, ptr %p{i}", f"  %a{i} = fptrunc double %d{i} to float"]
            llvm = "float"
        else:
            llvm = "i64" if str(kind) == "int64" else "ptr"
            lines.append(f"  %a{i} = load {llvm}, ptr %p{i}")
        arguments += f", {llvm} %a{i}"
        kinds += f", {llvm}"
    return _CALL.format(
        name=PREFIX + name, parameters="ptr %row", loads="\n".join(lines), symbol=symbol, arguments=arguments,
        kinds=kinds,
    )  # fmt: skip


def _entry_wrapper(name: str, count: int, symbol: str) -> str:
    names = [f"i64 %a{i}" for i in range(count)]
    return _CALL.format(
        name=PREFIX + name, parameters=", ".join(names), loads="", symbol=symbol,
        arguments="".join(f", {n}" for n in names), kinds=", i64" * count,
    )  # fmt: skip


def _object(texts: list[str]) -> bytes:
    """One object file of several modules, position-independent."""
    import llvmlite.binding as llvm

    first = llvm.parse_assembly(texts[0])
    for text in texts[1:]:
        first.link_in(llvm.parse_assembly(text))
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), 3, reloc="pic", codemodel="small"
    )
    return machine.emit_object(first)


if __name__ == "__main__":
    write_image(sys.argv[1], *build())
