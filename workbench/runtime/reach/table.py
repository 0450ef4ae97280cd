"""All declarations: importing their modules notes them."""

from workbench.runtime.reach import control, convolutions, labels, matrices, pooling, rows, vector  # noqa: F401
from workbench.runtime.reach.declare import REACHES, reach_of

__all__ = ["REACHES", "reach_of"]
