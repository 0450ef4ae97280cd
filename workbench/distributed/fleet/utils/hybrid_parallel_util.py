"""Names of `paddle.distributed.fleet.utils.hybrid_parallel_util`."""

from workbench.facade import HYBRID_PARALLEL_UTIL, lazy

__getattr__, __dir__, __all__ = lazy("workbench.distributed.fleet.utils.hybrid_parallel_util", HYBRID_PARALLEL_UTIL)
