"""CUDA C++ to PTX and machine code by NVIDIA's runtime compiler (NVRTC), called through ctypes.

The library comes with NVIDIA's wheels, with a CUDA toolkit, or with the system; neither a GPU nor CuPy is needed. What
was compiled once is kept in the cache folder, under a hash of the source, the options and the compiler's version.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from workbench.errors import EnforceNotMet, Unavailable
from workbench.runtime.native.library import cache_folder

ARCHITECTURES_CLAIMED = ("70", "75", "80", "86", "89", "90", "100")
"""Compute capabilities for which every kernel has to compile."""

_LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_CONSTANTS = (
    "-DINFINITY=__int_as_float(0x7f800000)",
    "-DNAN=__int_as_float(0x7fffffff)",
)
"""What <math.h> defines elsewhere: NVRTC has no host headers."""


class CompilationError(EnforceNotMet):
    """NVIDIA's compiler refused a source; the message holds the compiler's lines.

    Attributes:
        log: the lines as the compiler wrote them.
    """

    def __init__(self, log: str) -> None:
        super().__init__(f"NVIDIA's compiler refuses the source:\n{log}")
        self.log = log


def compile_ptx(source: str, architecture: str = "compute_80", options: Sequence[str] = ()) -> str:
    """Return the PTX of `source` for a virtual architecture, with the lines of the source in it."""
    return _compiled(source, architecture, (*options, "-lineinfo"), "PTX").decode()


def compile_cubin(source: str, architecture: str = "sm_80", options: Sequence[str] = ()) -> bytes:
    """Return the machine code of `source` for a real architecture."""
    return _compiled(source, architecture, tuple(options), "CUBIN")


@functools.cache
def compiler_version() -> tuple[int, int] | None:
    """Return the version of the compiler, as (12, 9), or None where there is no compiler."""
    library = _library()
    if library is None:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def include_folders() -> list[Path]:
    """Return the folders that hold `cuda_fp16.h` and its like."""
    return [folder for folder in _candidate_includes() if (folder / "cuda_fp16.h").exists()][:1]


def _compiled(source: str, architecture: str, options: tuple[str, ...], kind: str) -> bytes:
    version = compiler_version()
    if version is None:
        raise Unavailable(
            "NVIDIA's compiler (libnvrtc) is not here; `pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12`"
            " brings it, no GPU is needed"
        )
    path = cache_folder() / f"cuda-{_fingerprint(source, architecture, options, version)}.{kind.lower()}"
    if path.exists():
        return path.read_bytes()
    folders = [f"-I{folder}" for folder in include_folders()]
    code = _compile(source, [f"--gpu-architecture={architecture}", *_CONSTANTS, *folders, *options], kind)
    _keep(path, code)
    return code


def _fingerprint(source: str, architecture: str, options: tuple[str, ...], version: tuple[int, int]) -> str:
    parts = [source, architecture, *options, *_CONSTANTS, str(version)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _keep(path: Path, code: bytes) -> None:
    """Write a file that others either see whole or not at all; a cache that cannot be written is no reason to fail."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(code)
        os.replace(file.name, path)
    except OSError:
        return


def _compile(source: str, options: list[str], kind: str) -> bytes:
    library = _library()
    assert library is not None
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), given)
        if status:
            raise CompilationError(_text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).decode())
        size, text = getattr(library, f"nvrtcGet{kind}Size"), getattr(library, f"nvrtcGet{kind}")
        code = _text(size, text, program)
        return code.removesuffix(b"\0") if kind == "PTX" else code
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(ask_size: Callable[..., int], ask_text: Callable[..., int], program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(ask_size(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(ask_text(program, buffer))
    return buffer.raw


def _check(status: int) -> None:
    if status:
        library = _library()
        assert library is not None
        raise EnforceNotMet(f"NVIDIA's compiler failed: {library.nvrtcGetErrorString(status).decode()}")


@functools.cache
def _library() -> ctypes.CDLL | None:
    for name in _candidate_libraries():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    return None


def _candidate_libraries() -> Iterator[str]:
    for folder in _nvidia_wheels():
        for path in sorted(folder.glob("*/lib/libnvrtc.so.*"), reverse=True):
            if ".alt." not in path.name:
                yield str(path)
    for toolkit in _toolkits():
        for name in _LIBRARIES:
            for place in ("lib64", "lib"):
                if (toolkit / place / name).exists():
                    yield str(toolkit / place / name)
    yield from _LIBRARIES


def _candidate_includes() -> Iterator[Path]:
    for folder in _nvidia_wheels():
        yield from sorted(folder.glob("*/include"))
    for toolkit in _toolkits():
        yield toolkit / "include"


def _nvidia_wheels() -> Iterator[Path]:
    for entry in sys.path:
        folder = Path(entry) / "nvidia"
        if entry and folder.is_dir():
            yield folder


def _toolkits() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")
