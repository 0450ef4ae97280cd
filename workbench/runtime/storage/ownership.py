"""Which program a parameter belongs to, how it makes its first value, and a warning when another one is about to
initialise it again.

Two programs built apart from each other may use the same parameter names, mostly by accident: the startup
program of the second then wipes out what the first has learned. Running a startup program again is a reset
that was asked for; so is running a copy of it, one built anew under the same name, or one built anew by the same
lines if nobody keeps the program they built before.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.program.variable import Parameter
from workbench.runtime.storage.scope import InitialValue, Owner, Scope


def owner_of(program: Program) -> Owner:
    """What is noted at the variables a program initialises."""
    ops = program.global_block().ops
    return Owner(program.origin, program.name, ops[0].site if ops else None, weakref.ref(program), program.family)


def warn_of_overwriting(program: Program, initialises: Iterable[str], scope: Scope) -> None:
    """Warn if running `program` initialises a parameter that another program has initialised.

    One warning, for the first such parameter and with the number of the others.

    Args:
        initialises: the variables it writes without reading them before.
    """
    block, owner = program.global_block(), owner_of(program)
    parameters = [name for name in sorted(initialises) if isinstance(block.vars.get(name), Parameter)]
    taken = [(name, variable.owner) for name in parameters if (variable := scope.find_var(name)) and variable.owner]
    foreign = [(name, other) for name, other in taken if not same_program(owner, other)]
    if not foreign:
        return
    name, other = foreign[0]
    more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
    warnings.warn(
        f"{_label(owner)} gives parameter {name!r}{more} a new value, which {_label(other)} had initialised: "
        "both models use this name, so each changes the other. Build them with names of their own "
        "(%%static_program in a notebook, unique_name.guard with a prefix elsewhere)",
        stacklevel=5,
    )


_MOVING = frozenset({ROLE, ROLE_VAR, "stream"})  # attributes that follow from where an operator stands


def initial_values_of(startup: Program) -> dict[str, InitialValue]:
    """How the persistable variables of a startup program get their first values, by name."""
    block = startup.global_block()
    ops: dict[str, tuple[Operator, ...]] = {}
    reads: dict[str, tuple[str, ...]] = {}
    for op in block.ops:
        from_ops, from_names = [op], list[str]()
        for name in op.input_arg_names:
            variable = block.vars.get(name)
            is_kept = variable is not None and variable.persistable and name not in op.output_arg_names
            from_names += [name] if is_kept else reads.get(name, ())
            from_ops += () if is_kept else ops.get(name, ())
        for name in op.output_arg_names:
            ops[name], reads[name] = tuple(dict.fromkeys(from_ops)), tuple(dict.fromkeys(from_names))
    kept = [name for name in ops if name in block.vars and block.vars[name].persistable]
    return {name: _initial_value(startup, ops[name], reads[name]) for name in kept}


def _initial_value(startup: Program, ops: tuple[Operator, ...], reads: tuple[str, ...]) -> InitialValue:
    steps = tuple((op.type, {key: value for key, value in op.attrs.items() if key not in _MOVING}) for op in ops)
    return InitialValue(steps, startup.random_seed if any("seed" in attrs for _, attrs in steps) else 0, reads)


def same_initial_value(a: InitialValue | None, b: InitialValue | None) -> bool:
    """Whether two of them make the same value, or numbers of the same distribution from the same seed."""
    if a is None or b is None or (a.seed, a.reads, len(a.ops)) != (b.seed, b.reads, len(b.ops)):
        return False
    return all(
        one == other and mine.keys() == theirs.keys() and all(_equal(mine[key], theirs[key]) for key in mine)
        for (one, mine), (other, theirs) in zip(a.ops, b.ops, strict=True)
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return a is b or bool(a == b)


def same_program(a: Owner, b: Owner) -> bool:
    """Whether it is one program, a copy of it, or the same program built again."""
    if a.origin == b.origin:
        return True
    mine, theirs = a.family or a.name, b.family or b.name
    if mine != theirs or mine:
        return mine == theirs
    return a.site == b.site and _is_gone(b)


def _is_gone(owner: Owner) -> bool:
    """Whether nobody keeps the program; blocks and programs refer to each other, so the collector has to look."""
    if owner.program() is not None:
        gc.collect()
    return owner.program() is None


def _label(owner: Owner) -> str:
    return f"startup program {owner.name!r}" if owner.name else f"the startup program built at {owner.site}"
