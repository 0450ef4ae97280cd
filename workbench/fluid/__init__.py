"""Names of Paddle up to 2.1's `paddle.fluid` that programs of dynamic mode in several processes use."""

from workbench.facade import BASE, lazy

__getattr__, __dir__, __all__ = lazy("workbench.fluid", BASE, ["core", "dygraph", "framework"])
