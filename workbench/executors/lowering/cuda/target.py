"""GPUs as a target of plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.executors.lowering.cuda.programs import CudaLowering
from workbench.executors.lowering.cuda.rules import has_device_rule, powers_agree, powers_of
from workbench.executors.lowering.scope_values import ScopeStorage
from workbench.executors.lowering.tape.table import joins_natively
from workbench.executors.lowering.target import Target
from workbench.executors.planning.shapes import is_static
from workbench.framework.values.spec import ROWS, Spec
from workbench.graph.ssa import Node, Value
from workbench.runtime.storage.tensor import LoDTensor


def has_device_kernels(node: Node, specs: Mapping[Value, Spec]) -> bool:
    """Whether a node probably runs on a device; what decides are the arrays it is bound to."""
    operands = [specs[v] for v in (*node.reads, *node.writes)]
    if any(spec.kind == ROWS or not is_static(spec) for spec in operands):
        return False
    return node.is_collective or has_device_rule(node)


class DeviceStorage(ScopeStorage):
    """The same while devices hold newer values than the scope, which stay there.

    Updates of many parameters at once are bound for powers of beta that agree, or do not. Each step keeps them so; who
    has written one since is asked for all of them.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._powers = [(tensors, powers_agree(tensors)) for tensors in powers_of(self._reads)]
        self._versions = {t: t.version for tensors, _ in self._powers for t in tensors}

    def is_current(self) -> bool:
        """Whether all is as it was bound."""
        return super().is_current() and self._powers_are_as_bound()

    def _powers_are_as_bound(self) -> bool:
        written = {t: t.version for t, version in self._versions.items() if t.version != version and not _is_ahead(t)}
        if written and any(powers_agree(tensors) != agreed for tensors, agreed in self._powers):
            return False  # and so it stays: whoever asks is to be bound anew
        self._versions.update(written)
        return True

    def _stored(self, tensor: LoDTensor) -> object:
        return tensor.stored


def _is_ahead(tensor: LoDTensor) -> bool:
    """Whether a device has newer values, so that nobody has written the tensor since its last step."""
    return tensor.mirror is not None and tensor.mirror.is_ahead


GPUS = Target(
    joins_natively,
    has_device_kernels,
    has_device_kernels,
    CudaLowering,
    DeviceStorage,
    threads=1,
)
