"""Names of Paddle 2.x's `paddle.base.dygraph`."""

from workbench.facade import BASE_DYGRAPH, lazy

__getattr__, __dir__ = lazy("workbench.base.dygraph", BASE_DYGRAPH, ["base"])
