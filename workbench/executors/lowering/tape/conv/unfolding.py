"""Windows unfolded into columns: how many at once."""

from __future__ import annotations

from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.footprint import FLOAT

BLOCK_BYTES = 256 << 10  # of a sample's columns: they stay in the second cache
MOST_BYTES = 4 << 20  # of the columns of several samples


def is_plain(geo: Geometry) -> bool:
    """Whether images are their columns."""
    return geo.kernel == (1, 1) and geo.strides == (1, 1) and not geo.is_padded


def block_rows(geo: Geometry, item: int = FLOAT) -> int:
    """Output rows of a sample whose windows are unfolded at once, of numbers of so many bytes."""
    if is_plain(geo):
        return geo.out[0]
    return max(1, min(geo.out[0], BLOCK_BYTES // (item * geo.taps * geo.out[1])))


def sample_blocks_of_columns(geo: Geometry, item: int = FLOAT) -> int:
    """Blocks of samples whose windows are the columns of one product."""
    return -(-geo.samples // max(1, MOST_BYTES // (item * geo.taps * geo.out[0] * geo.out[1])))
