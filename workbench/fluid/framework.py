"""Names of `paddle.fluid.framework`."""

from workbench.facade import FLUID_FRAMEWORK, lazy

__getattr__, __dir__, __all__ = lazy("workbench.fluid.framework", FLUID_FRAMEWORK)
