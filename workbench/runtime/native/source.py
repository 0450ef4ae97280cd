"""Which files make up the kernels, and what an image is compiled from: they are found by where they lie."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from workbench.config import get_flag
from workbench.framework.op.record import LIBRARIES

IMAGE, LLVM = "image", "llvm"  # what brings kernels into a process
_DECLARES = re.compile(r"^from workbench\.runtime\.kernels\.registry import", re.MULTILINE)
_FOOTPRINTS = ("footprint.py", "division.py")  # say what is kept of declarations


@cache
def modules() -> tuple[str, ...]:
    """The modules of `runtime.kernels` that declare kernels; the longest first, for these are begun with first."""
    root = Path(__file__).resolve().parent.parent / "kernels"
    files = [(path, path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))]
    own = sorted(((path, text) for path, text in files if _DECLARES.search(text)), key=lambda one: -len(one[1]))
    return tuple(".".join(path.relative_to(root).with_suffix("").parts) for path, _ in own)


def can_map_images() -> bool:
    """Whether code for this machine is linked and mapped without LLVM."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def loader() -> str:
    """What brings kernels into this process: FLAGS_kernel_loader."""
    chosen = get_flag("FLAGS_kernel_loader")
    if chosen != "auto":
        return chosen
    return IMAGE if can_map_images() else LLVM


@cache
def fingerprint() -> str:
    """Differs whenever another image would be made: kernels, compiler, processor."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    files = sorted(path for folder in ("kernels", "native", "words") for path in (root / folder).rglob("*.py"))
    for path in [*files, *(root / name for name in _FOOTPRINTS)]:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for name, text in _row_programs(root.parent):
        digest.update(name.encode() + b"\0" + text)
    digest.update(toolchain().encode())
    return digest.hexdigest()[:20]


def toolchain() -> str:
    """What compiles kernels, and for which processor."""
    versions = "".join(f"{package} {_version(package)}\n" for package in ("numba", "llvmlite"))
    return versions + _processor()


def _row_programs(root: Path) -> list[tuple[str, bytes]]:
    """The files that row programs are written, declared and traced with: their names and texts."""
    paths = [path for folder in LIBRARIES for path in sorted((root / folder).rglob("*.py"))]
    files = [(path, path.read_bytes()) for path in paths]
    own = [(path, text) for path, text in files if b"row_op(" in text]
    framework = root / "framework"
    traced = [path for folder in ("rows", "expr") for path in sorted((framework / folder).glob("*.py"))]
    own += [(path, path.read_bytes()) for path in (*traced, framework / "op" / "rows.py")]
    return [(path.relative_to(root).as_posix(), text) for path, text in own]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _processor() -> str:
    """What is known of the processor: model and instruction sets."""
    lines = [platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("model", "cpu family", "flags", "vendor_id", "stepping")):
                    lines.append(line.strip())
                if not line.strip():
                    break  # the first processor is enough
    except OSError:
        lines.append(platform.processor())
    return "\n".join(lines)
