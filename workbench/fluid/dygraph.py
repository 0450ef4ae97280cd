"""Names of `paddle.fluid.dygraph`."""

from workbench.facade import FLUID_DYGRAPH, lazy

__getattr__, __dir__, __all__ = lazy("workbench.fluid.dygraph", FLUID_DYGRAPH)
