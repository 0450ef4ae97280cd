"""What one device sees: its persistable variables, and the temporaries of its last step as far as they still exist."""

from __future__ import annotations

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.executors.lowering.binding import Binding
from workbench.executors.planning.memory.refs import Ref
from workbench.framework.values.number import copied
from workbench.framework.values.place import Place
from workbench.framework.values.rows import dense
from workbench.graph.ssa import Value
from workbench.runtime.storage.scope import Scope, ScopeVariable


class Temporary:
    """A variable of the last step, to be read."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self._array = name, array

    def get_tensor(self) -> np.ndarray:
        """A copy of its value."""
        return self._array

    def __repr__(self) -> str:
        return f"Temporary({self.name}: {self._array.dtype}{list(self._array.shape)})"


class LocalScope:
    """The local scope of a device.

    Args:
        scope: where its persistable variables are. device: its index. place: what it is called.
        binding: of the last step, None before the first or after a drop.
    """

    def __init__(self, scope: Scope, device: int, place: Place, binding: Binding | None) -> None:
        self.scope, self.device, self._place, self._binding = scope, device, place, binding

    def find_var(self, name: str) -> ScopeVariable | Temporary | None:
        """A variable, None if this device has none of that name now.

        Persistable variables can be set through what is returned; only this device changes.

        Raises:
            PreconditionNotMet: a temporary whose memory another one has taken over since.
        """
        value = self._newest(name)
        if value is None or value.persistable:
            return self.scope.find_var(name)
        assert self._binding is not None
        holder = taken_by(self._binding, value)
        if holder is not None:
            raise PreconditionNotMet(
                f"{name!r} of {self._place} is gone: {holder.name!r} has taken over its memory; fetch it, or "
                "set ExecutionStrategy.keep_temporaries = True to keep every value until the next step"
            )
        current = self._binding.current(value)
        return None if current is None else Temporary(name, copied(dense(np, current)))

    def local_var_names(self) -> list[str]:
        """Names of all variables the device has, temporaries included."""
        names = dict.fromkeys(self.scope.local_var_names())
        if self._binding is not None:
            newest = self._binding.plan.graph.newest
            names.update((name, None) for name, place in newest if place == self.device)
        return list(names)

    def _newest(self, name: str) -> Value | None:
        if self._binding is None:
            return None
        return self._binding.plan.graph.newest.get((name, self.device))

    def __repr__(self) -> str:
        return f"LocalScope({self._place}, {len(self.local_var_names())} variables)"


def taken_by(binding: Binding, value: Value) -> Value | None:
    """The value that was written over `value` before the step ended, None if it is still there."""
    plan = binding.plan
    ref = plan.refs.get(value)
    if ref is None or ref.root.name:
        return None
    written = {v: plan.position[node] for node in plan.position for v in node.writes}
    since = written.get(value, -1)
    for other, when in written.items():
        taken = plan.refs.get(other)
        later = when > since and other not in plan.aliases and taken is not None
        if later and taken is not None and taken.root.place == ref.root.place and _overlap(ref, taken):
            return other
    return None


def _overlap(a: Ref, b: Ref) -> bool:
    if a.root.name or b.root.name:
        return False
    start_a, start_b = a.root.offset + a.offset, b.root.offset + b.offset
    return start_a < start_b + max(b.nbytes, 1) and start_b < start_a + max(a.nbytes, 1)
