"""What classes have from their own classes: whatever of it changes, the next call does what Python does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from workbench.framework.notice import Notice


class Twice:
    """A descriptor, which gives another number object at every look."""

    def __get__(self, owner: Any, kind: type) -> float:
        return owner._q * 2.0 if owner is not None else 0.0


class TwiceAndSet(Twice):
    """A descriptor that goes before what the class itself has under its name."""

    def __set__(self, owner: Any, value: float) -> None:
        raise AttributeError


class Meta(type):
    shared = 2.0
    described = Twice()
    described_first = TwiceAndSet()

    @property
    def q(cls) -> Any:
        return cls._q  # type: ignore[attr-defined]

    @property
    def doubled(cls) -> float:
        return float(cls._q * 2.0)  # type: ignore[attr-defined]

    @property
    def far(cls) -> float:
        return cls.doubled + cls.get()

    def get(cls) -> float:
        return float(cls._q * 2.0)  # type: ignore[attr-defined]

    def __getitem__(cls, key: int) -> float:
        return float(cls._q * key)  # type: ignore[attr-defined]

    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*args) if args else cls._q * 2.0  # type: ignore[attr-defined]

    @classmethod
    def of_all(cls) -> float:
        return cls.shared * 2.0

    @staticmethod
    def lone() -> float:
        return 2.0


class DerivedMeta(Meta):
    @property
    def doubled(cls) -> float:
        return super().doubled

    def get(cls) -> float:
        return super().get()


class Hooked(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("by_"):
            return cls._q * 2.0
        raise LookupError(name)


class Watched(type):
    def __getattribute__(cls, name: str) -> Any:
        content = super().__getattribute__(name)
        return content * super().__getattribute__("_q") if name == "scaled" else content


Kind = type[Any]
World = tuple[Callable[[Any], Any], Callable[[], Any]]  # a function, and what changes what it comes to


def own_class(meta: type = Meta, **members: Any) -> Any:
    """A class of a test's own, whose `_q` comes from its base."""
    base = meta("Base", (), {"_q": 2.0, "__init__": lambda self, *given: None, **members})
    return meta("Own", (base,), {})


def world(
    read: Callable[[Any, Any], Any], meta: type = Meta, change: Callable[[Any], Any] | None = None, **members: Any
) -> Callable[[], World]:
    def begin() -> World:
        kind = own_class(type(meta)("OwnMeta", (meta,), {}), **members)
        return lambda x: read(kind, x), lambda: (change or (lambda kind: setattr(kind, "_q", 3.0)))(kind)

    return begin


def by_instance(read: Callable[[Any, Any], Any], **members: Any) -> Callable[[], World]:
    def begin() -> World:
        subject = own_class(**members)(1)
        subject._q = 5.0  # its own, which its class does not look at
        return lambda x: read(subject, x), lambda: setattr(type(subject), "_q", 3.0)

    return begin


def set_meta(name: str, value: Any) -> Callable[[Any], None]:
    return lambda kind: setattr(type(kind), name, value)


def kept(subject: Any, x: Any) -> Any:
    kind = type(subject)
    return x * kind.doubled


def asked(kind: Any) -> Any:
    return kind._q * 2.0


WORLDS: dict[str, Callable[[], World]] = {
    "property": world(lambda c, x: x * c.q),
    "property that computes": world(lambda c, x: x * c.doubled),
    "property that reads others": world(lambda c, x: x * c.far),
    "super in a property": world(lambda c, x: x * c.doubled, DerivedMeta),
    "method": world(lambda c, x: x * c.get()),
    "super in a method": world(lambda c, x: x * c.get(), DerivedMeta),
    "entry": world(lambda c, x: x * c[2]),
    "call": world(lambda c, x: x * c()),
    "descriptor": world(lambda c, x: x * c.described),
    "descriptor that goes first": world(lambda c, x: x * c.described_first, described_first=1.0),
    "hook": world(lambda c, x: x * c.by_hook, Hooked),
    "hook, by getattr": world(lambda c, x: x * getattr(c, "by_hook", 0.0), Hooked),
    "hook in front of all": world(lambda c, x: x * c.scaled, Watched, scaled=2.0),
    "constant": world(lambda c, x: x * c.shared, change=set_meta("shared", 3.0)),
    "constant, from the class": world(lambda c, x: x * c.shared, change=lambda c: setattr(c, "shared", 3.0)),
    "class method": world(lambda c, x: x * c.of_all(), change=set_meta("shared", 3.0)),
    "static method": world(lambda c, x: x * c.lone(), change=set_meta("lone", staticmethod(lambda: 3.0))),
    "another property": world(lambda c, x: x * c.doubled, change=set_meta("doubled", property(lambda c: c._q * 3.0))),
    "property that comes": world(
        lambda c, x: x * c.own, change=set_meta("own", property(lambda c: 3.0)), own=2.0
    ),
    "method of the class": world(lambda c, x: x * c.get(), change=lambda c: setattr(c, "get", lambda: 6.0)),
    "another class of the class": world(
        lambda c, x: x * c.doubled,
        change=lambda c: setattr(c, "__class__", type("Other", (Meta,), {"doubled": property(lambda c: 6.0)})),
    ),
    "class method of the class": world(lambda c, x: x * c.asked(), asked=classmethod(asked)),
    "class method of a plain class": lambda: plain(lambda c, x: x * c.asked()),
    "class method of a plain object": lambda: plain(lambda c, x: x * c().asked()),
    "type()": by_instance(lambda s, x: x * type(s).doubled),
    "type(), kept": by_instance(kept),
    "type(), in a method": by_instance(lambda s, x: s.run(x), run=lambda self, x: x * type(self).doubled),
    "type(), without a property": by_instance(lambda s, x: x * type(s)._q),
    "__class__": by_instance(lambda s, x: x * s.__class__.doubled),
    "__class__, without a property": by_instance(lambda s, x: x * s.__class__._q),
    "handed on": world(lambda c, x: x * asked_of(c)),
}  # fmt: skip


def asked_of(kind: Any) -> Any:
    return [kind][0].doubled


def plain(read: Callable[[Any, Any], Any]) -> World:
    kind: Any = type("Own", (type("Base", (), {"_q": 2.0, "asked": classmethod(asked)}),), {"_q": 2.0})
    return lambda x: read(kind, x), lambda: setattr(kind, "_q", 3.0)


@pytest.mark.parametrize("name", WORLDS)
def test_a_change_is_followed_at_once(name: str) -> None:
    function, change = WORLDS[name]()
    captured, x = wb.jit.capture(function), wb.ones([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        before = function(x).item()
        assert [captured(x).item() for _ in range(2)] == [before] * 2
    change()
    assert function(x).item() == 1.5 * before
    with pytest.warns(Notice, match="recorded again"):
        assert captured(x).item() == 1.5 * before  # the third call, in front of which nothing is checked
    assert captured(x).item() == 1.5 * before and captured.captures == 2
