"""The numbers in a printed text, and whether two texts have the same."""

from __future__ import annotations

import math
import re

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?|inf|nan|True|False)(?![\w])")
_TRUTHS = {"True", "False"}
RELATIVE, ABSOLUTE = 1e-4, 1e-6


def numbers(text: str) -> list[str]:
    """Numbers and truth values, not those within names or addresses.

    Example:
        >>> numbers("Tensor(shape=[2], dtype=float32, [1., -2.5e-3]) at 0x7f, w_0")
        ['2', '1.', '-2.5e-3']
    """
    return _NUMBER.findall(_ADDRESS.sub("", text))


def same_numbers(printed: str, expected: str) -> bool:
    """Whether two texts have as many numbers, equal to rounding: of themselves, and of the largest among them."""
    left, right = numbers(printed), numbers(expected)
    spread = ABSOLUTE * max([1.0, *filter(math.isfinite, (abs(complex(n)) for n in right if n not in _TRUTHS))])
    return len(left) == len(right) and all(_same(a, b, spread) for a, b in zip(left, right))


def _same(printed: str, expected: str, spread: float) -> bool:
    if printed == expected:
        return True
    if {printed, expected} & _TRUTHS:
        return False
    a, b = complex(printed), complex(expected)
    if math.isnan(a.real) or math.isnan(b.real):
        return math.isnan(a.real) and math.isnan(b.real)
    return a == b or abs(a - b) <= spread + RELATIVE * abs(b)


def same_text(printed: str, expected: str) -> bool:
    """Whether two texts are equal but for white space and addresses."""
    return _ADDRESS.sub("", printed).split() == _ADDRESS.sub("", expected).split()
