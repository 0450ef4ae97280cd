"""What kind of object something is that code reads."""

from __future__ import annotations

import builtins
import sys
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

from workbench.framework.site import Site, is_ours
from workbench.jit.values.libraries import file_of, is_library
from workbench.jit.values.watches import MISSING
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.regularizer import WeightDecayRegularizer


def is_layer(value: Any) -> bool:
    """Whether a value is a layer, by its class: `__getattr__` of users need not answer for any name."""
    return hasattr(type(value), "sublayers") and hasattr(type(value), "forward")


def first_argument(function: Any, value: Any) -> dict[str, Any]:
    """What a function calls its first argument, and what the functions call it that it is a decorator's for."""
    names: dict[str, Any] = {}
    while function is not None:
        code = getattr(function, "__code__", None)
        if code is not None and code.co_argcount:
            names.setdefault(code.co_varnames[0], value)
        function = getattr(function, "__wrapped__", None)
    return names


def content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return MISSING


def is_users(value: Any) -> bool:
    return not is_ours(file_of(type(value)))


def is_closed(value: Any) -> bool:
    """Whether an object has no attributes a user might set, or too many to be anybody's settings: of a library."""
    if isinstance(value, ModuleType):
        return is_library(vars(value))
    if isinstance(value, Optimizer | LRScheduler):
        return False
    owner = value if isinstance(value, type) else type(value)
    return is_ours(file_of(owner)) or (owner.__module__ == "builtins" and owner is value)


def site_of(function: Any) -> Site | None:
    code = getattr(function, "__code__", None)
    return None if code is None else Site(code.co_filename, code.co_firstlineno)


def is_setting(value: Any) -> bool:
    """Whether a value is what an optimizer clips or decays by."""
    return isinstance(value, ClipGradBase | WeightDecayRegularizer)


def calls_super(owner: type) -> bool:
    """Whether a method of a class looks further up, at what others of the same name do."""
    members = [member for base in owner.__mro__ for member in list(vars(base).values())]
    return any(isinstance(member, FunctionType) and "super" in member.__code__.co_names for member in members)


def metaclasses(value: Any) -> list[type]:
    """The classes of the user that a class is an instance of; none of what is no class, or has none but Python's."""
    kind: type = type(value)
    if kind is type or not isinstance(value, type):
        return []
    return [base for base in kind.__mro__ if not is_library(vars(sys.modules.get(base.__module__, builtins)))]


class Lookup(NamedTuple):
    """Where an attribute of an object comes from that the object itself does not have.

    Attributes:
        owner: the class that is looked at, with its bases: of the object; for a class it, or its class. bases: those
            that have the name.
    """

    owner: type
    bases: list[type]


def lookup_of(value: Any, name: str) -> Lookup:
    """Where Python finds an attribute, as it looks for it."""
    if not isinstance(value, type):
        return Lookup(type(value), [base for base in type(value).__mro__ if name in vars(base)])
    own = [base for base in value.__mro__ if name in vars(base)]
    above = [base for base in metaclasses(value) if name in vars(base)]
    if above and (not own or _goes_first(vars(above[0])[name])):
        return Lookup(type(value), above)
    return Lookup(value, own)


def _goes_first(member: Any) -> bool:
    """Whether it is a descriptor that goes before what an object itself has under its name."""
    return hasattr(type(member), "__set__") or hasattr(type(member), "__delete__")


def may_have(value: Any, name: str) -> bool:
    """Whether an object has an attribute, or a hook that may make one; the attribute is not asked for."""
    owner = value if isinstance(value, type) else type(value)
    if name in getattr(value, "__dict__", ()) or name == "__dict__" or isinstance(value, ModuleType):
        return True
    if is_layer(value):
        is_made = any(name in part for part in (value._parameters, value._buffers, value._sub_layers))
    else:
        is_made = hasattr(owner, "__getattr__")
    return is_made or any(name in vars(base) for base in (*owner.__mro__, *metaclasses(value)))
