"""Local scopes: every device's own values of the persistable variables (rules X-20 … X-26).

Device 0 works in the user's scope, the others in kids of it. What is copied to them is copied once, at the first run;
from then on every device updates its own copy. In Reduce mode there is one copy, and each device updates its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.runtime.bucket import bucket_of
from workbench.runtime.scope import Scope, ScopeVariable
from workbench.runtime.tensor import LoDTensor


class Replicas:
    """The local scopes of one executor.

    Args:
        scope: of device 0.
        shares: an executor's local scopes that these are kids of, one each (X-25).

    Attributes:
        scopes: one per device.
    """

    def __init__(self, scope: Scope, devices: int, shares: Replicas | None = None) -> None:
        self.shares = shares
        self.scopes: list[Scope]
        if shares is not None:
            self.scopes = [parent.new_scope() for parent in shares.scopes]
        else:
            self.scopes = [scope, *(scope.new_scope() for _ in range(devices - 1))]
        self._copied: set[str] = set()

    def distribute(self, names: Iterable[str], one_copy: Iterable[str]) -> None:
        """Give the other devices the values of device 0, of variables that have one and were not given before.

        Args:
            one_copy: those of which all devices use the same storage (X-23).
        """
        if self.shares is not None:
            return
        together = frozenset(one_copy)
        for name in sorted(set(names) - self._copied):
            source = self.scopes[0].find_var(name)
            if source is None or not source.tensor.initialized:
                continue
            for scope in self.scopes[1:]:
                if name in together:
                    scope.vars[name] = source
                else:
                    own = ScopeVariable(name)
                    own.tensor.assign(np.array(source.tensor.array))
                    scope.vars[name] = own
            self._copied.add(name)  # last: Ctrl-C in between must not leave a device with the storage of another

    def is_whole(self) -> bool:
        """Whether the kid scopes are still the user's scope's; `drop_kids` takes the replicas away (X-20)."""
        return all(s.parent is not None and any(k is s for k in s.parent.kids) for s in self.scopes[1:])

    def renew(self) -> None:
        """New kid scopes in the place of dropped ones; they get device 0's values at the next `distribute`."""
        parents = self.shares.scopes if self.shares is not None else [self.scopes[0]] * len(self.scopes)
        first = self.scopes[:1] if self.shares is None else [parents[0].new_scope()]
        self._copied.clear()
        self.scopes = [*first, *(parent.new_scope() for parent in parents[1:])]

    def find(self, name: str, place: int) -> LoDTensor | None:
        """A device's tensor, None if it has no value."""
        found = self.scopes[place].find_var(name)
        return found.tensor if found is not None and found.tensor.initialized else None

    def make(self, name: str, place: int) -> LoDTensor:
        """A device's tensor, made where persistable variables live if there is none (E-11)."""
        scope = self.scopes[place]
        found = scope.find_var(name)
        if found is None or (place and name not in scope.vars):
            found = (scope if place else scope.root).var(name)
        return found.tensor

    def bucket(self, place: int, names: Sequence[str]) -> np.ndarray | None:
        """The storage of several variables as one flat array, None if it cannot be that."""
        tensors = [self.find(name, place) for name in names]
        if any(t is None for t in tensors):
            return None
        found = bucket_of([t for t in tensors if t is not None])
        return None if found is None else found.array


def require_value(tensor: LoDTensor | None, name: str, place: int, is_parameter: bool, where: str) -> LoDTensor:
    """Raise PreconditionNotMet unless a persistable variable has a value."""
    if tensor is not None:
        return tensor
    what = "parameter" if is_parameter else "persistable variable"
    raise PreconditionNotMet(
        f"{what} {name!r} is not initialised on device {place}; run the startup program first{where}"
    )
