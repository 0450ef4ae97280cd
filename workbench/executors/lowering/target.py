"""What plans are lowered to: calls of NumPy, pieces of tapes, or launches on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.scope_values import Held, ScopeStorage
from workbench.executors.lowering.tape.table import has_kernels, has_kernels_among_trainers, joins_natively
from workbench.framework.values.spec import Spec
from workbench.graph.ssa import Node, Value

HasKernels = Callable[[Node, Mapping[Value, Spec]], bool]


@dataclass(frozen=True)
class Target:
    """How plans are made and bound for devices of a kind.

    Attributes:
        joins: whether a pass may make an element-wise node part of another one; None: whatever the node.
        has_kernels, among_trainers: which nodes kernels run, alone and where sums go over processes; None: none.
        lowering: what lowers rows, called as `RowLowering` is and with `held`, what is read of the scope.
        storage: what tells whether the scope still holds what was bound.
        threads: at most so many run a step; 0: as many as the execution strategy says.
        takes_open_sizes: whether one plan may serve feeds of many sizes.
    """

    joins: Callable[[Node], bool] | None
    has_kernels: HasKernels | None
    among_trainers: HasKernels | None
    lowering: Callable[..., RowLowering]
    storage: type[ScopeStorage] = ScopeStorage
    threads: int = 0
    takes_open_sizes: bool = False


def _on_the_host(*given: Any, held: Sequence[Held]) -> RowLowering:
    return RowLowering(*given)


CALLS = Target(None, None, None, _on_the_host)
TAPES = Target(joins_natively, has_kernels, has_kernels_among_trainers, _on_the_host, takes_open_sizes=True)
