"""Building on a copy of another program (`--from`): its name counters, and the user's names for its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from workbench.framework.names import UniqueNameGenerator
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable


class Lineage:
    """Which program was copied from which.

    After `b` was built from a copy of `a`, the user's `loss` is a Variable of `b`. When that cell runs again,
    or another one extends `a`, `loss` has to mean the same variable in the new copy.
    """

    def __init__(self) -> None:
        self._parents: WeakKeyDictionary[Program, int] = WeakKeyDictionary()

    def add(self, copy: Program, original: Program) -> None:
        self._parents[copy] = self.root(original)

    def root(self, program: Program) -> int:
        """`uid` of the program that the chain of copies started from."""
        return self._parents.get(program, program.uid)

    def related(self, a: Program, b: Program) -> bool:
        """Whether one is a copy of the other, or both are copies of the same."""
        return self.root(a) == self.root(b)


def counters_after(namespace: str, programs: Iterable[Program]) -> UniqueNameGenerator:
    """A name generator that goes on after every name the programs have.

    `net.fc_0.w_0` stands for one name generated from `net.fc` and one from `net.fc_0.w`.
    """
    generator = UniqueNameGenerator(namespace=namespace)
    for variable in (v for program in programs for v in program.list_vars()):
        parts = variable.name.split(".")
        for end in range(1, len(parts) + 1):
            key, _, number = ".".join(parts[:end]).rpartition("_")
            if key and number.isdecimal():
                generator.go_on_after(key, int(number))
    return generator


def counterpart(value: Any, copy: Program, is_related: Callable[[Program], bool]) -> Any:
    """`value` with Variables of related programs replaced by the variables of the same name in `copy`.

    Looks into plain lists, tuples and dicts. Anything else, and a container without such Variables, is
    returned as it is.
    """
    if isinstance(value, Variable):
        return _counterpart(value, copy) if is_related(value.block.program) else value
    if type(value) in (list, tuple):
        parts = [counterpart(v, copy, is_related) for v in value]
        return value if all(a is b for a, b in zip(parts, value)) else type(value)(parts)
    if type(value) is dict:
        entries = {k: counterpart(v, copy, is_related) for k, v in value.items()}
        return value if all(entries[k] is v for k, v in value.items()) else entries
    return value


def _counterpart(variable: Variable, copy: Program) -> Variable:
    index = variable.block.idx
    if index >= len(copy.blocks):
        return variable
    return copy.blocks[index].vars.get(variable.name, variable)
