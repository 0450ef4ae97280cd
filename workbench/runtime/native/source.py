"""Which files make up the kernels, and what an image is compiled from."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

GROUPS = (
    ("conv.columns", "conv.convolutions", "conv.convolution_samples", "conv.winograd"),
    ("index.labels", "index.rows", "math.sums"),
    ("conv.convolution_tiles",),
    ("conv.pooling", "tensor.transposes"),
    ("math.vector", "math.whole"),
    ("tape.interpreter", "tape.stamps", "tape.whole_step", "tape.loops", "tape.exchange"),
    ("math.small_products", "math.products", "loss.attention"),
    ("random.streams", "random.normal"),
)
"""The modules of `runtime.kernels` that declare kernels. Those of a group call the same functions; long ones first."""

MODULES = tuple(module for group in GROUPS for module in group)


@cache
def fingerprint() -> str:
    """Differs whenever another image would be made: kernels, compiler, processor."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for path in sorted(path for folder in ("kernels", "native", "words") for path in (root / folder).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for name, text in _row_programs(root.parent):
        digest.update(name.encode() + b"\0" + text)
    for package in ("numba", "llvmlite"):
        digest.update(f"{package} {_version(package)}\n".encode())
    digest.update(_processor().encode())
    return digest.hexdigest()[:20]


def _row_programs(root: Path) -> list[tuple[str, bytes]]:
    """The files that row programs are written and traced with: their names and texts."""
    files = [(path, path.read_bytes()) for path in sorted((root / "ops").rglob("*.py"))]
    own = [(path, text) for path, text in files if b"row_op(" in text]
    own += [(path, path.read_bytes()) for path in sorted((root / "framework" / "rows").glob("*.py"))]
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
