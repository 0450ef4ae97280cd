"""The collective modes by their names."""

from __future__ import annotations

from workbench.errors import InvalidArgument, one_of
from workbench.parallel.transpiler.collective.collective import CollectiveTranspiler
from workbench.parallel.transpiler.collective.grad_allreduce import GradAllReduce
from workbench.parallel.transpiler.collective.local_sgd import LocalSGD
from workbench.parallel.transpiler.collective.single_process_multi_thread import SingleProcessMultiThread
from workbench.parallel.transpiler.config import COLLECTIVE_MODES


def transpiler_of(mode: str | None, rings: int) -> CollectiveTranspiler:
    """What rewrites programs in a mode.

    Raises:
        InvalidArgument: an unknown mode.
    """
    if mode == SingleProcessMultiThread.MODE:
        return SingleProcessMultiThread()
    for kind in (GradAllReduce, LocalSGD):
        if mode == kind.MODE:
            return kind(rings)
    raise InvalidArgument(f"DistributeTranspilerConfig.collective_mode is {one_of(COLLECTIVE_MODES)}, got {mode!r}")
