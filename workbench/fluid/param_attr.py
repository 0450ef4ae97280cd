"""Names of `paddle.fluid.param_attr`."""

from workbench.fluid.tables import PARAM_ATTR, first_names

__getattr__, __dir__ = first_names("workbench.fluid.param_attr", PARAM_ATTR)
