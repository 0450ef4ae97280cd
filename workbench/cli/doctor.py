"""`workbench doctor`: what this machine has, what is missing and the one line that gets it.

It imports nothing that could fail or take a device: versions come from the installed packages' metadata, and
CuPy is asked in a process of its own, so that a broken driver costs one line here and not the report.
"""

import contextlib
import io
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from workbench.version import __version__, installing

GIB = 1024**3
TAPE = "FLAGS_cpu_tape"
LOADERS = {"image": "image: code is mapped as it is", "llvm": "llvm: llvmlite links object files"}
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
CPU_INFO = Path("/proc/cpuinfo")
CUPY_DISTRIBUTIONS = ("cupy-cuda12x", "cupy-cuda13x", "cupy")
NCCL_DISTRIBUTIONS = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
CUPY_TIMEOUT_S = 60
COUNT_GPUS = """
import cupy
for index in range(cupy.cuda.runtime.getDeviceCount()):
    device = cupy.cuda.runtime.getDeviceProperties(index)
    print(index, device["name"].decode(), f"{device['totalGlobalMem'] / 1024**3:.0f} GiB")
"""
NCCL_VERSION = "from cupy.cuda import nccl; print(nccl.get_version())"


def report(compile: bool = False) -> Iterator[str]:
    """The report, line by line; a line is shown before the next one is worked out.

    Args:
        compile: the kernels, if nobody has yet.
    """
    system = f"{platform.system()} {platform.machine()}"
    yield f"workbench {__version__}, Python {platform.python_version()}, {system}"
    for title, rows in (
        ("Devices", devices),
        ("Numerics", numerics),
        ("Kernels", partial(native, compile)),
        ("Optional", optional),
        ("Notebook", front),
    ):
        yield ""
        yield title
        yield from (f"  {label:<11} {text}" for label, text in rows())


def devices() -> Iterator[tuple[str, str]]:
    yield "CPU", f"{usable_processors()} of {os.cpu_count()} processors usable, {processor_name()}"
    yield "memory", memory()
    yield from gpus()


