"""Compiles the kernels: `python -m workbench.runtime.native.build FILE` writes their image.

With `--aside` it gives way to other processes; with `--llvm` the file is for LLVM's loader.

It runs in processes of its own, one for each processor, so that neither numba nor LLVM takes up room in the one that
trains. Kernels are compiled unit by unit: a module of `runtime.kernels`, or a row program. The object code of each unit
is kept beside the image, so that after an edit only the units that it changes are compiled.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from workbench.framework.op.record import all_ops
from workbench.framework.rows.kernel import RowKernel
from workbench.runtime.devices import processors
from workbench.runtime.native.elf import joined, link
from workbench.runtime.native.image import Described, write_image
from workbench.runtime.native.kept_objects import compiled_once, objects_beside, sources_of
from workbench.runtime.native.row_bodies import all_row_kernels
from workbench.runtime.native.source import IMAGE, LLVM, modules

PREFIX = "kernel."
ROW = "row"  # as in `kernels.intrinsics`
_MOST = 8  # processes


def build(processes: int = _MOST, loader: str = IMAGE, kept: Path | None = None) -> tuple[Any, Described]:
    """The image of all kernels, compiled for this processor, and what `write_image` is told of each.

    Args:
        processes: at most so many, no more than there are processors; the others import all kernels anew.
        loader: what brings the image into a process. kept: the folder of object code, only this user's; None: none.

    Returns:
        an `Image`, or object files for LLVM.
    """
    count = min(processors(), processes)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "workbench.runtime.native.build", "--part", folder, str(kept or "")]
        others = [subprocess.Popen(command) for _ in range(1, count)]
        described = compile_part(Path(folder), kept)
        failed = [other for other in others if other.wait()]
        if failed:
            raise SystemExit("a process that compiled kernels failed")
        parts = [path.read_bytes() for path in sorted(Path(folder).glob("unit-*"))]
    return joined([link(part) for part in parts]) if loader == IMAGE else parts, described


def compile_part(folder: Path, kept: Path | None) -> Described:
    """Compile the units that no other process has begun with, into object files; what is known of all kernels."""
    from workbench.runtime.kernels.registry import ENTRIES, KERNELS

    _without_optimisers()
    for name in modules():
        import_module(f"workbench.runtime.kernels.{name}")
    rows = row_kernels()
    units = [names for names in (*_by_module(KERNELS | ENTRIES), *_by_program(rows)) if names]
    for index in _turns(folder / "next", len(units)):
        names = units[index]
        code = _row_unit(names, rows, kept) if names[0] in rows else _module_unit(names, kept)
        (folder / f"unit-{index:04}").write_bytes(code)
    described = Described(
        {name: "".join(map(_letter, declared.types)) for name, declared in KERNELS.items()},
        {name: declared.declared for name, declared in KERNELS.items() if declared.declared is not None},
        [],
    )
    described.functions.extend([*KERNELS, *ENTRIES, *rows])
    described.arguments.update((name, kernel.letters) for name, kernel in rows.items())
    return described


def _row_unit(names: Sequence[str], rows: dict[str, RowKernel], kept: Path | None) -> bytes:
    """The object code of a row program's kernels."""
    import llvmlite.binding as llvm
    from llvmlite import ir

    from workbench.runtime.kernels.rows.generator import write_kernel

    written = ir.Module()
    for name in names:
        write_kernel(written, rows[name], PREFIX)
    text = str(written)
    return compiled_once(kept, text, lambda: _object_of(llvm.parse_assembly(text)))


def _module_unit(names: Sequence[str], kept: Path | None) -> bytes:
    """The object code of the kernels and entries that a module declares."""
    from workbench.runtime.kernels.registry import ENTRIES, KERNELS

    declared = {name: KERNELS.get(name) or ENTRIES[name] for name in names}
    module = next(iter(declared.values())).body.__module__
    if module is None:  # declared in no file, as in an example
        return _object_of(_with_callees(declared))
    return compiled_once(kept, sources_of(module, names), lambda: _object_of(_with_callees(declared)))


def _with_callees(declared: dict[str, Any]) -> Any:
    """The code of some kernels and of all that they call, as LLVM first has it."""
    import llvmlite.binding as llvm

    from workbench.runtime.kernels.registry import KERNELS

    libraries: dict[Any, None] = {}
    wrappers = [""]
    for name, one in declared.items():
        library, symbol = _compiled(one)
        _gather(library, libraries)
        wrappers.append((_row_wrapper if name in KERNELS else _entry_wrapper)(name, one.types, symbol))
    module = llvm.parse_assembly("\n".join(wrappers))
    for library in libraries:
        module.link_in(library._final_module, preserve=True)  # other units call it as well
    return module


