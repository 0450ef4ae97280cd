"""How numbers of rows are sorted: so many bits at a time."""

from __future__ import annotations

DIGIT = 8
DIGITS = 1 << DIGIT
