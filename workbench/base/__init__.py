"""Names of Paddle 2.x's `paddle.base`, the old name of what `paddle` and `paddle.static` offer."""

from workbench.facade import BASE, lazy

__getattr__, __dir__ = lazy("workbench.base", BASE, ["dygraph"])
