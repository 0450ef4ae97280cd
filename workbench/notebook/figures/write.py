"""Pictures as files: SVG and PNG, the same bytes for the same picture."""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image  # matplotlib brings it

from workbench.errors import InvalidArgument
from workbench.framework.paths import path_text
from workbench.notebook.figures.palette import styled

_PNG_DPI, _SHOWN_DPI, _COLORS = 144, 100, 64
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_FONTS = re.compile(r"(?:'[^']*', )+sans-serif(?:, [\w-]+)*|'DejaVu Sans'[^;\"]*")
_DIGITS = re.compile(r"(\d\.\d\d)\d+")


@styled
def svg(figure: Figure) -> str:
    """The picture as SVG on white. Texts are texts, that can be searched and copied; its title says the gist."""
    metadata: dict[str, Any] = {"Date": None, "Creator": None}
    if figure.get_label():
        metadata["Title"] = str(figure.get_label())
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata=metadata)
    return _shorter(file.getvalue())


def _shorter(text: str) -> str:
    """Without what nobody sees: comments, indents, fonts that are not there, hundredths of hundredths."""
    text = _TAG.sub(lambda tag: _FONTS.sub("sans-serif", _DIGITS.sub(r"\1", tag[0])), _COMMENT.sub("", text))
    return "\n".join(line for line in map(str.strip, text.splitlines()) if line)


def png(figure: Figure) -> bytes:
    """The picture as PNG on white."""
    return _png(figure, _PNG_DPI)


@styled
def _png(figure: Figure, dpi: int) -> bytes:
    file = io.BytesIO()
    canvas, before = FigureCanvasAgg(figure), figure.dpi
    try:
        figure.dpi = dpi
        canvas.print_png(file, metadata={"Software": None})
    finally:
        figure.dpi = before
    return file.getvalue()


def small_png(figure: Figure) -> bytes:
    """The picture as PNG in 64 colours, to be kept in notebooks; unlike SVG it is shown before they are trusted."""
    shown = Image.open(io.BytesIO(_png(figure, _SHOWN_DPI))).convert("RGB")
    file = io.BytesIO()
    shown.quantize(_COLORS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture to a file; a reader finds the old file or the new one, whole.

    Args:
        path: ends in `.svg` or `.png`; its folder exists.

    Raises:
        InvalidArgument: any other ending, or `path` is a folder.
        OSError: it cannot be written; a file that was there is unchanged.
    """
    target = Path(path_text(path))
    suffix = target.suffix.lower()
    if suffix not in (".svg", ".png"):
        raise InvalidArgument(f"cannot write a picture to {target}: its name has to end in .svg or .png")
    if target.is_dir():
        raise InvalidArgument(f"cannot write a picture to {target}: it is a folder")
    _replace(target, svg(figure).encode() if suffix == ".svg" else png(figure))


def _replace(target: Path, data: bytes) -> None:
    temporary = target.parent / f".workbench-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
