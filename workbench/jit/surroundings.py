"""Surroundings: what a recorded function reads from outside of its arguments, looked at again before every run.

What Python reads - globals, variables of enclosing functions, attributes of layers and of modules - is part of what was
recorded. It is found in the code of the function and of all functions of the user that it leads to. A change of it is
noticed before the next run; a change made by the function itself cannot be recorded, and is refused.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.notice import tell
from workbench.framework.site import Site, is_ours
from workbench.jit.values.watches import MISSING, PLAIN, ArrayWatch, Change, ContainerWatch, ValueWatch, entries

_MANY = 256  # entries of a container beyond which only the container itself is looked at
_MEMBERS = "_parameters", "_buffers", "_sub_layers"
_HOOKS = "_forward_pre_hooks", "_forward_post_hooks"
_LARGE = 1 << 14  # bytes of an array beyond which it is not looked at before every run


class Surroundings:
    """What a function reads from outside.

    Args:
        function: any callable. args: what it is called with, by parameter: objects that are no tensors lead on.
    """

    def __init__(self, function: Callable[..., Any], args: Mapping[str, Any]) -> None:
        self.watched = ValueWatch()
        self._containers: dict[int, ContainerWatch | ArrayWatch] = {}
        self._codes: dict[tuple[CodeType, int], FunctionType | None] = {}
        self._libraries: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._found(getattr(function, "__name__", "function"), function)
        for name, value in args.items():
            self._found(name, value)
        start = getattr(function, "__func__", function)
        if isinstance(start, FunctionType):
            self._read(start, dict(args))

    def changes(self) -> list[Change]:
        """What is not as it was."""
        return [*self.watched.changes(), *(change for each in self._containers.values() for change in each.changes())]

    @property
    def containers(self) -> list[ContainerWatch | ArrayWatch]:
        """Lists, dicts, sets and arrays whose entries are read."""
        return list(self._containers.values())

    @property
    def functions(self) -> list[FunctionType]:
        """The functions of the user that are called."""
        return [function for function in self._codes.values() if function is not None]

    @property
    def may_draw(self) -> bool:
        """Whether something is called that might draw random numbers, for all that is known of it."""
        return any(not _draws_nothing(module) for module in self._libraries)

    def site_of_change(self, name: str) -> Site | None:
        """Where the code that was read stores to a name."""
        last = name.rpartition(".")[2].rpartition(" ")[2]
        for code, _ in self._codes:
            for step in dis.get_instructions(code):
                if step.opname.startswith("STORE_") and step.argval == last and step.positions is not None:
                    return Site(code.co_filename, step.positions.lineno or code.co_firstlineno)
        return None

    # Finding

    def _watch(self, label: str, space: Mapping[str, Any], name: str) -> bool:
        """An entry of a namespace; False if it is watched already."""
        return self.watched.add_entry(label, space, name)

    def _found(self, label: str, value: Any) -> None:
        """Something that is read: look at what it leads to."""
        self._libraries.update(_library_names(value))
        if isinstance(value, (*PLAIN, Tensor, type, BuiltinFunctionType)) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, MethodType):
            self._found(label.rpartition(".")[0] or label, value.__self__)
            self._read(value.__func__, _first_argument(value.__func__, value.__self__))
        elif isinstance(value, FunctionType):
            self._read(value, {})
        elif not is_layer(value) and hasattr(value, "__wrapped__"):
            self._found(label, value.__wrapped__)
        elif isinstance(value, partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._found(label, part)
        elif isinstance(value, list | tuple | dict | set):
            self._found_container(label, value)
        elif isinstance(value, np.ndarray):
            self._found_array(label, value)
        elif is_layer(value):
            self._found_layer(label, value)
        elif _is_users(value) and callable(value):
            call = type(value).__call__
            self._read(call, _first_argument(call, value))

    def _found_container(self, label: str, value: Any) -> None:
        if len(value) > _MANY:
            return
        if not isinstance(value, tuple):
            self._containers[id(value)] = ContainerWatch(label, value)
        for part in entries(value):
            self._found(label, part)

    def _found_array(self, label: str, array: np.ndarray) -> None:
        if array.nbytes <= _LARGE:
            self._containers[id(array)] = ArrayWatch(label, array)
        elif array.flags.writeable:
            tell(
                f"{label}, an array of {array.nbytes} bytes, is read from outside of the function that is recorded: "
                "every run sees the numbers of now; pass it as an argument if they change"
            )

    def _found_layer(self, label: str, layer: Any) -> None:
        """All that a layer holds, and the layers below it."""
        attributes = vars(layer)
        is_own = is_ours(_file_of(type(layer)))
        for name, value in attributes.items():
            if isinstance(value, PLAIN):
                self._watch(f"{label}.{name}", attributes, name)
            elif name not in _MEMBERS and not is_own:
                self._found(f"{label}.{name}", value)
        for name in _MEMBERS:
            inside = attributes[name]
            if hasattr(type(layer), "__len__") or (inside and name == "_sub_layers"):
                self.watched.add(f"the number of entries of {label}", (id(inside), len), inside.__len__)
            for key, value in inside.items():
                self._watch(f"{label}.{key}", inside, key)
                self._found(f"{label}.{key}", value)
        for hooks in [attributes[name] for name in _HOOKS if name in attributes]:
            self.watched.add(f"the hooks of {label}", (id(hooks), "hooks"), partial(getattr, hooks, "changes"))
            for hook in hooks.values():
                self._found(f"a hook of {label}", hook)
        forward = getattr(type(layer).forward, "__wrapped__", type(layer).forward)
        if not is_ours(forward.__code__.co_filename):
            self._read(forward, _first_argument(forward, layer))

    def _read(self, function: Any, known: Mapping[str, Any]) -> None:
        """Follow what a function of the user reads."""
        function = getattr(function, "__wrapped__", function)
        code = getattr(function, "__code__", None)
        if code is None or is_ours(code.co_filename) or _is_library(function.__globals__):
            return
        key = code, id(next(iter(known.values()), None))
        if key in self._codes:
            return
        self._codes[key] = function
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if function.__defaults__:
            read = partial(getattr, function, "__defaults__")
            self.watched.add(f"the defaults of {function.__name__}", (id(function), "defaults"), read)
        for value in function.__defaults__ or ():
            self._found("default", value)
        self._read_code(code, function.__globals__, cells, dict(known))

    def _read_code(
        self, code: CodeType, outside: dict[str, Any], cells: Mapping[str, Any], known: dict[str, Any]
    ) -> None:
        for root, path, stored in _chains(code):
            kind, name = root
            if kind == "global":
                if name not in outside:
                    continue
                if self._watch(name, outside, name):
                    self._found(name, outside[name])
                value: Any = outside[name]
            elif kind == "cell" and name in cells:
                cell = cells[name]
                if _content(cell) is MISSING:
                    continue
                if self.watched.add_cell(name, cell):
                    self._found(name, _content(cell))
                value = _content(cell)
            elif name in known:
                value = known[name]
            else:
                continue
            self._libraries.update(_library_names(value, path))
            value = self._follow(name, value, path)
            if stored is not None and value is not MISSING:
                known[stored] = value
        self._libraries.update(step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._codes[inner, 0] = None
                self._read_code(inner, outside, cells, known)

    def _follow(self, label: str, value: Any, path: Sequence[str]) -> Any:
        """Attributes that are read, one of another."""
        for name in path:
            if isinstance(value, ModuleType):
                if _is_library(vars(value)):
                    return getattr(value, name, MISSING)
                space: Mapping[str, Any] = vars(value)
            elif isinstance(value, Tensor) or not hasattr(value, "__dict__"):
                return MISSING
            else:
                space = vars(value)
            followed = space.get(name, MISSING)
            if followed is MISSING and not isinstance(value, ModuleType):
                return self._follow_class(label, value, name)
            label = f"{label}.{name}"
            if self._watch(label, space, name):
                self._found(label, followed)
            value = followed
        return value

    def _follow_class(self, label: str, value: Any, name: str) -> Any:
        """An attribute an object has from its class: a method, a property, a constant."""
        owner = value if isinstance(value, type) else type(value)
        for base in owner.__mro__:
            member = vars(base).get(name, MISSING)
            if member is MISSING or is_ours(_file_of(base)):
                continue
            if isinstance(member, FunctionType):
                self._read(member, _first_argument(member, value))
            elif isinstance(member, property) and member.fget is not None:
                self._read(member.fget, _first_argument(member.fget, value))
            elif self._watch(f"{base.__name__}.{name}", vars(base), name):
                self._found(f"{base.__name__}.{name}", member)
            return member if isinstance(member, PLAIN) else MISSING
        return MISSING


_Chain = tuple[tuple[str, str], list[str], str | None]


def _chains(code: CodeType) -> Iterator[_Chain]:
    """What code reads: (kind and name of where it begins, attributes, the local variable it is stored in)."""
    root: tuple[str, str] | None = None
    path: list[str] = []
    for step in dis.get_instructions(code):
        name = step.opname
        if root is not None and name in ("LOAD_ATTR", "LOAD_METHOD"):
            path.append(step.argval)
            continue
        if name in ("PUSH_NULL", "PRECALL", "CACHE", "NOP", "RESUME"):
            continue
        if root is not None:
            yield root, path, step.argval if name == "STORE_FAST" else None
        root, path = None, []
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            root = "global", step.argval
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            root = "cell", step.argval
        elif name in ("LOAD_FAST", "LOAD_FAST_CHECK"):
            root = "local", step.argval
    if root is not None:
        yield root, path, None


def is_layer(value: Any) -> bool:
    """Whether a value is a layer."""
    return hasattr(value, "_sub_layers") and hasattr(type(value), "forward")


def _library_names(value: Any, path: Sequence[str] = ()) -> Iterator[str]:
    """The name of a module that nobody changes, and of what is read of it; or of the module a value comes from."""
    if isinstance(value, ModuleType):
        if _is_library(vars(value)):
            yield ".".join([value.__name__, *path])
        return
    made_by = getattr(value, "__self__", None)
    owner: Any = value if isinstance(value, type | FunctionType) else type(value if made_by is None else made_by)
    module = sys.modules.get(owner.__module__)
    if module is not None and not isinstance(value, (*PLAIN, Tensor)) and _is_library(vars(module)):
        yield f"{module.__name__}.{getattr(value, '__name__', '')}"


def _draws_nothing(name: str) -> bool:
    """Whether what is called so is known to leave the generators of `random` and `numpy.random` alone."""
    first, *rest = name.split(".")
    if first == "numpy":
        return bool(rest) and "random" not in rest
    return first == "workbench" or (first in sys.stdlib_module_names and first != "random")


def _first_argument(function: Any, value: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    return {code.co_varnames[0]: value} if code is not None and code.co_argcount else {}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return MISSING


def _is_users(value: Any) -> bool:
    return not is_ours(_file_of(type(value)))


def _file_of(owner: type) -> str:
    return str(getattr(sys.modules.get(owner.__module__), "__file__", "") or "")


def _is_library(names: Mapping[str, Any]) -> bool:
    """Whether a namespace is that of a module nobody changes: workbench's own, or an installed one."""
    file = str(names.get("__file__") or "")
    if not file:
        return names.get("__name__") != "__main__" and names.get("__spec__") is not None
    return is_ours(file) or "site-packages" in file or "/lib/python3" in file
