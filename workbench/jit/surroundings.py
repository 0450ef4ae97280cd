"""Surroundings: what a recorded function reads from outside of its arguments, looked at again before every run.

What Python reads - globals, variables of enclosing functions, attributes of layers and of modules - is part of what was
recorded. It is found in the code of the function and of all functions of the user that it leads to. A change of it is
noticed before the next run; a change made by the function itself cannot be recorded, and is refused.

What is called with which objects is not known before the function runs. So of an object that is handed on - to a call,
a container, another name - everything is looked at that some code of the user's reads by its name.
"""

from __future__ import annotations

import builtins
import dis
import os
import sys
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property, partial
from keyword import iskeyword
from operator import attrgetter, methodcaller
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.notice import tell
from workbench.framework.site import Site, is_ours
from workbench.framework.values import default_dtype
from workbench.jit.values.arguments import entries
from workbench.jit.values.code_reads import asked_names, attribute_names, chains, global_names, imported
from workbench.jit.values.indirect import WEAK_CONTAINERS, Caches, behind, getter_of, read_through, require_steady
from workbench.jit.values.libraries import draws_nothing, file_of, is_library, library_names
from workbench.jit.values.objects import (
    Lookup,
    calls_super,
    content,
    first_argument,
    is_closed,
    is_layer,
    is_setting,
    is_users,
    lookup_of,
    may_have,
    metaclasses,
    site_of,
)
from workbench.jit.values.progress import Progress
from workbench.jit.values.watches import MISSING, PLAIN, ArrayWatch, Change, ContainerWatch, ValueWatch
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer

_MANY = 4096  # entries of a container beyond which only the container itself is looked at
_MEMBERS = "_parameters", "_buffers", "_sub_layers"
_HOOKS = "_forward_pre_hooks", "_forward_post_hooks"
_BOOKS = "_full_name", "_unsaved_buffers", "_state_dict_hooks"  # of a layer, of no use to what it computes
_LARGE = 1 << 14  # bytes of an array beyond which it is not looked at before every run
_NOT_OPERATORS = frozenset({"__init__", "__new__", "__del__", "__repr__", "__init_subclass__", "__class_getitem__"})
_RATES = frozenset({"get_lr", "last_lr", "last_epoch"})


