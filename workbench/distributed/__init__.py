"""Programs in several processes (Paddle 2.x's `paddle.distributed`)."""

from workbench.facade import DISTRIBUTED, lazy

__getattr__, __dir__, __all__ = lazy("workbench.distributed", DISTRIBUTED, ["launch", "fleet"])
