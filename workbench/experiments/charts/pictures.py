"""Drawings as images: a page that does not trust an output takes its drawings out, and leaves the text in them."""

from __future__ import annotations

import re
from base64 import b64encode

_INK = "#767676"  # readable on light and on dark pages, which an image cannot ask for their own colour
_STYLE = f"<style>text {{ opacity: 1; fill: {_INK}; stroke: none }}</style>"  # no fainter, nor around in white
_BEGIN = re.compile(r"<svg((?: [\w-]+=\"[^\"]*\")*)>")
_ATTRIBUTE = re.compile(r" ([\w-]+)=(\"[^\"]*\")")
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what no document may contain


def as_image(drawing: str) -> str:
    """An `<svg>` as an `<img>` of the same size; what is empty stays empty."""
    begin = _BEGIN.match(drawing)
    if begin is None:
        return drawing
    own = dict(_ATTRIBUTE.findall(begin[1]))
    kept = {
        "alt": own.get("aria-label", '""'),
        **{name: own[name] for name in ("width", "height", "style") if name in own},
    }
    alone = {**own, "xmlns": '"http://www.w3.org/2000/svg"', "color": f'"{_INK}"', "font-family": '"sans-serif"'}
    if own.get("width", "").endswith('%"'):
        del alone["width"]  # of a page that an image has not
    document = f"<svg{_written(alone)}>{_STYLE}{drawing[begin.end() :]}"
    source = b64encode(_NO_XML.sub("\ufffd", document).encode()).decode("ascii")
    return f'<img src="data:image/svg+xml;base64,{source}"{_written(kept)}/>'


def _written(attributes: dict[str, str]) -> str:
    return "".join(f" {name}={value}" for name, value in attributes.items())
