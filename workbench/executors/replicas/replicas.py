"""Local scopes: every device's own values of the persistable variables (rules X-20 … X-26).

Device 0 works in the user's scope, the others in kids of it. What is copied to them is copied once, at the first run;
from then on every device updates its own value; values that stay equal may lie in one memory (`one_memory`). In Reduce
mode there is one copy, and each device updates its part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from workbench.runtime.storage.bucket import Bucket, bucket_of
from workbench.runtime.storage.common_memory import may_share, share_memory
from workbench.runtime.storage.scope import Scope, ScopeVariable
from workbench.runtime.storage.tensor import LoDTensor


class Replicas:
    """The local scopes of one executor.

    Args:
        scope: of device 0.
        shares: an executor's local scopes that these are kids of, one each (X-25).

    Attributes:
        scopes: one per device.
    """

    def __init__(self, scope: Scope, devices: int, shares: Replicas | None = None) -> None:
        self.shares, self.devices = shares, devices
        self._forget: Callable[[], object] = lambda: None
        self.scopes = self._kids(scope)
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

    @property
    def are_new(self) -> bool:
        """Whether the other devices have been given nothing yet."""
        return self.shares is None and not self._copied

    def distribute_together(self, names: Sequence[str]) -> None:
        """Like `distribute`, in the memory of device 0, until one of them is written alone; nothing if it cannot be."""
        tensors = [tensor for name in names if (tensor := self.find(name, 0)) is not None]
        first = self.bucket_of(tensors) if len(tensors) == len(names) else None
        if first is None or not may_share([first]):
            return
        others = [first.replica() for _ in self.scopes[1:]]
        if not share_memory([first, *others], [first.writes, *(other.writes for other in others)]):
            return  # somebody is writing: they are given copies
        for scope, other in zip(self.scopes[1:], others, strict=True):
            for name, tensor in zip(names, other.tensors, strict=True):
                scope.vars[name] = variable = ScopeVariable(name)
                variable.tensor = tensor
        self._copied.update(names)

    def are_apart(self, name: str) -> bool:
        """Whether devices have storage of their own for a variable."""
        tensors = [self.find(name, place) for place in range(len(self.scopes))]
        return any(t is not None and t is not tensors[0] for t in tensors)

    def give(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        """Have devices 1 … hold these values of a variable; an array becomes the storage where there is none for it."""
        for place, array in enumerate(arrays, 1):
            tensor = self.find(name, place)
            if tensor is None or tensor is self.find(name, 0):
                own = self.scopes[place].vars[name] = ScopeVariable(name)
                tensor = own.tensor
            tensor.take(array)
        self._copied.add(name)

    def is_whole(self) -> bool:
        """Whether the kid scopes are still the user's scope's; `drop_kids` takes the replicas away (X-20)."""
        if self.shares is not None and not self.shares.is_whole():
            return False
        pairs = list(zip(self._parents(), self.scopes, strict=True))[self.shares is None :]
        return all(any(kid is scope for kid in parent.kids) for parent, scope in pairs)

    def renew(self) -> None:
        """New kid scopes in the place of dropped ones; they get device 0's values at the next `distribute`."""
        if self.shares is not None and not self.shares.is_whole():
            self.shares.renew()
        self._copied.clear()
        self.scopes = self._kids(self.scopes[0])

    def _parents(self) -> list[Scope]:
        return self.shares.scopes if self.shares is not None else [self.scopes[0]] * len(self.scopes)

    def _kids(self, own: Scope) -> list[Scope]:
        """Scopes below those of the parents, `own` in the place of the first where nothing is shared."""
        parents = self.shares.scopes if self.shares is not None else [own] * self.devices
        kids = [parent.new_scope() for parent in parents[self.shares is None :]]
        self._forget()
        self._forget = weakref.finalize(self, _leave, parents[self.shares is None :], kids)
        return kids if self.shares is not None else [own, *kids]

    def find(self, name: str, place: int) -> LoDTensor | None:
        """A device's tensor, None if it has no value."""
        variable = self.scopes[place].find_var(name)
        return variable.tensor if variable is not None and variable.tensor.initialized else None

    def make(self, name: str, place: int) -> LoDTensor:
        """A device's tensor, made where persistable variables live if there is none (E-11)."""
        if self.shares is not None:
            return self.shares.make(name, place)  # a variable of its own would hide the one that is shared
        scope = self.scopes[place]
        variable = scope.find_var(name)
        if variable is None or (place and name not in scope.vars):
            variable = (scope if place else scope.root).var(name)
        return variable.tensor

    def bucket(self, place: int, names: Sequence[str]) -> np.ndarray | None:
        """The storage of several variables as one flat array, None if it cannot be that."""
        tensors = [self.find(name, place) for name in names]
        if any(t is None for t in tensors):
            return None
        whole = self.bucket_of([t for t in tensors if t is not None])
        return None if whole is None else whole.array

    def bucket_of(self, tensors: Sequence[LoDTensor]) -> Bucket | None:
        """The bucket of exactly these tensors, see `runtime.storage.bucket`; the scopes' lock is that of its steps."""
        return bucket_of(tensors, self.scopes[0].root)


def _leave(parents: list[Scope], kids: list[Scope]) -> None:
    """Take the scopes of an executor that is gone out of those they are kids of, which keep their kids' values."""
    for parent, scope in zip(parents, kids, strict=True):
        parent.kids[:] = [kid for kid in parent.kids if kid is not scope]
