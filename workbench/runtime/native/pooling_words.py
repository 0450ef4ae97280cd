"""What pooling is, as words of a table: the numbers its rules and its kernels agree on."""

from __future__ import annotations

PLANES, HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH = range(5)
TABLE = 5  # here begin four tables: first rows of windows, ends of their rows, first columns, ends of their columns
