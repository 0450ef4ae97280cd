"""`workbench run`: one notebook from top to bottom, its executed copy and its HTML kept whatever happens."""

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from workbench.cli.failure import CommandError
from workbench.cli.headless import CellFailed, HeadlessRun, Interrupted
from workbench.cli.outputs import write_copies

FAILED, INTERRUPTED = 1, 130


@dataclass
class CellProgress:
    """One line per cell on stderr; on a terminal the same line, rewritten."""

    total: int
    started: float

    def show(self, number: int, first_line: str) -> None:
        line = f"cell {number} of {self.total}  {clock(time.monotonic() - self.started)}  {first_line}"
        if sys.stderr.isatty():
            typer.echo(f"\r\x1b[K{line[:100]}", err=True, nl=False)
        else:
            typer.echo(line[:100], err=True)

    def close(self) -> None:
        if sys.stderr.isatty():
            typer.echo("\r\x1b[K", err=True, nl=False)


def run_notebook(path: Path, out: Path, timeout: float | None) -> int:
    """Executes the notebook at `path` and writes its copies into `out`; returns the exit status.

    Raises:
        CommandError: there is nothing to run (no such file, not a notebook, no kernel), or `out` cannot be
            written to. Both are found out before the first cell runs.
    """
    notebook = read_notebook(path)
    make_folder(out)
    headless = HeadlessRun(notebook, path.resolve().parent, timeout)
    progress = CellProgress(headless.total, time.monotonic())
    headless.on_cell = progress.show
    status, verdict = 0, f"{headless.total} of {headless.total} cells ran"
    try:
        asyncio.run(headless.execute())
    except CellFailed as failure:
        status, verdict = FAILED, str(failure)
    except Interrupted as stop:
        status, verdict = INTERRUPTED, str(stop)
    finally:
        progress.close()
    elapsed = clock(time.monotonic() - progress.started)
    first, *rest = verdict.splitlines()
    typer.echo("\n".join([f"{path.name}: {first} ({elapsed})", *rest]), err=bool(status))
    for copy in write_copies(notebook, out, path.stem):
        typer.echo(f"  {copy}")
    return status


def read_notebook(path: Path) -> Any:
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except FileNotFoundError:
        raise CommandError(f"no such notebook: {path}") from None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except (AttributeError, KeyError, TypeError):
        raise CommandError(f"{path} is not a notebook: its JSON has another shape") from None
    except (ValueError, nbformat.ValidationError) as error:
        raise CommandError(f"{path} is not a notebook: {str(error).strip().splitlines()[0][:120]}") from None
    refuse_other_languages(path, notebook)
    return notebook


def refuse_other_languages(path: Path, notebook: Any) -> None:
    named = notebook.metadata.get("kernelspec", {}).get("language")
    language = named or notebook.metadata.get("language_info", {}).get("name") or "python"
    if language.lower() not in {"python", "ipython"}:
        raise CommandError(f"{path} is written for {language}; there is no kernel here but this Python's")


def make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make the folder {out}: {error.strerror}; choose one with --out") from None


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