def _object_of(module: Any) -> bytes:
    _optimise(module)
    return bytes(_machine().emit_object(module))


def row_kernels() -> dict[str, RowKernel]:
    """The kernels of all row programs, by name."""
    all_ops()  # declare the programs
    return {kernel.name: kernel for kernel in all_row_kernels()}


def _by_program(rows: dict[str, RowKernel]) -> list[list[str]]:
    """The names of row kernels, those of a program together."""
    names = sorted(rows)
    return [list(same) for _, same in groupby(names, key=lambda name: rows[name].program.name)]


def _by_module(declared: dict[str, Any]) -> list[list[str]]:
    """The names of what is declared, by module, in the order of modules; what lies elsewhere comes first."""
    order = {f"workbench.runtime.kernels.{name}": number for number, name in enumerate(modules(), 1)}
    parts: list[list[str]] = [[] for _ in range(len(order) + 1)]
    for name, entry in declared.items():
        parts[order.get(entry.body.__module__, 0)].append(name)
    return parts


def _without_optimisers() -> None:
    """Keep numba from optimising each function and from making machine code of it.

    It would do so for every function together with all it calls. What is wanted of it is LLVM's code as it is first
    written: `_optimise` treats that of all kernels at once.
    """
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen

    library, codegen = cast("Any", JITCodeLibrary), cast("Any", JITCPUCodegen)
    library._optimize_functions = lambda self, module: None
    library.finalize = lambda self: setattr(self, "_finalized", True)
    codegen.set_env = lambda self, name, environment: None


def _gather(library: Any, gathered: dict[Any, None]) -> None:
    """The libraries of a function and of all it calls, each once."""
    if library not in gathered:
        gathered[library] = None
        for callee in library._linking_libraries:
            _gather(callee, gathered)


def _optimise(module: Any) -> None:
    """Optimise all functions; only kernels keep a name outside.

    Callees become internal only afterwards: LLVM inlines an internal function that has one caller at any price, and how
    many it has depends on what else this process compiles.
    """
    import llvmlite.binding as llvm

    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = llvm.Linkage.internal
    for function in _callees(module):
        function.linkage = llvm.Linkage.linkonce_odr
    machine = _machine()
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    for function in _callees(module):
        function.linkage = llvm.Linkage.internal


def _callees(module: Any) -> list[Any]:
    return [f for f in module.functions if not f.is_declaration and not f.name.startswith(PREFIX)]


def _turns(file: Path, count: int) -> Iterator[int]:
    """Numbers below `count` that no other process gets."""
    while True:
        with open(file, "a+") as shared:
            fcntl.flock(shared, fcntl.LOCK_EX)
            shared.seek(0)
            number = len(shared.read())
            shared.write(".")
        if number >= count:
            return
        yield number


def _letter(kind: Any) -> str:
    if kind == ROW:
        return "*"
    return "f" if str(kind) == "float32" else "i"


def _compiled(entry: Any) -> tuple[Any, str]:
    """The library of a function, and its name there."""
    from numba import njit, types

    options: Any = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    given = [types.CPointer(types.int64) if kind == ROW else kind for kind in entry.types]
    dispatcher = njit(types.int64(*given), **options)(entry.body)
    compiled: Any = next(iter(dispatcher.overloads.values()))
    return compiled.library, compiled.fndesc.mangled_name


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


def _entry_wrapper(name: str, types: tuple[Any, ...], symbol: str) -> str:
    names = [f"i64 %a{i}" for i in range(len(types))]
    return _CALL.format(
        name=PREFIX + name, parameters=", ".join(names), loads="", symbol=symbol,
        arguments="".join(f", {n}" for n in names), kinds=", i64" * len(types),
    )  # fmt: skip


def _machine() -> Any:
    """Of this processor; its code runs at any address."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), 3, reloc="pic", codemodel="small"
    )


if __name__ == "__main__":
    if sys.argv[1] == "--part":
        compile_part(Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3] else None)
    else:
        if "--aside" in sys.argv[2:]:
            os.nice(10)
        objects = objects_beside(Path(sys.argv[1]))
        write_image(sys.argv[1], *build(loader=LLVM if "--llvm" in sys.argv[2:] else IMAGE, kept=objects))
