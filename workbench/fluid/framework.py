"""Names of `paddle.fluid.framework`."""

from workbench.facade import lazy
from workbench.fluid.tables import FRAMEWORK

__getattr__, __dir__ = lazy("workbench.fluid.framework", FRAMEWORK)
