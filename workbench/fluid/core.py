"""Names of `paddle.fluid.core`."""

from workbench.facade import FLUID_CORE, lazy

__getattr__, __dir__, __all__ = lazy("workbench.fluid.core", FLUID_CORE)
