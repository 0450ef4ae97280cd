"""Objects that carry a user's choices: typed fields that remember whether they were set, and freeze.

A class lists its fields as `Option`s; `Options` gives it everything else. An option is one of four kinds: it changes
the graph or the plan made of it ("graph"), it changes how steps are run ("step"), it has no effect here, which is told
once ("notice"), or nothing here does it, which is refused ("error").
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, overload

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, did_you_mean
from workbench.framework.notice import tell

T = TypeVar("T")
Kind = Literal["graph", "step", "notice", "error"]


@dataclass(frozen=True)
class Effect:
    """What setting an option to something else than its default does.

    Attributes:
        kind: "graph", "step", "notice" or "error".
        reason: what it changes, why it has no effect, or what to do instead.
    """

    kind: Kind
    reason: str


class UnknownOption(NotFound, AttributeError):
    """An option that does not exist was read or set."""


@dataclass(frozen=True)
class Rule(Generic[T]):
    """What a field takes.

    Attributes:
        expected: in words.
        convert: from what was given to what is kept; raises TypeError for another kind of object and ValueError for
            one that is out of range.
    """

    expected: str
    convert: Callable[[Any], T]


def switch() -> Rule[bool]:
    """True or False; numbers are refused."""

    def convert(value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise TypeError
        return bool(value)

    return Rule("True or False", convert)


def whole(least: int) -> Rule[int]:
    """A whole number that is at least `least`."""

    def convert(value: Any) -> int:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise TypeError
        if value < least:
            raise ValueError
        return int(value)

    return Rule(f"a whole number >= {least}", convert)


def seconds() -> Rule[float]:
    """A positive, finite number."""

    def convert(value: Any) -> float:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError
        number = float(value)
        if not (number > 0 and math.isfinite(number)):
            raise ValueError
        return number

    return Rule("a positive number of seconds", convert)


def text() -> Rule[str]:
    """A str, or a path."""

    def convert(value: Any) -> str:
        if not isinstance(value, str | os.PathLike):
            raise TypeError
        return str(value)

    return Rule("a str or a path", convert)


def word(*known: str) -> Rule[str]:
    """One of a few words."""

    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError
        if value not in known:
            raise ValueError
        return value

    return Rule(" or ".join(repr(w) for w in known), convert)


E = TypeVar("E", bound=Enum)


def member(kind: type[E]) -> Rule[E]:
    """A member of an enum."""

    def convert(value: Any) -> E:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return Rule(f"{kind.__name__}.{' or .'.join(m.name for m in kind)}", convert)


def texts(collect: Callable[[Iterable[str]], T], what: str) -> Rule[T]:
    """Several strings, kept as something that cannot be changed in place."""

    def convert(value: Any) -> T:
        if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(v, str) for v in value):
            raise TypeError
        return collect(value)

    return Rule(what, convert)


def optional(rule: Rule[T]) -> Rule[T | None]:
    """Also None, which means that the field is as if it had never been set."""
    return Rule(f"{rule.expected}, or None", lambda value: None if value is None else rule.convert(value))


class Option(Generic[T]):
    """A field of an `Options` class.

    Args:
        default: its value until it is set.
        rule: what it takes.
        kind, reason: its `Effect`.
        exempt: it may be set after the object is frozen, without any effect on what is compiled.
    """

    name = ""

    def __init__(self, default: T, rule: Rule[T], kind: Kind, reason: str, exempt: bool = False) -> None:
        self.default, self.rule, self.effect, self.exempt = default, rule, Effect(kind, reason), exempt

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        late = "\n\nMay be set after the first compile, without effect on what is compiled." if self.exempt else ""
        self.__doc__ = f"{self.rule.expected}; default {show(self.default)}. {self.effect.reason}.{late}"

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Options, owner: type) -> T: ...
    def __get__(self, instance: Options | None, owner: type) -> Self | T:
        return self if instance is None else self.default  # a set value lies in the instance and goes before

    def take(self, owner: str, value: Any) -> T:
        """What is kept of a value.

        Raises:
            InvalidType: the wrong kind of object. InvalidArgument: out of range.
        """
        try:
            return self.rule.convert(value)
        except TypeError:
            raise InvalidType(self._refused(owner, value)) from None
        except ValueError:
            raise InvalidArgument(self._refused(owner, value)) from None

    def _refused(self, owner: str, value: Any) -> str:
        return f"{owner}.{self.name}\n  expected: {self.rule.expected}\n  got:      {show(value)}"


class Options:
    """A set of choices, each a typed field; see the class attributes for all of them.

    A step reads several of them, so that values are plain attributes of the object.
    """

    __slots__ = ("__dict__", "_frozen", "_given", "_told")

    OPTIONS: ClassVar[dict[str, Option[Any]]] = {}
    DEFAULTS: ClassVar[dict[str, Any]] = {}

    _frozen: bool
    _given: dict[str, Any]
    _told: set[str]

    def __init_subclass__(cls) -> None:
        members = [pair for base in reversed(cls.__mro__) for pair in vars(base).items()]
        cls.OPTIONS = {name: value for name, value in members if isinstance(value, Option)}
        cls.DEFAULTS = {name: option.default for name, option in cls.OPTIONS.items()}

    def __init__(self) -> None:
        self._frozen, self._given, self._told = False, {}, set()
        self.__dict__.update(self.DEFAULTS)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.OPTIONS:
            self._set(self.OPTIONS[name], value)
        elif hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            raise self._unknown(name)

    def _set(self, option: Option[Any], value: Any) -> None:
        if self._frozen and not option.exempt:
            raise self._refusal(option.name)
        kept = option.take(type(self).__name__, value)
        if kept is not None:
            self._give({option.name: kept})
        else:
            self._given.pop(option.name, None)
            self.__dict__[option.name] = option.default

    def _give(self, values: dict[str, Any]) -> None:
        """Values that have been checked."""
        self._given.update(values)
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise self._unknown(name)

    @property
    def frozen(self) -> bool:
        """Whether something was compiled with it, after which most fields stay as they are."""
        return self._frozen

    @classmethod
    def _unknown(cls, name: str) -> UnknownOption:
        return UnknownOption(f"{cls.__name__} has no field {name!r}.{did_you_mean(name, cls.OPTIONS)}")

    @classmethod
    def effect(cls, field: str) -> Effect:
        """What setting a field to something else than its default does here.

        Raises:
            NotFound: there is no such field.
        """
        if field not in cls.OPTIONS:
            raise cls._unknown(field)
        return cls.OPTIONS[field].effect

    def is_set(self, field: str) -> bool:
        """Whether the user has set a field, be it to its default."""
        if field not in self.OPTIONS:
            raise self._unknown(field)
        return field in self._given

    def changed(self, kind: Kind) -> list[str]:
        """The fields of a kind that differ from their defaults."""
        given = self._given.items()
        return [n for n, value in given if self.effect(n).kind == kind and value != self.OPTIONS[n].default]

    def idle(self) -> dict[str, str]:
        """The fields that were set and have no effect, with the reason."""
        return {name: self.effect(name).reason for name in self.changed("notice")}

    def tell_idle(self) -> None:
        """A `Notice` for every field of `idle()`, once for each object."""
        for name, reason in self.idle().items():
            if name not in self._told:
                self._told.add(name)
                tell(f"{type(self).__name__}.{name} = {show(getattr(self, name))} has no effect: {reason}")

    def __copy__(self) -> Self:
        """Another object with the same settings, not frozen."""
        copied = type(self)()
        copied._give(self._given)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def _refusal(self, what: str) -> PreconditionNotMet:
        kind = type(self).__name__
        return PreconditionNotMet(
            f"{kind}.{what} cannot be changed any more: an executor was compiled with this {kind}. "
            "copy.copy() of it can be changed and given to another executor"
        )

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={show(value)}" for name, value in self._given.items())
        return f"{type(self).__name__}({inner})"


def show(value: Any) -> str:
    """A value in a message."""
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)
