"""`workbench lab`: JupyterLab on one notebook, on this machine only, and silent about news and updates."""

import os
from pathlib import Path
from urllib.parse import quote

import typer

from workbench.cli.failure import CommandError
from workbench.cli.samples import COPY_FOLDER, PACKAGE, QUICKSTART, copy_samples, shipped_folder


def open_lab(notebook: Path | None, *, browser: bool, port: int | None) -> int:
    """Runs JupyterLab until it is stopped; returns its exit status.

    Raises:
        CommandError: there is no such notebook, or the samples cannot be copied.
    """
    target = (existing(notebook) if notebook else sample()).resolve()
    prepare_environment()
    from jupyterlab.labapp import LabApp

    typer.echo(f"Opening {target} in JupyterLab; Ctrl-C twice stops it.")
    LabApp.launch_instance(argv=arguments(target, browser=browser, port=port))
    return 0


def existing(path: Path) -> Path:
    if not path.exists():
        raise CommandError(f"no such notebook: {path}")
    return path


def sample() -> Path:
    """The quickstart notebook in a copy of the samples in the current folder: to run one changes its file."""
    copied = copy_samples(shipped_folder(), Path.cwd() / COPY_FOLDER)
    if copied.written:
        typer.echo(f"Copied {len(copied.written)} sample notebooks to {copied.folder}")
    if copied.kept:
        typer.echo(f"Kept your own {', '.join(copied.kept)}; delete a file to get the shipped one again.")
    return existing(copied.folder / QUICKSTART)


def prepare_environment() -> None:
    """Settings JupyterLab takes from the environment only.

    The folder in JUPYTER_CONFIG_PATH holds a page configuration without the announcements extension: it
    would ask about news on every first start, and ask the network. The kernel of this Python wins over one of
    the same name that the user installed elsewhere.
    """
    quiet = str(PACKAGE / "cli" / "jupyter")
    inherited = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([quiet, inherited] if inherited else [quiet])
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")


def arguments(target: Path, *, browser: bool, port: int | None) -> list[str]:
    """JupyterLab's command line for `target`, a notebook or a folder."""
    folder = target if target.is_dir() else target.parent
    options = [
        f"--ServerApp.root_dir={folder}",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.open_browser={browser}",
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if port is not None:
        options += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--ServerApp.allow_root=True")  # a container's only user; the server is on loopback
    if target.is_dir():
        return options
    address = f"/lab/tree/{quote(target.name)}"  # what JupyterLab prints, and where / leads to
    return [*options, f"--LabApp.default_url={address}", str(target)]
