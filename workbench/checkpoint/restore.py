"""Putting saved values into a scope, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.tree import unflatten
from workbench.errors import InvalidArgument, one_of
from workbench.framework.program.program import Program
from workbench.framework.program.roles import OpRole
from workbench.framework.program.variable import Variable
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import ConstantRate
from workbench.runtime.storage.scope import Scope
from workbench.runtime.undisturbed import undisturbed


class Restore:
    """Collects what is to be written and everything that speaks against it; `commit` raises or writes it all.

    Args:
        path: of the file, for messages.
        tensors: its arrays; they become the storage of variables that have none.
        metadata: as `program_files` writes it.
    """

    def __init__(
        self, program: Program, path: str | Path, tensors: dict[str, np.ndarray], metadata: dict[str, Any]
    ) -> None:
        self.program, self.path, self.tensors, self.metadata = program, path, tensors, metadata
        self.arrays: dict[str, np.ndarray] = {}
        self.states: list[tuple[LRScheduler, dict[str, Any]]] = []
        self.problems: list[str] = []

    def take(self, variables: Iterable[Variable]) -> None:
        """Take these variables, whatever else the file holds."""
        missing = []
        for variable in variables:
            array = self.tensors.get(variable.name)
            if array is None:
                missing.append(variable.name)
            elif self._fits(variable, array):
                self.arrays[variable.name] = array
        if missing:
            self.problems.append(f"missing in the file: {one_of(missing)}")

    def take_all(self, variables: list[Variable]) -> None:
        """Take `variables`, which must be all the file holds, and the states of learning-rate schedules.

        A program without update operators does not miss what belongs to updating.
        """
        self.take(variables)
        unexpected = set(self.tensors) - {variable.name for variable in variables}
        if not _updates(self.program):
            unexpected &= set(self.metadata.get("parameters", ()))
        if unexpected:
            self.problems.append(f"not in the program: {one_of(unexpected)}")
        for name, scheduler in self.program.lr_schedulers.items():
            self._take_scheduler(name, scheduler)

    def check(self) -> None:
        """Raise if anything speaks against it.

        Raises:
            InvalidArgument: with all problems.
        """
        if self.problems:
            listing = "".join(f"\n  {problem}" for problem in self.problems)
            raise InvalidArgument(f"{self.path} does not fit {self.program!r}; nothing was loaded:{listing}")

    def commit(self, scope: Scope) -> None:
        """Write to the scope, into the storage that is there: what is bound to it sees the new values.

        Raises:
            InvalidArgument: with all problems; nothing was written.
        """
        self.check()
        with scope.in_use():
            undisturbed(partial(self.write, scope))

    def write(self, scope: Scope) -> None:
        """The writing itself, for a caller that has checked, has the scope for itself, and lets nobody disturb it.

        A schedule of the user's may refuse its state: then all are as they were, and no value has been written.
        """
        with as_before_on_error(*(scheduler for scheduler, _ in self.states)):
            for scheduler, state in self.states:
                scheduler.set_state_dict(state)
        for name, array in self.arrays.items():
            (scope.find_var(name) or scope.root.var(name)).tensor.take(array)

    def _fits(self, variable: Variable, array: np.ndarray) -> bool:
        declared, saved = list(variable.shape), list(array.shape)
        if len(declared) != len(saved) or any(d not in (-1, s) for d, s in zip(declared, saved)):
            what = f"{variable.name!r} has shape {saved} in the file"
            self.problems.append(f"{what}, {declared} in the program")
            return False
        if array.dtype != variable.dtype.numpy:
            what = f"{variable.name!r} has dtype {array.dtype} in the file"
            self.problems.append(f"{what}, {variable.dtype} in the program")
            return False
        return True

    def _take_scheduler(self, name: str, scheduler: LRScheduler) -> None:
        saved = self.metadata.get("schedulers", {}).get(name)
        state = None if saved is None else unflatten(saved["state"], {})
        if state is None and isinstance(scheduler, ConstantRate) and name in self.arrays:
            # The rate was never changed in the saved program, so it is in the variable alone.
            state = {**scheduler.state_dict(), "last_lr": float(self.arrays[name][0])}
        kind, mine = "no schedule" if saved is None else saved["type"], type(scheduler).__name__
        if state is None or (saved is not None and kind != mine):
            self.problems.append(f"the learning rate {name!r} has {kind} in the file, {mine} in the program")
            return
        try:
            scheduler.check_state(state)
        except InvalidArgument as exc:
            self.problems.append(f"the learning rate {name!r}: {exc}")
        else:
            self.states.append((scheduler, state))


@contextmanager
def as_before_on_error(*holders: Any) -> Iterator[None]:
    """If the `with` body raises, give these objects, and schedules inside them, the attributes they had."""
    before = [kept for holder in holders for kept in _attributes(holder)]
    try:
        yield
    except BaseException:
        for attributes, copy in before:
            attributes.clear()
            attributes.update(copy)
        raise


def _attributes(holder: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The attributes of an object, and of schedules inside it, each with a copy."""
    own = vars(holder)
    yield own, dict(own)
    for inner in own.values():
        if isinstance(inner, LRScheduler):
            yield from _attributes(inner)


def _updates(program: Program) -> bool:
    return any(int(op.role) & int(OpRole.Optimize) for op in program.all_ops())
