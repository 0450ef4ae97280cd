"""IntegerReads: integers that Python reads of tensors which a recorded function computes.

A size, an axis or an index is part of a program, so a recording serves one value of it. In front of every run the
operators that compute the integer run by themselves; another value is recorded anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.executors.reference.interpreter import run_in_order
from workbench.framework.program.program import Program
from workbench.framework.program.reading.prune import prune
from workbench.framework.program.variable import Variable
from workbench.framework.site import Site, caller
from workbench.jit.values.bindings import TensorBindings
from workbench.ops.tensor.shape import SHAPE
from workbench.runtime.storage.scope import Scope


class ReadInteger:
    """An integer that was read, with the operators that compute it.

    Args:
        program: these operators. name: the variable that holds the integer. site: where Python read it.

    Attributes:
        value: what it was.
    """

    def __init__(self, program: Program, name: str, site: Site, scope: Scope, arguments: Mapping[str, Tensor]) -> None:
        self._program, self._name, self._site = program, name, site
        variables = program.global_block().vars
        self._feeds = [argument for argument in arguments if argument in variables]
        self.value = self.now(scope, arguments)

    def now(self, scope: Scope, arguments: Mapping[str, Tensor]) -> int:
        """What it is for other values of the arguments and of the variables in a scope."""
        feed = {name: arguments[name].array for name in self._feeds}
        (value,) = run_in_order(self._program, scope, feed, [self._name], 0, np.asarray)
        return int(value.item())

    def reason(self, scope: Scope, arguments: Mapping[str, Tensor]) -> str | None:
        """Why the recording does not serve these values; None if it does."""
        now = self.now(scope, arguments)
        if now == self.value:
            return None
        return f"Python reads an integer that the function computes at {self._site}: it was {self.value} and is {now}"


class IntegerReads:
    """The integers that Python reads while a program is recorded.

    Args:
        program: what is recorded. bindings: the tensors from outside that it works on.

    Attributes:
        arguments: the tensors that the function is called with, by the names of their variables.
    """

    def __init__(self, program: Program, bindings: TensorBindings) -> None:
        self._program, self._bindings = program, bindings
        self.arguments: dict[str, Tensor] = {}
        self._known: dict[str, int] = {}
        self._kept: list[ReadInteger] = []

    @property
    def kept(self) -> Sequence[ReadInteger]:
        """Those that may be others in the next call: all that do not follow from shapes alone."""
        return self._kept

    @property
    def any(self) -> bool:
        """Whether Python has read an integer."""
        return bool(self._known)

    def obstacle(self, variable: Variable) -> str | None:
        """Why the operators that compute a variable cannot run by themselves; None if they can."""
        block = self._program.global_block()
        if variable.block is not block or self._program.current_block() is not block:
            return "it is read within a branch or a loop of the program"
        alone = prune(self._program, [variable])
        if any(op.draws for op in alone.all_ops()):
            return "it follows from random numbers"
        written = {name for op in alone.all_ops() for name in op.output_arg_names}
        changed = [v.name for v in alone.persistables() if v.name in written]
        return f"it follows from tensor {changed[0]!r}, which the function writes" if changed else None

    def value(self, variable: Variable) -> int:
        """The integer that a variable of one element holds in this call.

        Raises:
            EnforceNotMet: an operator fails.
        """
        name = variable.name
        if name not in self._known:
            scope = Scope()
            self._bindings.put_into(scope)
            read = ReadInteger(prune(self._program, [variable]), name, caller(), scope, self.arguments)
            if not self._follows_from_shapes(name):
                self._kept.append(read)
            self._known[name] = read.value
        return self._known[name]

    def _follows_from_shapes(self, name: str) -> bool:
        """Whether a variable is computed of constants, and of shapes that all calls of a recording have in common."""
        block = self._program.global_block()
        needed = {name}
        for op in reversed(block.ops):
            if needed.isdisjoint(op.output_arg_names):
                continue
            needed.difference_update(op.output_arg_names)
            if op.type != SHAPE.type or any(-1 in block.var(given).shape for given in op.input_arg_names):
                needed.update(op.input_arg_names)
        return not needed


def reasons(reads: Sequence[ReadInteger], scope: Scope, arguments: Mapping[str, Tensor]) -> Iterator[str]:
    """Why the integers that were read are not those of other arguments."""
    for read in reads:
        if (reason := read.reason(scope, arguments)) is not None:
            yield reason


def only_one_device(reads: IntegerReads, count: int) -> str | None:
    """Why a program with such reads cannot run on several devices; None if it runs on one, or has none."""
    if count == 1 or not reads.any:
        return None
    return (
        "Python reads an integer that the function computes, which may be another one on each of several devices\n"
        "  use x.shape, which is that of a device's own rows, pass the integer as an argument, or capture the step for "
        "one device"
    )
