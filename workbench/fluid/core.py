"""Names of `paddle.fluid.core`."""

from workbench.facade import lazy
from workbench.fluid.tables import CORE

__getattr__, __dir__ = lazy("workbench.fluid.core", CORE)
