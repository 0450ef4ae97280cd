"""Tests with other versions of a few packages, in an environment that borrows everything else from this one."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL_S, TESTS_S = 300, 1200
# Extensions of JupyterLab with their halves in the server: one without the other meets users with an error.
SHARED = ("share/jupyter", "share/jupyter/labextensions", "etc/jupyter", "etc/jupyter/jupyter_server_config.d")


def link_what_lacks(lent: Path, own: Path) -> None:
    """Links to the entries of a folder that another one does not have."""
    own.mkdir(parents=True, exist_ok=True)
    for entry in lent.iterdir():
        if not (own / entry.name).exists():
            (own / entry.name).symlink_to(entry)


def run_with(pins: Sequence[str], tests: Sequence[str]) -> int:
    """Run tests with these versions; returns pytest's exit status.

    Args:
        pins: `ipykernel==6.31.0`. tests: files, from the root of the repository.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        python = Path(folder) / "bin" / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", *pins]
        subprocess.run(install, check=True, timeout=INSTALL_S)
        (own,) = (Path(folder) / "lib").glob("python*/site-packages")
        lent = sysconfig.get_path("purelib")
        (own / "borrowed.pth").write_text(f"import site; site.addsitedir({lent!r})\n")  # looked into last
        for shared in SHARED:
            link_what_lacks(Path(sys.prefix) / shared, Path(folder) / shared)
        print(f"\n== {', '.join(pins)}", flush=True)
        command = [str(python), "-m", "pytest", "-q", "-s", *tests]
        return subprocess.run(command, cwd=ROOT, timeout=TESTS_S).returncode
