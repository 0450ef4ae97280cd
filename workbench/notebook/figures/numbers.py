"""Numbers for people, as the dashboard writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def seconds_text(value: float | None) -> str:
    """`3.20 ms`, `2 h 5 min`; a dash for what is not known."""
    if value is None:
        return "–"
    if value < 1e-3:
        return f"{value * 1e6:.1f} µs"
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def number_text(value: float | None) -> str:
    """Four significant digits, without an exponent where it can be done without."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(float(value))
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:.2e}" if size < 1e-3 or size >= 1e6 else f"{value:.4g}"


def shape_text(shape: Iterable[int]) -> str:
    """`[?, 784]`."""
    return f"[{', '.join('?' if n < 0 else str(n) for n in shape)}]"


_NARROW, _HALF, _WIDE = frozenset(" .,:;|!'()[]ijlI"), frozenset("_rtfsc-"), frozenset("mwMW@…×+%")


def width_of(text: str, size: float) -> float:
    """About how wide a text is, inches, in a sans-serif type of `size` points; the type of who looks is not known."""
    return size / 72 * sum(0.33 if c in _NARROW else 0.48 if c in _HALF else 0.95 if c in _WIDE else 0.63 for c in text)


def shortened(text: str, room: float, size: float) -> str:
    """The text, or as much of its two ends as fits: names differ at their ends."""
    if width_of(text, size) <= room:
        return text
    for kept in range(len(text) - 1, 0, -1):
        cut = f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
        if width_of(cut, size) <= room:
            return cut
    return ""


def listed(texts: list[str], room: float, size: float) -> str:
    """As many as fit, and how many more there are: `mul, relu +2`; the first is shortened where even it does not."""
    fitting, wide = 0, 0.0
    while fitting < len(texts) and wide <= room:
        wide += width_of(texts[fitting], size)
        fitting += 1
    for shown in range(fitting, 0, -1):
        more = f" +{len(texts) - shown}" if shown < len(texts) else ""
        line = ", ".join(texts[:shown]) + more
        if width_of(line, size) <= room:
            return line
    return shortened(texts[0], room - width_of(more, size), size) + more if texts else ""
