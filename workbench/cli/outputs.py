"""The two files a headless run leaves: the executed notebook and its HTML."""

import os
from pathlib import Path
from typing import Any

from workbench.cli.failure import CommandError


def write_copies(notebook: Any, out: Path, stem: str) -> list[Path]:
    """Writes `<stem>.executed.ipynb` and `<stem>.executed.html` into `out`, each whole or not at all.

    The notebook carries no widget state: with it a page would ask the network for the widget's code and show
    nothing offline; without it the static picture beside the widget is shown.

    Raises:
        CommandError: a file cannot be written.
    """
    import nbformat
    from nbconvert import HTMLExporter

    notebook.metadata.pop("widgets", None)
    page, _ = HTMLExporter().from_notebook_node(notebook, resources={"metadata": {"name": stem}})
    texts = {f"{stem}.executed.ipynb": nbformat.writes(notebook), f"{stem}.executed.html": page}
    try:
        return [write_whole(out / name, text) for name, text in texts.items()]
    except OSError as error:
        raise CommandError(f"cannot write to {out}: {error.strerror}; choose one with --out") from None


def write_whole(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
