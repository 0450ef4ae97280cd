"""Transposes and copies of strided arrays. All strides are in bytes."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, reaches, span
from workbench.runtime.reach.divide import divides

LANES = 16  # floats of a vector


@divides("rows", unit=LANES, source=("source_pitch",), out=(FLOAT,))
@divides("cols", unit=LANES, source=(FLOAT,), out=("out_pitch",))
@divides("n2", source=("source2",), out=("out2",))
@divides("n1", source=("source1",), out=("out1",))
@divides("n0", source=("source0",), out=("out0",))
@reaches("source", "out")
def transpose(
    source: Any, source_pitch: int, out: Any, out_pitch: int, rows: int, cols: int, n0: int, source0: int, out0: int,
    n1: int, source1: int, out1: int, n2: int, source2: int, out2: int,
) -> Any:  # fmt: skip
    return (
        span((rows, source_pitch), (cols, FLOAT), (n0, source0), (n1, source1), (n2, source2)),
        span((cols, out_pitch), (rows, FLOAT), (n0, out0), (n1, out1), (n2, out2)),
    )


@divides("n2", source=("source2",), out=("out2",))
@divides("n1", source=("source1",), out=("out1",))
@divides("n0", source=("source0",), out=("out0",))
@reaches("source", "out")
def copy_rows(
    source: Any, out: Any, count: int, n0: int, source0: int, out0: int, n1: int, source1: int, out1: int, n2: int,
    source2: int, out2: int,
) -> Any:  # fmt: skip
    return (
        span((count, FLOAT), (n0, source0), (n1, source1), (n2, source2)),
        span((count, FLOAT), (n0, out0), (n1, out1), (n2, out2)),
    )
