"""Names of `paddle.fluid.transpiler.ps_dispatcher`."""

from workbench.fluid.tables import DISPATCHERS, first_names

__getattr__, __dir__ = first_names("workbench.fluid.transpiler.ps_dispatcher", DISPATCHERS)
