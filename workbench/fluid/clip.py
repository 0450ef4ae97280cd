"""Names of `paddle.fluid.clip`."""

from workbench.fluid.tables import CLIP, first_names

__getattr__, __dir__ = first_names("workbench.fluid.clip", CLIP)