def usable_processors() -> int:
    """Processors this process may run on; what the threads of an executor are counted against."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """As the system calls it."""
    with contextlib.suppress(OSError):
        for line in CPU_INFO.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "size unknown"
    limit = memory_limit()
    if limit is not None and limit < total:
        return f"{limit / GIB:.1f} GiB allowed, of {total / GIB:.1f} GiB"
    return f"{total / GIB:.1f} GiB"


def memory_limit() -> int | None:
    """What the container may use, in bytes; None when nothing limits it."""
    for path in CGROUP_LIMITS:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            continue
    return None


def gpus() -> Iterator[tuple[str, str]]:
    from workbench.cuda.compile import compiler_version
    from workbench.runtime.devices import simulated_gpus

    if simulated_gpus():
        compiler = "NVIDIA's compiler is not installed: pip install 'notebook-workbench[simulated-gpu]'"
        version = compiler_version()
        told = compiler if version is None else f"kernels by NVIDIA's compiler {version[0]}.{version[1]}"
        yield "GPU", f"{simulated_gpus()} simulated (FLAGS_simulated_gpus); {told}"
        return
    if not installed(CUPY_DISTRIBUTIONS):
        driver = "an NVIDIA driver is here, but" if shutil.which("nvidia-smi") else "no NVIDIA driver, and"
        yield "GPU", f"none usable: {driver} CuPy is not installed"
        return
    answered, lines = ask_python(COUNT_GPUS)
    if not answered:
        yield "GPU", f"none usable: {lines[-1]}"
    for line in lines if answered else ():
        yield "GPU", line


def ask_python(code: str) -> tuple[bool, list[str]]:
    """Whether `code` ran in a Python of its own, and the lines it printed (or its error's)."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=CUPY_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, [f"CuPy did not answer in {CUPY_TIMEOUT_S} s"]
    text = result.stderr if result.returncode else result.stdout
    return not result.returncode, text.strip().splitlines() or ["no device"]


def numerics() -> Iterator[tuple[str, str]]:
    import numpy
    import threadpoolctl

    yield "NumPy", numpy.__version__
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    for pool in pools:
        kernels = pool.get("architecture", "not told")
        yield (
            "BLAS",
            f"{pool['internal_api']} {pool['version']}, kernels {kernels}, {pool['num_threads']} threads",
        )
    if not pools:
        yield "BLAS", "none that threadpoolctl knows"
    yield "", core_type_note(os.environ.get("OPENBLAS_CORETYPE"))


def core_type_note(inherited: str | None) -> str:
    if inherited is None:
        return "OPENBLAS_CORETYPE is not set: OpenBLAS chose the kernels for this processor"
    return f"OPENBLAS_CORETYPE={inherited} was inherited and chose the kernels; unset it to let OpenBLAS choose"


def native(compile: bool) -> Iterator[tuple[str, str]]:
    """The kernels steps on CPU devices run in."""
    from workbench.config import get_flag
    from workbench.runtime.native.library import cache_folder, image_path, obstacle, why_not
    from workbench.runtime.native.source import loader

    if not compile and obstacle() is None and not image_path().exists():
        yield "compiled", "not yet: the first step begins with it and goes on without, workbench doctor --compile waits"
    else:
        with contextlib.redirect_stderr(io.StringIO()):  # the refusal is told here
            yield "compiled", "yes, for this processor" if compiled() else f"no: {why_not()}"
    yield "loader", LOADERS[loader()]
    yield "used", "wherever an op has them" if get_flag(TAPE) else f"no: {TAPE} is off, steps run as NumPy calls"
    yield "cache", f"{cache_folder()} (WORKBENCH_CACHE_DIR chooses another folder)"


def compiled() -> bool:
    """Bring the kernels into this process, which compiles them if nobody has; False if they cannot be had."""
    from workbench.config import override
    from workbench.runtime.native.library import kernels

    with override(**{TAPE: True}):
        return kernels() is not None


def optional() -> Iterator[tuple[str, str]]:
    yield "CuPy", installed(CUPY_DISTRIBUTIONS) or "not installed: pip install 'cupy-cuda12x[ctk]'"
    yield "NCCL", nccl()
    yield from processes()
    yield "numba", installed(("numba",)) or "not installed: pip install numba"


def nccl() -> str:
    package = installed(NCCL_DISTRIBUTIONS)
    if not package:
        return "not installed: pip install nvidia-nccl-cu12"
    if not installed(CUPY_DISTRIBUTIONS):
        return f"{package}, but CuPy, through which it is called, is not installed"
    loaded, lines = ask_python(NCCL_VERSION)
    return f"{package}, loaded by CuPy as {lines[-1]}" if loaded else f"{package}, not loaded: {lines[-1]}"


def processes() -> Iterator[tuple[str, str]]:
    """Whether programs can run in several processes; two are started to see."""
    from workbench.parallel.launch.mpiexec import launcher_path
    from workbench.parallel.launch.probe import try_two_processes

    binding, launcher = installed(("mpi4py",)), launcher_path()
    if not binding or not launcher:
        missing = f"{binding}, but no mpiexec" if binding else "not installed"
        yield "MPI", f"{missing}: {installing('processes')}"
        return
    yield "MPI", f"mpi4py {binding}, {launcher}"
    yield "", try_two_processes()


def front() -> Iterator[tuple[str, str]]:
    for label, distribution in (
        ("JupyterLab", "jupyterlab"),
        ("ipywidgets", "ipywidgets"),
        ("anywidget", "anywidget"),
        ("ipykernel", "ipykernel"),
    ):
        yield label, installed((distribution,)) or f"not installed: pip install {distribution}"


def installed(distributions: tuple[str, ...]) -> str | None:
    """Name and version of the first one that is installed; the version alone when only one was asked for."""
    for name in distributions:
        try:
            release = version(name)
        except PackageNotFoundError:
            continue
        return f"{name} {release}" if len(distributions) > 1 else release
    return None
