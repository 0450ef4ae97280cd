"""A wheel built from a copy of the source, installed where nothing else is."""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_SOURCE = shutil.ignore_patterns(
    ".git",
    ".venv",
    "venv*",
    "*.egg-info",
    "build",
    "dist",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "workbench-run",
)


@dataclass(frozen=True)
class Built:
    source: Path
    sdist: Path
    wheel: Path


def build(folder: Path) -> Built:
    """Builds the sdist from a copy of the source, then the wheel from the sdist, as `python -m build` does.

    Without isolation, so without the network.
    """
    source = Path(shutil.copytree(ROOT, folder / "source", ignore=NOT_SOURCE))
    out = folder / "dist"
    checked([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source], cwd=folder)
    return Built(source, next(out.glob("*.tar.gz")), next(out.glob("*.whl")))


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel in it, read-only for whoever runs its commands."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = without_write_rights([str(self.python), *map(str, arguments)])
        return subprocess.run(
            command,
            cwd=cwd,
            env=outside_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def install(wheel: Path, folder: Path) -> Installed:
    """The wheel alone in a new virtual environment; its dependencies are seen in this environment."""
    checked([sys.executable, "-m", "venv", "--without-pip", folder], cwd=folder.parent)
    here = Installed(folder)
    checked(
        [sys.executable, "-m", "pip", "--python", here.python, "install", "--no-deps", "--compile", "-q", wheel],
        folder.parent,
    )
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    checked(["chmod", "-R", "a-w", packages], folder.parent)
    return here


def checked(command: list[object], cwd: Path) -> None:
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=outside_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"


def outside_environment() -> dict[str, str]:
    """The environment of somebody who has no checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    return {**kept, **jupyter_folders()}


def jupyter_folders() -> dict[str, str]:
    """What JupyterLab finds under its own prefix where the dependencies are installed beside the wheel."""
    share = Path(sys.prefix, "share", "jupyter")
    return {"JUPYTERLAB_DIR": str(share / "lab"), "JUPYTER_PATH": str(share)}


def without_write_rights(command: list[str]) -> list[str]:
    """Root may write anywhere; with the two capabilities dropped a read-only file is read-only for it too."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return command
    dropped = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}", *command]
