"""Names of `paddle.distributed.fleet.utils`."""

from workbench.facade import lazy

__getattr__, __dir__ = lazy("workbench.distributed.fleet.utils", {}, ["hybrid_parallel_util"])
