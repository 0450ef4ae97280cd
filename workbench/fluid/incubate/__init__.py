"""Names of `paddle.fluid.incubate`."""

from workbench.fluid.tables import first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate", {}, ["fleet"])
