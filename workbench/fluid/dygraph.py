"""Names of `paddle.fluid.dygraph`."""

from workbench.facade import lazy
from workbench.fluid.tables import DYGRAPH

__getattr__, __dir__ = lazy("workbench.fluid.dygraph", DYGRAPH)
