"""Names of `paddle.distributed.fleet`."""

from workbench.facade import FLEET, lazy

__getattr__, __dir__, __all__ = lazy("workbench.distributed.fleet", FLEET, ["utils"])
