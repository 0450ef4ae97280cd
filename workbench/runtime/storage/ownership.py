"""Which program a parameter belongs to, and a warning when another one is about to initialise it again.

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

from workbench.framework.program.program import Program
from workbench.framework.program.variable import Parameter
from workbench.runtime.storage.scope import Owner, Scope


def owner_of(program: Program) -> Owner:
    """What is noted at the variables a program initialises."""
    ops = program.global_block().ops
    return Owner(program.origin, program.name, ops[0].site if ops else None, weakref.ref(program))


def warn_of_overwriting(program: Program, initialises: Iterable[str], scope: Scope) -> None:
    """Warn if running `program` initialises a parameter that another program has initialised.

    One warning, for the first such parameter and with the number of the others.

    Args:
        initialises: the variables it writes without reading them before.
    """
    block, owner = program.global_block(), owner_of(program)
    parameters = [name for name in sorted(initialises) if isinstance(block.vars.get(name), Parameter)]
    taken = [(name, variable.owner) for name in parameters if (variable := scope.find_var(name)) and variable.owner]
    foreign = [(name, other) for name, other in taken if not _same(owner, other)]
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


def _same(a: Owner, b: Owner) -> bool:
    """Whether it is one program, a copy of it, or the same program built again."""
    if a.origin == b.origin:
        return True
    if a.name != b.name or a.name:
        return a.name == b.name
    return a.site == b.site and _is_gone(b)


def _is_gone(owner: Owner) -> bool:
    """Whether nobody keeps the program; blocks and programs refer to each other, so the collector has to look."""
    if owner.program() is not None:
        gc.collect()
    return owner.program() is None


def _label(owner: Owner) -> str:
    return f"startup program {owner.name!r}" if owner.name else f"the startup program built at {owner.site}"