class Surroundings:
    """What a function reads from outside.

    Args:
        function: any callable. args: what it is called with, by parameter: objects that are no tensors lead on.

    Attributes:
        progress: what it must leave where it is, and need not find there again.

    Raises:
        NeedsValue: it reads from an iterator, which goes on where Python reads it.
    """

    def __init__(self, function: Callable[..., Any], args: Mapping[str, Any]) -> None:
        self.watched = ValueWatch()
        self.watched.add_entry("the default dtype", default_dtype.chosen, "dtype")
        self._containers: dict[int, ContainerWatch | ArrayWatch] = {}
        self._codes: dict[tuple[CodeType, int], FunctionType | None] = {}
        self._libraries: set[str] = set()
        self._seen: dict[int, Any] = {}
        self.progress = Progress()
        self._caches = Caches()
        self._names: dict[str, None] = {}
        self._asked_for: set[str] = set()  # names that code may ask for whether there is such an attribute or not
        self._handed_on: dict[int, tuple[str, Any]] = {}
        self._found(getattr(function, "__name__", "function"), function)
        start = getattr(function, "__func__", function)
        for name, value in args.items():
            self._found(name, value)
            self._hand_on(name, value, site_of(start))
        if isinstance(start, FunctionType):
            self._read(start, dict(args))
        self._follow_handed_on()
        self._seen, self._handed_on = {}, {}  # what is only weakly referred to is not to be kept alive

    def changes(self) -> list[Change]:
        """What is not as it was."""
        return [*self.watched.changes(), *(change for each in self._containers.values() for change in each.changes())]

    def note_clocks(self, clocks: Mapping[str, Site]) -> None:
        """The function has looked at clocks, each at a line."""
        for name, site in clocks.items():
            self._tell_unwatched(f"{name}, which gives something else at another time", "values", site)

    def note_caches(self) -> None:
        """The function has been recorded: cached properties that it has read are to stay as they are."""
        for label, space, name in self._caches.filled():
            self._watch(label, space, name)

    def note_grads(self, seen: Iterable[tuple[Tensor, Tensor | None]], changed: Container[int]) -> None:
        """The function has looked at `grad` of tensors: what it found there is to be there again.

        Args:
            seen: tensors, with what was there. changed: ids of those whose `grad` the function changes: there is to be
                a gradient again, or none again.
        """
        for tensor, grad in seen:
            if (tensor._grad is None) is not (grad is None):
                continue  # the function itself has put it there, or taken it away
            label, place = f"the gradient of {tensor.name}", (id(tensor), "grad")
            if id(tensor) in changed:
                self.watched.add(label, place, partial(_has_grad, tensor))
            else:
                quick = methodcaller("add_attribute", tensor, "_grad")
                self.watched.add(label, place, partial(getattr, tensor, "_grad"), quick)

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
        return any(not draws_nothing(module) for module in self._libraries)

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
        self._libraries.update(library_names(value))
        if isinstance(value, (*PLAIN, type, BuiltinFunctionType)) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self.progress.note(label, value)
        if (there := behind(label, value)) is not None and self.watched.add(there.name, id(value), there.read):
            self._found(there.name, there.value)
            self._hand_on(there.name, there.value, None)
        if isinstance(value, Tensor):
            for hook in list((value._hooks or {}).values()):
                self._found(f"a hook of {label}", hook)
        if isinstance(value, Optimizer):
            self._found(f"the schedule of {label}", value._learning_rate)
            self._found_optimizer(label, value)
        if not isinstance(value, MethodType | FunctionType) and not is_layer(value) and hasattr(value, "__wrapped__"):
            self._found(label, value.__wrapped__)
        if isinstance(value, attrgetter):
            self._names.update(dict.fromkeys(name for path in value.__reduce__()[1] for name in path.split(".")))
        if isinstance(value, MethodType):
            self._found(label.rpartition(".")[0] or label, value.__self__)
            self._read(value.__func__, first_argument(value.__func__, value.__self__))
        elif isinstance(value, FunctionType):
            self._read(value, {})
        elif isinstance(value, partial):
            self._found_container(f"the keywords of {label}", value.keywords)
            for part in (value.func, *value.args, *value.keywords.values()):
                self._found(label, part)
                self._hand_on(label, part, site_of(value.func))
        elif isinstance(value, list | tuple | dict | set | deque | bytearray | array):
            self._found_container(label, value)
        elif isinstance(value, (UserDict, UserList, ChainMap, *WEAK_CONTAINERS)):
            self._found_container(label, getattr(value, "maps" if isinstance(value, ChainMap) else "data"))
        elif isinstance(value, np.ndarray):
            self._found_array(label, value)
        elif is_layer(value):
            self._found_layer(label, value)
        elif is_users(value) and callable(value):
            call = type(value).__call__
            self._read(call, first_argument(call, value))

    def _found_container(self, label: str, value: Any) -> None:
        if len(value) > _MANY:
            self._tell_unwatched(f"{label}, a {type(value).__name__} of {len(value)} entries", "entries")
            return
        if not isinstance(value, tuple):
            self._containers[id(value)] = ContainerWatch(label, value)
        for part in entries(value):
            if not isinstance(part, PLAIN):
                self._found(label, part)
                self._hand_on(f"an entry of {label}", part, None)

    def _found_array(self, label: str, numbers: np.ndarray) -> None:
        if numbers.nbytes <= _LARGE:
            self._containers[id(numbers)] = ArrayWatch(label, numbers)
        elif numbers.flags.writeable:
            self._tell_unwatched(f"{label}, an array of {numbers.nbytes} bytes", "numbers")

    def _tell_unwatched(self, what: str, content: str, site: Site | None = None) -> None:
        where = "" if site is None else f"\n  at {site}"
        tell(
            f"{what}, is read from outside of the function that is recorded: every run sees the {content} of now; pass "
            f"it as an argument if they change{where}"
        )

    def _found_optimizer(self, label: str, optimizer: Optimizer) -> None:
        """What an optimizer was made with, and may be given anew; but for its rate, which every run asks for."""
        for name, value in vars(optimizer).items():
            is_option = isinstance(value, PLAIN) or is_setting(value)
            if is_option and name not in ("_learning_rate", "_name"):
                self._watch(f"{label}.{name}", vars(optimizer), name)
            if is_setting(value):
                for part in vars(value):
                    self._watch(f"{label}.{name}.{part}", vars(value), part)
        parameters: list[Any] = optimizer._groups.parameters or []
        self.watched.add(f"the number of parameters of {label}", (id(parameters), len), parameters.__len__)

    def _found_layer(self, label: str, layer: Any) -> None:
        """All that a layer holds, and the layers below it."""
        attributes = vars(layer)
        is_own = is_ours(file_of(type(layer)))
        for name, value in attributes.items():
            if name in (*_MEMBERS, *_HOOKS, *_BOOKS):
                continue
            if is_own or isinstance(value, PLAIN):
                self._watch(f"{label}.{name}", attributes, name)
            if not is_own or isinstance(value, list | dict | FunctionType):
                self._found(f"{label}.{name}", value)
        for name in _MEMBERS:
            inside = attributes[name]
            if hasattr(type(layer), "__len__") or (inside and name == "_sub_layers"):
                self.watched.add(f"the number of entries of {label}", (id(inside), len), inside.__len__)
            for key, value in inside.items():
                self._watch(f"{label}.{key}", inside, key)
                self._found(f"{label}.{key}", value)
        for hooks in [attributes[name] for name in _HOOKS if name in attributes]:
            quick = methodcaller("add_attribute", hooks, "changes")
            self.watched.add(f"the hooks of {label}", (id(hooks), "hooks"), partial(getattr, hooks, "changes"), quick)
            for hook in hooks.values():
                self._found(f"a hook of {label}", hook)
        self._watch_class(type(layer), "forward")
        self._watch_kind(label, layer)
        self._follow(label, layer, ["forward"])

    def _read(self, function: Any, known: Mapping[str, Any]) -> None:
        """Follow what a function of the user reads, and what it stands in front of, if it is a decorator's."""
        if (behind_it := getattr(function, "__wrapped__", None)) is not None:
            self._read(behind_it, known)
        code = getattr(function, "__code__", None)
        if code is None or is_ours(code.co_filename) or is_library(function.__globals__):
            return
        key = code, id(next(iter(known.values()), None))
        if key in self._codes:
            return
        self._codes[key] = function
        self._watch_code(function)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if function.__defaults__:
            read = partial(getattr, function, "__defaults__")
            self.watched.add(f"the defaults of {function.__name__}", (id(function), "defaults"), read)
        if function.__kwdefaults__:
            read = partial(getattr, function, "__kwdefaults__")
            self.watched.add(f"the defaults of {function.__name__}", (id(function), "kwdefaults"), read)
            self._found(f"the defaults of {function.__name__}", function.__kwdefaults__)
        for value in function.__defaults__ or ():
            self._found("default", value)
            self._hand_on("default", value, site_of(function))
        self._read_code(code, function.__globals__, cells, dict(known))

    def _watch_code(self, function: Any) -> None:
        """What a function does: notebooks that load modules again put other code into the functions there are."""
        read = partial(getattr, function, "__code__")
        quick = methodcaller("add_attribute", function, "__code__")
        self.watched.add(f"the code of {function.__name__}", (id(function), "code"), read, quick)

    def _read_code(
        self, code: CodeType, outside: dict[str, Any], cells: Mapping[str, Any], known: dict[str, Any]
    ) -> None:
        self._names.update(dict.fromkeys(attribute_names(code)))
        self._asked_for |= asked_names(code)
        for chain in chains(code):
            value = self._value_of(chain.kind, chain.name, outside, cells, known)
            if value is MISSING:
                continue
            self._libraries.update(library_names(value, chain.path))
            value = self._follow(chain.name, value, chain.path)
            if value is MISSING:
                continue
            if chain.stored is not None:
                known[chain.stored] = value
            self._hand_on(chain.text, value, Site(code.co_filename, chain.line))
        self._read_modules(code, outside)
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._codes[inner, 0] = None
                self._read_code(inner, outside, cells, known)

    def _read_modules(self, code: CodeType, outside: dict[str, Any]) -> None:
        """Modules that code imports, and what it reads of its own one by `globals()`."""
        for module in imported(code, outside.get("__package__")):
            self._libraries.add(module)
            self._hand_on(module, sys.modules.get(module), None)
        for name, site in global_names(code):
            if name in outside:
                self._hand_on(name, self._value_of("global", name, outside, {}, {}), site)
            else:
                self._watch(name, outside, name)

    def _value_of(
        self, kind: str, name: str, outside: dict[str, Any], cells: Mapping[str, Any], known: Mapping[str, Any]
    ) -> Any:
        """What code finds under a name; it is watched from now on if it is from outside."""
        if kind == "global":
            if self._watch(name, outside, name):
                self._found(name, outside.get(name))
            if name in outside:
                return outside[name]
            self._watch(name, vars(builtins), name)  # or nothing, until there is something
            return MISSING
        if kind == "cell" and name in cells:
            cell = cells[name]
            value = content(cell)
            if value is not MISSING and self.watched.add_cell(name, cell):
                self._found(name, value)
            return value
        return known.get(name, MISSING)

    # What is handed on, nobody knows to what

    def _hand_on(self, label: str, value: Any, site: Site | None) -> None:
        """An object that other code gets hold of: the names that code reads may be its attributes."""
        if value is os.environ or value is os.getenv:
            self._found_container("os.environ", vars(os.environ)["_data"])
            return
        if isinstance(value, (*PLAIN, Tensor, FunctionType, BuiltinFunctionType, MethodType, np.ndarray)):
            return
        require_steady(label, value, site)
        if id(value) not in self._handed_on and not is_closed(value):
            self._handed_on[id(value)] = label, value

    def _follow_handed_on(self) -> None:
        """Look at all the attributes that are read somewhere, until nothing new comes up."""
        looked_at: set[tuple[int, str]] = set()
        while True:
            for key, (_, value) in list(self._handed_on.items()):
                if (key, "") not in looked_at:
                    looked_at.add((key, ""))
                    self._read_operators(value)
            pairs = [(key, name) for key in self._handed_on for name in self._names if (key, name) not in looked_at]
            if not pairs:
                return
            for key, name in pairs:
                label, value = self._handed_on[key]
                looked_at.add((key, name))
                if name not in self._asked_for and not may_have(value, name):
                    continue
                content = self._follow(label, value, [name])
                if content is not MISSING:
                    self._hand_on(f"{label}.{name}", content, None)

    def _read_operators(self, value: Any) -> None:
        """What `value[key]`, `len(value)`, `with value:` and the like call."""
        for base in type(value).__mro__:
            for name, member in list(vars(base).items()):
                if isinstance(member, FunctionType) and name.startswith("__") and name not in _NOT_OPERATORS:
                    self._read(member, first_argument(member, value))

    def _follow(self, label: str, value: Any, path: Sequence[str]) -> Any:
        """Attributes that are read, one of another."""
        for name in path:
            if name == "__dict__":
                self._found_namespace(label, value)
                return MISSING
            if isinstance(value, ModuleType):
                if is_library(vars(value)):
                    return getattr(value, name, MISSING)
                space: Mapping[str, Any] = vars(value)
            elif isinstance(value, Tensor):
                return MISSING
            elif isinstance(value, Optimizer | LRScheduler) and name in _RATES:
                self._watch_rate(label, value)
                return MISSING
            else:
                value = self._follow_attribute(label, value, name)
                label = f"{label}.{name}"
                if value is MISSING:
                    return MISSING
                continue
            label = f"{label}.{name}"
            if self._watch(label, space, name):
                self._found(label, space.get(name))
            value = space.get(name, MISSING)
            if value is MISSING:
                return MISSING
        return value

    def _follow_attribute(self, label: str, value: Any, name: str) -> Any:
        """An attribute of an object: its own, or what its class has for it."""
        own = {} if isinstance(value, type) else getattr(value, "__dict__", {})
        if name not in own and is_layer(value):
            own = next((own[part] for part in _MEMBERS if name in own.get(part, ())), own)
        if name == "__class__" and not is_closed(type(value)):
            self._watch_kind(label, value)
            return type(value)
        if name not in own:
            return self._follow_class(label, value, name)
        if self._watch(f"{label}.{name}", own, name):
            self._found(f"{label}.{name}", own[name])
        return own[name]

    def _found_namespace(self, label: str, value: Any) -> None:
        """All attributes that an object has itself."""
        space = getattr(value, "__dict__", None)
        if type(space) is dict and not is_layer(value) and not is_closed(value):
            self._found_container(f"{label}.__dict__", space)

    def _watch_rate(self, label: str, value: Any) -> None:
        """The learning rate, which Python reads."""
        read = value.get_lr if isinstance(value, Optimizer) else partial(getattr, value, "last_lr")
        self.watched.add(f"the learning rate of {label}", (id(value), "rate"), read)

    def _follow_class(self, label: str, value: Any, name: str) -> Any:
        """An attribute an object has from its class: a method, a property, a constant; or nowhere."""
        owner, bases = lookup_of(value, name)
        if metaclasses(value):
            self._watch_metaclass(label, value, name)
        if not (bases and isinstance(vars(bases[0])[name], cached_property)):  # which fills it
            self._watch_absence(f"{label}.{name}", value, name)
        if not bases:
            self._watch_class(owner, name)
            return self._follow_hook(label, value, name)
        users = [base for base in bases if not is_closed(base)]
        if not users:
            return MISSING
        self._watch_class(owner, name)
        self._watch_kind(label, value)
        contents = [
            self._follow_member(label, value, Lookup(owner, [base]), name)
            for base in (users if calls_super(owner) else users[:1])
        ]
        return contents[0]

    def _follow_member(self, label: str, value: Any, lookup: Lookup, name: str) -> Any:
        """What stands under a name in one class of an object; what code finds there, if it is a value."""
        owner, (base,) = lookup
        member = vars(base)[name]
        self._watch_class(base, name)
        if isinstance(member, staticmethod | classmethod):
            self._read(member.__func__, first_argument(member.__func__, owner))
        elif isinstance(member, FunctionType):
            self._read(member, first_argument(member, value))
        elif (getter := getter_of(member)) is not None:
            self._read(getter, first_argument(getter, value))
            if not isinstance(member, property):
                self._caches.note(f"{label}.{name}", value, name)
        elif isinstance(member, MemberDescriptorType):
            return self._follow_slot(label, value, name)
        else:
            self._found(f"{base.__name__}.{name}", member)
            if not hasattr(type(member), "__get__"):
                return member
            self._hand_on(f"{base.__name__}.{name}", member, None)  # a descriptor, whose code looks at the object
            self._hand_on(label, value, None)
        return MISSING

    def _watch_absence(self, label: str, value: Any, name: str) -> None:
        """An object has no attribute of its own under a name of its class; it may get one."""
        own = None if isinstance(value, type) else getattr(value, "__dict__", None)
        if own is not None:
            self._watch(label, own, name)

    def _watch_kind(self, label: str, value: Any) -> None:
        """The class of an object; of one that nobody keeps alive for the sake of this."""
        if is_layer(value):
            quick = methodcaller("add_attribute", value, "__class__")
            self.watched.add(f"the class of {label}", (id(value), "class"), partial(type, value), quick)
        elif not isinstance(value, type | ModuleType) and type(value).__weakrefoffset__:
            self.watched.add(f"the class of {label}", (id(value), "class"), partial(_kind_behind, ref(value)))

    def _watch_class(self, owner: type, name: str) -> None:
        """What a class has under a name, from wherever in its bases; and that it has nothing."""
        label, read = f"{owner.__name__}.{name}", partial(getattr, owner, name, MISSING)
        above = metaclasses(owner)  # whose code may do anything when it is asked
        if above or read() is not read():  # bound anew at every look
            for base in (*owner.__mro__, *above):
                members = vars(base)  # another view of them at every look
                self.watched.add(label, (id(base), name, "entry"), partial(members.get, name, MISSING))
            return
        is_short = read() is not MISSING and type(name) is str and name.isidentifier() and not iskeyword(name)
        quick = methodcaller("add_attribute", owner, name) if is_short else None
        self.watched.add(label, (id(owner), name), read, quick)

    def _watch_metaclass(self, label: str, value: type, name: str) -> None:
        """The class of a class, what both have under a name, and what is asked for every name."""
        self._watch_class(value, name)
        self.watched.add(f"the class of {label}", (id(value), "class"), partial(type, value))
        if isinstance(getattr(type(value), "__getattribute__", None), FunctionType):
            self._hand_on(label, value, None)

    def _follow_hook(self, label: str, value: Any, name: str) -> Any:
        """An attribute that neither an object nor its class has: what `__getattr__` makes of it."""
        if (read := read_through(value, name)) is not None:
            if self.watched.add(f"{label}.{name}", (id(value), name), read):
                self._found(f"{label}.{name}", read())
            return read()
        if isinstance(getattr(type(value), "__getattr__", None), FunctionType) and not is_layer(value):
            self._hand_on(label, value, None)
        return MISSING

    def _follow_slot(self, label: str, value: Any, name: str) -> Any:
        read = partial(getattr, value, name, MISSING)
        content = read()
        if self.watched.add(f"{label}.{name}", (id(value), name), read):
            self._found(f"{label}.{name}", content)
        return content


def _kind_behind(reference: ref[Any]) -> type:
    return type(reference())


def _has_grad(tensor: Tensor) -> bool:
    return tensor._grad is not None
