"""What holds a value: attributes, slots, containers, functions and so on; each with ways to read and to change it."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.python_values import Change, Holder, Value, Values


def _instance(values: Values, inner: Value) -> Value:
    """An attribute of an object, and what its class may put in front of or behind it."""
    owner = values.fresh("Plain")
    values.define(f"class {owner}:\n    def __init__(self, v):\n        self.v = v\n")
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute set", f"{p}.v = {inner.make()}"),
            Change("attribute deleted", f"del {p}.v"),
            Change("class attribute set", f"{owner}.v = {inner.make()}"),
            Change("instance dictionary", f"vars({p})['v'] = {inner.make()}"),
            Change("dictionary replaced", f"{p}.__dict__ = {{'v': {inner.make()}}}"),
            Change("property in front", f"{owner}.v = property(lambda self: {inner.make()})"),
            *inner.changes(f"{p}.v"),
        ]

    return Value(inner.kinds, lambda: f"{owner}({inner.make()})", lambda p: inner.read(read.replace("{p}", p)), changes)


def _class_attribute(values: Values, inner: Value) -> Value:
    base, owner, other = values.fresh("Base"), values.fresh("Derived"), values.fresh("Other")
    values.define(
        f"class {base}:\n    v = {inner.make()}\n\nclass {owner}({base}):\n    pass\n\n"
        f"class {other}({base}):\n    v = {inner.make()}\n"
    )
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        return [
            Change("class attribute set", f"{base}.v = {inner.make()}"),
            Change("attribute of a subclass", f"{owner}.v = {inner.make()}"),
            Change("attribute over a class's", f"{p}.v = {inner.make()}"),
            Change("attribute deleted", f"del {p}.v"),
            Change("class of an object", f"{p}.__class__ = {other}"),
            Change("bases of a class", f"{owner}.__bases__ = ({other},)"),
            *inner.changes(f"{p}.v"),
        ]

    return Value(inner.kinds, lambda: f"{owner}()", lambda p: inner.read(read.replace("{p}", p)), changes)


def _super(values: Values, inner: Value) -> Value:
    base, middle, side, owner = (values.fresh(stem) for stem in ("Base", "Middle", "Side", "Derived"))
    values.define(
        f"class {base}:\n    def get(self):\n        return self.v\n\n"
        f"class {middle}({base}):\n    def get(self):\n        return super().get()\n\n"
        f"class {side}({base}):\n    def get(self):\n        return super().get()\n\n"
        f"class {owner}({middle}, {side}):\n    def __init__(self, v):\n        self.v = v\n\n"
        "    def get(self):\n        return super().get()\n"
    )

    def changes(p: str) -> list[Change]:
        changed = values.random.choice((base, middle, side, owner))
        return [
            Change("attribute set", f"{p}.v = {inner.make()}"),
            Change("method of a base replaced", f"{changed}.get = lambda self: {inner.make()}"),
            Change("method of an object", f"{p}.get = lambda: {inner.make()}"),
            *inner.changes(f"{p}.v"),
        ]

    return Value(inner.kinds, lambda: f"{owner}({inner.make()})", lambda p: inner.read(f"{p}.get()"), changes)


def _method(values: Values, inner: Value) -> Value:
    owner = values.fresh("Methods")
    which = values.random.choice(("get(self)", "__call__(self)", "__getitem__(self, key)", "__neg__(self)"))
    values.define(
        f"class {owner}:\n    def __init__(self, v):\n        self.v = v\n\n    def {which}:\n        return self.v\n"
    )
    name = which.partition("(")[0]
    call = {"get": "{p}.get()", "__call__": "{p}()", "__getitem__": "{p}[0]", "__neg__": "(-{p})"}[name]

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute set", f"{p}.v = {inner.make()}"),
            Change("method replaced", f"{owner}.{name} = lambda self, *key: {inner.make()}"),
            Change("method of an object", f"{p}.{name} = lambda *key: {inner.make()}"),
            *inner.changes(f"{p}.v"),
        ]

    make = lambda: f"{owner}({inner.make()})"  # noqa: E731
    return Value(inner.kinds, make, lambda p: inner.read(call.replace("{p}", p)), changes)


def _slot(values: Values, inner: Value) -> Value:
    owner = values.fresh("Slots")
    values.define(
        f"class {owner}:\n    __slots__ = ('v', '__weakref__')\n\n    def __init__(self, v):\n        self.v = v\n"
    )
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute set", f"{p}.v = {inner.make()}"),
            Change("attribute deleted", f"del {p}.v"),
            *inner.changes(f"{p}.v"),
        ]

    make = lambda: f"{owner}({inner.make()})"  # noqa: E731
    return Value(inner.kinds, make, lambda p: inner.read(read.replace("{p}", p)), changes)


def _property(values: Values, inner: Value) -> Value:
    owner = values.fresh("Property")
    values.define(
        f"class {owner}:\n    def __init__(self, v):\n        self._v = v\n\n"
        f"    @property\n    def v(self):\n        return self._v\n"
    )
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute set", f"{p}._v = {inner.make()}"),
            Change("property replaced", f"{owner}.v = property(lambda self: {inner.make()})"),
            *inner.changes(f"{p}._v"),
        ]

    make = lambda: f"{owner}({inner.make()})"  # noqa: E731
    return Value(inner.kinds, make, lambda p: inner.read(read.replace("{p}", p)), changes)


def _cached_property(values: Values, inner: Value) -> Value:
    owner = values.fresh("Cached")
    values.define(
        f"class {owner}:\n    def __init__(self, v):\n        self._v = v\n\n"
        f"    @cached_property\n    def v(self):\n        return self._v\n"
    )

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute set", f"{p}._v = {inner.make()}"),
            Change("cached property emptied", f"{p}.__dict__.pop('v', None); {p}._v = {inner.make()}"),
            Change("cached property set", f"{p}.v = {inner.make()}"),
            *inner.changes(f"{p}._v"),
        ]

    return Value(inner.kinds, lambda: f"{owner}({inner.make()})", lambda p: inner.read(f"{p}.v"), changes)


def _descriptor(values: Values, inner: Value) -> Value:
    descriptor, owner = values.fresh("Descriptor"), values.fresh("Described")
    is_data = values.random.random() < 0.5
    setter = "\n    def __set__(self, instance, value):\n        self.kept = value\n" if is_data else ""
    values.define(
        f"class {descriptor}:\n    def __init__(self, kept):\n        self.kept = kept\n\n"
        f"    def __get__(self, instance, owner=None):\n        return self.kept\n{setter}\n"
        f"class {owner}:\n    v = {descriptor}({inner.make()})\n"
    )
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute of a descriptor", f"vars({owner})['v'].kept = {inner.make()}"),
            Change("attribute over a class's", f"{p}.v = {inner.make()}"),
            Change("method of a descriptor", f"{descriptor}.__get__ = lambda self, *owner: {inner.make()}"),
            *inner.changes(f"vars({owner})['v'].kept"),
        ]

    return Value(inner.kinds, lambda: f"{owner}()", lambda p: inner.read(read.replace("{p}", p)), changes)


def _getattr_hook(values: Values, inner: Value) -> Value:
    owner = values.fresh("Hooked")
    hook = values.random.choice(("__getattr__", "__getattribute__"))
    body = "self.kept[name]" if hook == "__getattr__" else "object.__getattribute__(self, 'kept')[name]"
    guard = "        if name == 'kept' or name[:2] == '__':\n            return object.__getattribute__(self, name)\n"
    values.define(
        f"class {owner}:\n    def __init__(self, v):\n        self.kept = {{'v': v}}\n\n"
        f"    def {hook}(self, name):\n{guard}        return {body}\n"
    )
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        return [
            Change("what __getattr__ reads", f"{p}.kept['v'] = {inner.make()}"),
            Change("what __getattr__ reads, replaced", f"{p}.kept = {{'v': {inner.make()}}}"),
            Change("attribute in front of __getattr__", f"{p}.v = {inner.make()}"),
            Change("class attribute in front of __getattr__", f"{owner}.v = {inner.make()}"),
            Change("__getattr__ replaced", f"{owner}.__getattr__ = lambda self, name: {inner.make()}"),
            *inner.changes(f"{p}.kept['v']"),
        ]

    make = lambda: f"{owner}({inner.make()})"  # noqa: E731
    return Value(inner.kinds, make, lambda p: inner.read(read.replace("{p}", p)), changes)


def _dataclass(values: Values, inner: Value) -> Value:
    owner = values.fresh("Data")
    is_frozen = values.random.random() < 0.4
    values.define(f"@dataclass(frozen={is_frozen})\nclass {owner}:\n    v: object\n")
    read = values.attribute("{p}")

    def changes(p: str) -> list[Change]:
        own = f"object.__setattr__({p}, 'v', {inner.make()})" if is_frozen else f"{p}.v = {inner.make()}"
        return [Change("attribute set", own), *inner.changes(f"{p}.v")]

    make = lambda: f"{owner}({inner.make()})"  # noqa: E731
    return Value(inner.kinds, make, lambda p: inner.read(read.replace("{p}", p)), changes)


def _named_tuple(values: Values, inner: Value) -> Value:
    read = values.attribute("{p}") if values.random.random() < 0.5 else "{p}[1]"
    make = lambda: f"Pair(0, {inner.make()})"  # noqa: E731
    return Value(inner.kinds, make, lambda p: inner.read(read.replace("{p}", p)), lambda p: inner.changes(f"{p}.v"))


def _namespace(make: str) -> Callable[[Values, Value], Value]:
    """Objects with attributes, of a class of the standard library."""

    def build(values: Values, inner: Value) -> Value:
        read = values.attribute("{p}")

        def changes(p: str) -> list[Change]:
            return [
                Change("attribute set", f"{p}.v = {inner.make()}"),
                Change("attribute deleted", f"del {p}.v"),
                *inner.changes(f"{p}.v"),
            ]

        return Value(
            inner.kinds,
            lambda: make.replace("{}", inner.make()),
            lambda p: inner.read(read.replace("{p}", p)),
            changes,
        )

    return build


def _mapping(make: str) -> Callable[[Values, Value], Value]:
    ways = (
        "{p}['v']", "{p}.get('v', 1)", "({p}['v'] if 'v' in {p} else 1)", "[*{p}.values()][0]",
        "[each for key, each in {p}.items() if key == 'v'][0]", "itemgetter('v')({p})", "dict(**{p})['v']",
        "Pair(0, **{p}).v", "{p}[chr(118)]",
    )  # fmt: skip

    def build(values: Values, inner: Value) -> Value:
        read = values.random.choice(ways)

        def changes(p: str) -> list[Change]:
            return [
                Change("entry set", f"{p}['v'] = {inner.make()}"),
                Change("entry deleted", f"del {p}['v']"),
                Change("mapping emptied", f"{p}.clear()"),
                Change("mapping updated", f"{p}.update(v={inner.make()})"),
                Change("another entry", f"{p}.update({{'u': {inner.make()}}})"),
                *inner.changes(f"{p}['v']"),
            ]

        return Value(
            inner.kinds,
            lambda: make.replace("{}", inner.make()),
            lambda p: inner.read(read.replace("{p}", p)),
            changes,
        )

    return build


def _sequence(make: str) -> Callable[[Values, Value], Value]:
    ways = (
        "{p}[-1]", "{p}[len({p}) - 1]", "[*{p}][-1]", "list({p})[-1]", "[each for each in {p}][-1]", "last(*{p})",
        "next(reversed({p}))", "max(enumerate({p}), key=itemgetter(0))[1]",
    )  # fmt: skip

    def build(values: Values, inner: Value) -> Value:
        read = values.random.choice(ways)

        def changes(p: str) -> list[Change]:
            own = [
                Change("entry set", f"{p}[-1] = {inner.make()}"),
                Change("entry appended", f"{p}.append({inner.make()})"),
                Change("entry inserted", f"{p}.insert(0, {inner.make()})"),
                Change("entry taken away", f"{p}.pop()"),
                Change("order of entries", f"{p}.reverse()"),
            ]
            return [*(own if "(0, {})" not in make else []), *inner.changes(f"{p}[-1]")]

        return Value(
            inner.kinds,
            lambda: make.replace("{}", inner.make()),
            lambda p: inner.read(read.replace("{p}", p)),
            changes,
        )

    return build


def _function(values: Values, inner: Value) -> Value:
    """What a function has in a cell, a default or an attribute."""
    maker = values.fresh("make_function")
    where = values.random.choice(("cell", "default", "keyword default", "attribute"))
    text = {
        "cell": f"def {maker}(v):\n    def get():\n        return v\n    return get\n",
        "default": f"def {maker}(v):\n    def get(v=v):\n        return v\n    return get\n",
        "keyword default": f"def {maker}(v):\n    def get(*, v=v):\n        return v\n    return get\n",
        "attribute": f"def {maker}(v):\n    def get():\n        return get.v\n    get.v = v\n    return get\n",
    }
    values.define(text[where])
    path = {
        "cell": "{p}.__closure__[0].cell_contents",
        "default": "{p}.__defaults__[0]",
        "keyword default": "{p}.__kwdefaults__['v']",
        "attribute": "{p}.v",
    }[where]

    def changes(p: str) -> list[Change]:
        there = path.replace("{p}", p)
        own = f"{p}.__defaults__ = ({inner.make()},)" if where == "default" else f"{there} = {inner.make()}"
        changes = [Change(f"{where} of a function", own), *inner.changes(there)]
        if where in ("default", "keyword default"):
            other = f"{maker}({inner.make()})"
            changes.append(Change("defaults of a function", f"{p}.__kwdefaults__ = {other}.__kwdefaults__"))
        return changes

    return Value(inner.kinds, lambda: f"{maker}({inner.make()})", lambda p: inner.read(f"{p}()"), changes)


def _partial(values: Values, inner: Value) -> Value:
    def changes(p: str) -> list[Change]:
        return [
            Change("argument of a partial", f"{p}.keywords['v'] = {inner.make()}"),
            *inner.changes(f"{p}.keywords['v']"),
        ]

    return Value(inner.kinds, lambda: f"partial(last, v={inner.make()})", lambda p: inner.read(f"{p}()"), changes)


def _wrapped(make: str, read: str, path: str, own: str, kind: str) -> Callable[[Values, Value], Value]:
    """A container of one value, with its own way to read and to replace it."""

    def build(values: Values, inner: Value) -> Value:
        def changes(p: str) -> list[Change]:
            statement = own.replace("{p}", p).replace("{}", inner.make())
            return [*([Change(kind, statement)] if own else []), *inner.changes(path.replace("{p}", p))]

        return Value(
            inner.kinds,
            lambda: make.replace("{}", inner.make()),
            lambda p: inner.read(read.replace("{p}", p)),
            changes,
        )

    return build


def _metaclass(values: Values, inner: Value) -> Value:
    meta, owner = values.fresh("Meta"), values.fresh("Class")
    values.define(f"class {meta}(type):\n    v = {inner.make()}\n\nclass {owner}(metaclass={meta}):\n    pass\n")

    def changes(p: str) -> list[Change]:
        return [
            Change("attribute of a metaclass", f"{meta}.v = {inner.make()}"),
            Change("attribute of a class", f"{owner}.v = {inner.make()}"),
            *inner.changes(f"{p}.v"),
        ]

    return Value(inner.kinds, lambda: owner, lambda p: inner.read(f"{p}.v"), changes)


def _class_method(values: Values, inner: Value) -> Value:
    base, owner = values.fresh("Base"), values.fresh("Class")
    which = values.random.choice(("classmethod", "staticmethod"))
    self = "cls" if which == "classmethod" else ""
    values.define(
        f"class {base}:\n    kept = {inner.make()}\n\nclass {owner}({base}):\n    @{which}\n    def get({self}):\n"
        f"        return {self or owner}.kept\n"
    )

    def changes(p: str) -> list[Change]:
        return [
            Change("class attribute set", f"{base}.kept = {inner.make()}"),
            Change("attribute of a subclass", f"{owner}.kept = {inner.make()}"),
            Change("class method replaced", f"{owner}.get = staticmethod(lambda: {inner.make()})"),
            *inner.changes(f"{p}.kept"),
        ]

    return Value(inner.kinds, lambda: f"{owner}()", lambda p: inner.read(f"{p}.get()"), changes)


HOLDERS: dict[str, Holder] = {
    "attribute": _instance,
    "class attribute": _class_attribute,
    "super": _super,
    "method": _method,
    "slot": _slot,
    "property": _property,
    "cached property": _cached_property,
    "descriptor": _descriptor,
    "__getattr__": _getattr_hook,
    "dataclass": _dataclass,
    "named tuple": _named_tuple,
    "namespace": _namespace("SimpleNamespace(v={})"),
    "module": _namespace("module_of({})"),
    "thread's own": _namespace("local_of({})"),
    "dict": _mapping("{'v': {}}"),
    "ordered dict": _mapping("OrderedDict(v={})"),
    "default dict": _mapping("defaultdict(int, v={})"),
    "user's dict": _mapping("UserDict(v={})"),
    "chain of maps": _mapping("ChainMap({'v': {}})"),
    "subclass of dict": _mapping("Settings(v={})"),
    "list": _sequence("[0, {}]"),
    "tuple": _sequence("(0, {})"),
    "deque": _sequence("deque([0, {}])"),
    "user's list": _sequence("UserList([0, {}])"),
    "subclass of list": _sequence("Row([0, {}])"),
    "function": _function,
    "partial": _partial,
    "weak reference": _wrapped(
        "weak_of(Box({}))", "{p}().v", "{p}().v", "{p}().v = {}", "attribute behind a weak reference"
    ),
    "context variable": _wrapped("context_of({})", "{p}.get()", "{p}.get()", "{p}.set({})", "context variable set"),
    "proxy of a dict": _wrapped("MappingProxyType({'v': {}})", "{p}['v']", "{p}['v']", "", ""),
    "iterated object": _wrapped("Iterated({})", "[*{p}][0]", "{p}.v", "{p}.v = {}", "what is iterated over"),
    "context manager": _wrapped("Entered({})", "entered({p})", "{p}.v", "{p}.v = {}", "what is entered"),
    "generator function": _wrapped(
        "Yielding({})", "next({p}.each())", "{p}.v", "{p}.v = {}", "what is yielded"
    ),
    "metaclass": _metaclass,
    "class method": _class_method,
    "weak dict": _wrapped(
        "weak_dict_of(Box({}))", "{p}['v'].v", "{p}['v'].v", "{p}['v'].v = {}", "attribute in a weak dict"
    ),
}  # fmt: skip

MORE_HELPERS = """
class Box:
    def __init__(self, v):
        self.v = v

class Settings(dict):
    pass

class Row(list):
    pass

class Iterated:
    def __init__(self, v):
        self.v = v

    def __iter__(self):
        yield self.v

class Yielding:
    def __init__(self, v):
        self.v = v

    def each(self):
        yield self.v

class Entered:
    def __init__(self, v):
        self.v = v

    def __enter__(self):
        return self.v

    def __exit__(self, *error):
        return False

def entered(manager):
    with manager as v:
        return v

def last(*entries, v=None):
    return entries[-1] if entries else v

def module_of(v):
    module = ModuleType('settings')
    module.v = v
    return module

def local_of(v):
    kept = threading.local()
    kept.v = v
    return kept

KEPT = []

def weak_of(box):
    KEPT.append(box)
    return weakref.ref(box)

def weak_dict_of(box):
    KEPT.append(box)
    kept = weakref.WeakValueDictionary()
    kept['v'] = box
    return kept

def context_of(v):
    kept = ContextVar('kept')
    kept.set(v)
    return kept
"""
