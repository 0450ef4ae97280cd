"""The collective modes by their names."""

from __future__ import annotations

from collections.abc import Callable

from workbench.errors import InvalidArgument, one_of
from workbench.framework.program.program import Program
from workbench.parallel.transpiler.collective.grad_allreduce import transpile_grad_allreduce
from workbench.parallel.transpiler.collective.local_sgd import transpile_local_sgd
from workbench.parallel.transpiler.collective.rings import RingMembers
from workbench.parallel.transpiler.collective.single_process_multi_thread import transpile_single_process
from workbench.parallel.transpiler.config import COLLECTIVE_MODES

_MODES: dict[str, Callable[[Program, Program, RingMembers], None]] = dict(
    zip(
        COLLECTIVE_MODES,
        (transpile_grad_allreduce, transpile_local_sgd, transpile_single_process),
        strict=True,
    )
)


def transpile_collective(mode: str | None, main: Program, startup: Program, members: RingMembers) -> None:
    """Rewrite a program and its startup program.

    Raises:
        InvalidArgument: an unknown mode, members that do not fit. PreconditionNotMet: the program has no backward.
    """
    if mode not in _MODES:
        raise InvalidArgument(f"DistributeTranspilerConfig.collective_mode is {one_of(COLLECTIVE_MODES)}, got {mode!r}")
    _MODES[mode](main, startup, members)
