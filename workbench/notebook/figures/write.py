"""Pictures as files: SVG and PNG, the same bytes for the same picture."""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image  # matplotlib brings it

from workbench.errors import InvalidArgument
from workbench.framework.paths import path_text
from workbench.notebook.figures.palette import styled

_PNG_DPI, _SHOWN_DPI, _COLORS, _EXACT = 144, 100, 128, 32
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
    """The picture as PNG in 128 colours, to be kept in notebooks; unlike SVG it is shown before they are trusted."""
    shown = _in_few_colors(Image.open(io.BytesIO(_png(figure, _SHOWN_DPI))).convert("RGB"))
    file = io.BytesIO()
    shown.save(file, "PNG", optimize=True)
    return file.getvalue()


def _in_few_colors(picture: Image.Image) -> Image.Image:
    """With the colours that most pixels have as they are, and others that cover the rest, however few have them.

    A median cut gives a thin span the colour of what is around it, and then two roles look the same.
    """
    pixels, place, often = np.unique(_packed(np.asarray(picture)), return_inverse=True, return_counts=True)
    usual = pixels[np.argsort(-often, kind="stable")[:_EXACT]]
    covering = picture.quantize(_COLORS - _EXACT, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = np.concatenate([_unpacked(usual), np.array(covering, np.int64).reshape(-1, 3)])[:_COLORS]
    nearest = ((_unpacked(pixels)[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1)
    few = Image.fromarray(nearest[place].reshape(picture.height, picture.width).astype(np.uint8), "P")
    few.putpalette(palette.astype(np.uint8).tobytes())
    return few


def _packed(colors: np.ndarray) -> np.ndarray:
    return colors.astype(np.int64) @ (1 << 16, 1 << 8, 1)


def _unpacked(packed: np.ndarray) -> np.ndarray:
    return np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=1)


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
