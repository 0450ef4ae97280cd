"""Names of `paddle.distributed.fleet.utils.hybrid_parallel_util`."""

from workbench.facade import lazy

HYBRID_PARALLEL_UTIL = {
    "workbench.parallel.data_parallel.fused": "fused_allreduce_gradients",
}

__getattr__, __dir__ = lazy("workbench.distributed.fleet.utils.hybrid_parallel_util", HYBRID_PARALLEL_UTIL)
