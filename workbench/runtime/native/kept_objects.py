"""Object code of kernels, kept from one image to the next: what has not changed is not compiled again.

A file is called after a hash of everything that its code follows from, so it is right whenever it is there. Its first
bytes are a hash of the others: a file that is damaged is compiled anew. The folder is that of the images, which only
the user can write to.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from workbench.runtime.native.source import toolchain

_DIGEST = hashlib.sha256
_SIZE = _DIGEST().digest_size
_MOST = 600  # files; an image has about 60
_RUNTIME = Path(__file__).resolve().parent.parent
_PACKAGE = "workbench.runtime"
_COMPILER = "workbench.runtime.native.build"  # decides how kernels are called


def objects_beside(image: Path) -> Path | None:
    """The folder of object code for the folder of an image, without those that have not been used for longest.

    Returns:
        None where there can be none.
    """
    folder = image.parent / "objects"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        files = [(path.stat().st_mtime, path) for path in folder.iterdir()]
        for _, path in sorted(files, reverse=True)[_MOST:]:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # another process has taken a file away, as it may at any time
    except OSError:
        return None
    return folder


def compiled_once(folder: Path | None, source: str, make: Callable[[], bytes]) -> bytes:
    """The code for a source: kept, or made and kept from now on.

    Args:
        folder: where it is kept; None: nowhere. source: all that the code follows from, but for the toolchain and for
            what calls it.
    """
    if folder is None:
        return make()
    path = folder / _DIGEST("\0".join([toolchain(), _text(_COMPILER), source]).encode()).hexdigest()[:40]
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    if data[:_SIZE] == _DIGEST(data[_SIZE:]).digest():
        with suppress(OSError):  # another process may just have taken it away
            os.utime(path)
        return data[_SIZE:]
    code = make()
    with suppress(OSError):  # it is compiled, and is not kept
        _keep(path, _DIGEST(code).digest() + code)
    return code


def _keep(path: Path, data: bytes) -> None:
    """Write a file that nobody sees before it is whole."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
    os.replace(partial, path)


def sources_of(module: str, names: Sequence[str]) -> str:
    """The names of a module's kernels, and the texts of all files of kernels and their words that it is made of."""
    reached = [module]
    for name in reached:
        reached += sorted(_imported(name) - set(reached))
    return "\0".join([*names, *(f"{name}\n{_text(name)}" for name in sorted(reached))])


@cache
def _imported(module: str) -> frozenset[str]:
    """The modules of kernels and words that a module imports; a package stands for its own file."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(_text(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return frozenset(name for name in named if _file(name) is not None)


def _file(module: str) -> Path | None:
    """Where a module of the runtime lies; None of any other name."""
    if not module.startswith(f"{_PACKAGE}."):
        return None
    path = _RUNTIME.joinpath(*module.removeprefix(f"{_PACKAGE}.").split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _text(module: str) -> str:
    file = _file(module)
    return "" if file is None else file.read_text(encoding="utf-8")
