"""What a run was made with: machine, versions, BLAS kernels, commit. Asked for once per process."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "numba", "cupy-cuda12x", "cupy-cuda13x")
GIT_S = 2.0  # seconds git may take


@cache
def surroundings() -> dict[str, Any]:
    """As a flat dict of what JSON can hold; what cannot be found out is left out."""
    from workbench.version import __version__

    folder = _folder()
    facts: dict[str, Any] = {
        "workbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "host": socket.gethostname(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "folder": folder,
        "notebook": _notebook(),
        "arguments": [] if "ipykernel" in sys.modules else list(sys.argv),
    }
    facts.update({name: v for name in PACKAGES if (v := _version(name)) is not None})
    facts.update(_blas())
    if folder is not None:
        facts.update(_commit(folder))
    return facts


def _notebook() -> str | None:
    """The file the code is in: Jupyter tells its kernels; else the script."""
    path = os.environ.get("JPY_SESSION_NAME") or ("" if "ipykernel" in sys.modules else sys.argv[0] if sys.argv else "")
    return Path(path).name or None


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _blas() -> dict[str, Any]:
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    facts = {}
    if pools:
        facts["blas"] = f"{pools[0]['internal_api']} {pools[0]['version']}"
        facts["blas_kernels"] = pools[0].get("architecture")
    inherited = os.environ.get("OPENBLAS_CORETYPE")
    return facts if inherited is None else {**facts, "OPENBLAS_CORETYPE": inherited}


def _commit(folder: str) -> dict[str, Any]:
    """Of the repository the process works in; `git_changed` if files differ from it."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"git_commit": commit, "git_changed": bool(changed)}


def _git(folder: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=GIT_S, check=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
