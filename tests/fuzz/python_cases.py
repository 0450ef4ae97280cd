"""Cases of random Python: a module with a step over tensors, and a history of calls with changes between them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.python_holders import HOLDERS, MORE_HELPERS
from tests.fuzz.python_parts import CHANCE, CHANCE_SETUP, PARTS, SEEDING, TRAINING, Part
from tests.fuzz.python_values import HELPERS, LEAVES, Change, Value, Values

HEADER = """
import builtins, copy, math, operator, os, random, secrets, sys, tempfile, threading, time, uuid, warnings, weakref
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache, partial, wraps
from itertools import count
from operator import attrgetter, itemgetter
from random import Random, randrange
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import numpy.random as numpy_random

import workbench as wb

def with_forward(layer, owner, forward):
    owner.forward = forward
"""

STEPS = ("function", "closure", "method", "decorated method", "layer", "callable", "static method", "partial")
ROOTS = ("global", "global of a function", "cell", "default", "attribute", "argument", "keyword argument", "class")
USES = (
    "y = y * {n}",
    "y = y + {n}",
    "y = y * float({n})",
    "y = wb.scale(y, {n})",
    "if {n} > 4:\n    y = y * 1.5",
    "y = y * 2 if {n} % 2 else y",
    "for _ in range(int({n}) % 4):\n    y = y + 1",
    "y = (lambda factor: y * factor)({n})",
    "y = sum(y * each for each in [{n}, 1])",
    "if (factor := {n}) != 3:\n    y = y - factor",
    "y = y * {{'a': {n}}}['a']",
    "y = y + wb.full([4], {n})",
    "y = wb.concat([y] * (1 + int({n}) % 3)).sum(axis=0)",
    "try:\n    y = y * {n}\nfinally:\n    y = y + 1",
    "y = y * wb.to_tensor(float({n}))",
    "y = y * np.float32({n})",
    "y = y.reshape([-1])[int({n}) % 3 :].sum()",
)
_COPIES = (Change("copy", "trainer = copy.copy(trainer)"), Change("deep copy", "trainer = copy.deepcopy(trainer)"))


@dataclass(frozen=True)
class Event:
    """What happens in a history: a call of the step, or a statement that is run between calls.

    Attributes:
        kind: "call", or the kind of a change.
        code: an expression or a statement.
    """

    kind: str
    code: str


@dataclass(frozen=True)
class Case:
    """A module, a step in it and what happens to it.

    Attributes:
        definitions, setup: of the module. lines: of the step. shape: which kind of function the step is.
        roots: (kind, name, expression) of what the lines read.
        events: the history. kinds: everything in it that `--kinds` may name.
        varies: the step gives something else in every call of dynamic mode.
        state: expressions of the tensors that it changes.
    """

    definitions: tuple[str, ...]
    setup: tuple[str, ...]
    lines: tuple[str, ...]
    shape: str
    roots: tuple[tuple[str, str, str], ...]
    ending: str
    events: tuple[Event, ...]
    kinds: tuple[str, ...]
    varies: bool = False
    state: tuple[str, ...] = ("W",)

    def smaller(self) -> list[Case]:
        """Cases with one thing less: half of the events or one of them, one line."""
        less = [replace(self, events=self.events[:-1])] if len(self.events) > 1 else []
        less += [replace(self, events=self.events[:i] + self.events[i + 1 :]) for i in range(len(self.events))]
        less += [replace(self, lines=self.lines[:i] + self.lines[i + 1 :]) for i in range(len(self.lines))]
        return [case for case in less if case.events]

    def source(self, capture: str) -> str:
        """The module; `capture` is a line that makes the decorator of that name."""
        return "\n\n".join([HEADER, HELPERS, MORE_HELPERS, self.own_source(capture)])

    def own_source(self, capture: str) -> str:
        """What of it is not the same in all modules."""
        roots = {kind: [(name, make) for k, name, make in self.roots if k == kind] for kind in ROOTS}
        parts = [capture, *self.definitions, *self.setup]
        parts += [f"{name} = {make}" for kind in ROOTS for name, make in roots[kind]]
        parts += [f"def get_{name}():\n    return {name}" for name, _ in roots["global of a function"]]
        return "\n\n".join([*parts, _STEPS[self.shape](_Parts(self, roots))])


class _Parts:
    """What the definition of a step is put together from."""

    def __init__(self, case: Case, roots: dict[str, list[tuple[str, str]]]) -> None:
        self.roots = roots
        defaults = [f"{name}_in={name}" for name, _ in roots["default"]]
        passed = [f"{name}_in" for kind in ("argument", "keyword argument") for name, _ in roots[kind]]
        self.parameters = ", ".join(["x", "z", *passed, *defaults])
        self.body = "\n".join(["y = x * 1.5", *case.lines, case.ending])
        self.attributes = [name for name, _ in roots["attribute"]]
        self.members = [name for name, _ in roots["class"]]
        self.cells = [name for name, _ in roots["cell"]]

    def function(self, name: str, first: str = "", decorator: str = "", cells: bool = True) -> str:
        parameters = ", ".join(filter(None, [first, self.parameters]))
        bound = "\n".join(f"{each}_in = {each}_cell" for each in self.cells) if cells else ""
        body = "\n".join(filter(None, [bound, self.body]))
        return f"{decorator}def {name}({parameters}):\n{textwrap.indent(body, '    ')}\n"

    def closed(self, text: str, result: str) -> str:
        """A text in a function, of whose variables it is to read."""
        names = self.cells
        inside = "\n".join([f"{each}_cell = {each}" for each in names] + [text])
        for each in names:
            inside += f"\n\ndef set_{each}(value):\n    nonlocal {each}_cell\n    {each}_cell = value\n"
            inside += f"\nSETTERS['{each}'] = set_{each}\n"
        return f"SETTERS = {{}}\n\ndef make_step():\n{textwrap.indent(inside + chr(10) + 'return ' + result, '    ')}\n"

    @property
    def self_lines(self) -> str:
        return "\n".join(["pass", *(f"self.{each} = {each}" for each in self.attributes)])

    @property
    def class_lines(self) -> str:
        return "\n".join(["pass", *(f"{each} = {each}" for each in self.members)])

    def owner(self, base: str, method: str) -> str:
        start = "super().__init__()\n" if base else ""
        lines = [
            f"class Trainer{base}:",
            textwrap.indent(self.class_lines, "    "),
            "    def __init__(self):",
            textwrap.indent(start + self.self_lines, "        "),
            textwrap.indent(method, "    "),
        ]
        return "\n".join(lines)


def _of_function(parts: _Parts) -> str:
    text = parts.function("plain_step")
    return parts.closed(text, "plain_step") + "\nplain_step = make_step()\nstep = capture(plain_step)\n"


def _of_method(parts: _Parts) -> str:
    text = parts.owner("", parts.function("plain_step", "self"))
    return (
        parts.closed(text, "Trainer")
        + "\nTrainer = make_step()\ntrainer = Trainer()\nplain_step = Trainer.plain_step\n"
        "step = capture(trainer.plain_step)\n"
    )


def _of_decorated(parts: _Parts) -> str:
    text = parts.owner("", parts.function("step", "self", "@capture\n"))
    return parts.closed(text, "Trainer") + (
        "\nTrainer = make_step()\ntrainer = Trainer()\nplain_step = getattr(vars(Trainer)['step'], '__wrapped__', "
        "vars(Trainer)['step'])\n\ndef step(*args, **named):\n    return trainer.step(*args, **named)\n"
    )


def _of_layer(parts: _Parts) -> str:
    text = parts.owner("(wb.nn.Layer)", parts.function("forward", "self"))
    return parts.closed(text, "Trainer") + (
        "\nTrainer = make_step()\ntrainer = Trainer()\nplain_step = Trainer.forward\nstep = capture(trainer)\n"
    )


def _of_callable(parts: _Parts) -> str:
    text = parts.owner("", parts.function("__call__", "self"))
    return parts.closed(text, "Trainer") + (
        "\nTrainer = make_step()\ntrainer = Trainer()\nplain_step = Trainer.__call__\nstep = capture(trainer)\n"
    )


def _of_static(parts: _Parts) -> str:
    text = parts.owner("", parts.function("plain_step", "", "@staticmethod\n"))
    return parts.closed(text, "Trainer") + (
        "\nTrainer = make_step()\ntrainer = Trainer()\nplain_step = Trainer.plain_step\n"
        "step = capture(Trainer.plain_step)\n"
    )


def _of_partial(parts: _Parts) -> str:
    text = parts.function("plain_step", "ignored")
    return parts.closed(text, "plain_step") + (
        "\nplain_step = make_step()\nstep = capture(partial(plain_step, 'ignored'))\n"
    )


_STEPS = {
    "function": _of_function,
    "closure": _of_function,
    "method": _of_method,
    "decorated method": _of_decorated,
    "layer": _of_layer,
    "callable": _of_callable,
    "static method": _of_static,
    "partial": _of_partial,
}
_WITH_SELF = ("method", "decorated method", "layer", "callable")


class _Builder:
    """Makes one case."""

    def __init__(self, random: Random, left_out: Collection[str]) -> None:
        self.random, self.left_out = random, left_out
        self.values = Values(random, self.allows, HOLDERS)
        self.definitions: list[str] = []
        self.lines: list[str] = []
        self.setup = [
            "W = wb.create_parameter([4], 'float32', default_initializer=wb.nn.initializer.Constant(1.0))",
            "W2 = wb.create_parameter([4], 'float32', default_initializer=wb.nn.initializer.Constant(2.0))",
        ]
        self.roots: list[tuple[str, str, str]] = []
        self.changes: list[Change] = []
        self.kinds: list[str] = []
        self.passed: list[tuple[str, str]] = []
        self.state = ["W"]
        self.shape = self.random.choice([shape for shape in STEPS if self.allows(f"step: {shape}")])

    def allows(self, kind: str) -> bool:
        return kind not in self.left_out

    def number(self, text: str) -> str:
        while "{n}" in text:
            text = text.replace("{n}", self.values.number(), 1)
        return text

    # What a step reads

    def add_root(self) -> None:
        """Something the step reads, at the end of a path."""
        value = self.values.value(self.random.choice((0, 1, 1, 2, 2, 3)))
        kinds = [kind for kind in ROOTS if self.allows(f"root: {kind}")]
        if self.shape not in _WITH_SELF:
            kinds = [kind for kind in kinds if kind not in ("attribute", "class")]
        kind = self.random.choice(kinds)
        name = f"r{len(self.roots) + 1}"
        inside, change = self._places(kind, name)
        self.roots.append((kind, name, value.make()))
        if kind in ("argument", "keyword argument"):
            self.passed.append((kind, name))
        self.kinds += [f"root: {kind}", *value.kinds]
        self.lines.append(self._use(value, value.read(inside)))
        if kind != "class" or self.shape != "static method":
            self.changes.append(Change(f"{kind} set", change.replace("{}", value.make())))
        self.changes += value.changes(name if kind not in ("attribute", "class") else f"trainer.{name}")
        if kind in ("attribute", "class"):
            self.changes.append(Change("attribute over a class's", f"trainer.{name} = {value.make()}"))

    def _places(self, kind: str, name: str) -> tuple[str, str]:
        """How the step reads a root, and how the root is replaced from outside."""
        defaults = [each for k, each, _ in self.roots if k == "default"]
        at = len(defaults)
        return {
            "global": (name, f"{name} = {{}}"),
            "global of a function": (f"get_{name}()", f"{name} = {{}}"),
            "cell": (f"{name}_in", f"{name} = {{}}; SETTERS['{name}']({name})"),
            "default": (
                f"{name}_in",
                f"{name} = {{}}; plain_step.__defaults__ = (*plain_step.__defaults__[:{at}], {name}, "
                f"*plain_step.__defaults__[{at + 1}:])",
            ),
            "attribute": (f"self.{name}", f"trainer.{name} = {{}}"),
            "argument": (f"{name}_in", f"{name} = {{}}"),
            "keyword argument": (f"{name}_in", f"{name} = {{}}"),
            "class": (f"self.{name}", f"Trainer.{name} = {{}}"),
        }[kind]

    def _use(self, value: Value, number: str) -> str:
        uses = USES
        if "a tensor" in value.kinds:
            uses = ("y = y * {n}", "y = y + {n}", "y = (lambda factor: y * factor)({n})", "y = y / {n} + {n}")
        return self.random.choice(uses).format(n=number)

    def add_part(self, kind: str, part: Part) -> None:
        if part.setup:
            self.setup.append(self.number(part.setup))
        self.lines.append(self.number(part.line))
        self.changes += [Change(k, code) for k, code in part.changes]
        self.state += part.state
        self.kinds.append(kind)

    # What happens

    def history(self) -> list[Event]:
        events = [self._call(), self._call()]
        for _ in range(self.random.choice((1, 2, 2, 3, 4))):
            for _ in range(self.random.choice((1, 1, 1, 2))):
                events += self._change()
            events += [self._call() for _ in range(self.random.choice((1, 2, 2, 3)))]
        return events

    def _change(self) -> list[Event]:
        allowed = [change for change in self.changes if self.allows(change.kind)]
        if self.shape in _WITH_SELF:
            allowed += [change for change in _COPIES if self.allows(change.kind)]
        if not allowed:
            return []
        change = self.random.choice(allowed)
        self.kinds.append(change.kind)
        return [Event(change.kind, self.number(change.statement))]

    def _call(self) -> Event:
        random = self.random
        arguments = [random.choice(("X1", "X1", "X1", "X2")), "X1" if random.random() < 0.2 else "Z"]
        arguments += [name for kind, name in self.passed if kind == "argument"]
        arguments += [f"{name}_in={name}" for kind, name in self.passed if kind == "keyword argument"]
        return Event("call", f"step({', '.join(arguments)})")

    def case(self, ending: str, varies: bool = False) -> Case:
        self.kinds.append(f"step: {self.shape}")
        self.setup += [
            "X1 = wb.to_tensor(np.arange(8, dtype='float32').reshape(2, 4) / 4)",
            "X2 = wb.to_tensor(np.arange(8, 16, dtype='float32').reshape(2, 4) / 4)",
            "Z = wb.to_tensor(np.ones((2, 4), 'float32'))",
        ]
        events = self.history() if not varies else [Event("call", "step(X1, Z)")] * 6
        self.kinds += self.values.accesses
        return Case(
            tuple(self.values.definitions), tuple(self.setup), tuple(self.lines), self.shape, tuple(self.roots),
            ending, tuple(events), tuple(dict.fromkeys(self.kinds)), varies, tuple(self.state),
        )  # fmt: skip


def random_case(seed: int, index: int, left_out: Collection[str]) -> Case:
    """A case, by the seed of all and its own number; without the kinds that are left out."""
    random = Random(f"captures/{seed}/{index}")
    builder = _Builder(random, left_out)
    chances = [kind for kind in CHANCE if kind not in left_out]
    if chances and random.random() < 0.06:
        return _varying(builder, random.choice(chances))
    for _ in range(random.choice((1, 1, 2, 2, 3))):
        builder.add_root()
    parts = [kind for kind in PARTS if kind not in left_out]
    for kind in random.sample(parts, random.choice((0, 0, 1, 1, 2))):
        builder.add_part(kind, PARTS[kind])
    random.shuffle(builder.lines)
    kind = random.choice([kind for kind in TRAINING if kind not in left_out])
    training = TRAINING[kind]
    builder.add_part(kind, training)
    builder.lines.pop()
    if builder.state.count("W") and random.random() < 0.1:
        builder.changes += [Change(name, code) for name, code in SEEDING.items()]
    return builder.case(training.line)


def _varying(builder: _Builder, kind: str) -> Case:
    """A step that uses something of which nobody knows what it is at the next look."""
    builder.kinds.append(kind)
    builder.setup.append(CHANCE_SETUP)
    builder.lines = [f"y = y + float({CHANCE[kind]})"]
    return builder.case("return y", varies=True)


def all_kinds() -> list[str]:
    """Everything `left_out` may name but changes."""
    return [
        *LEAVES,
        *HOLDERS,
        *PARTS,
        *TRAINING,
        *CHANCE,
        *(f"step: {s}" for s in STEPS),
        *(f"root: {r}" for r in ROOTS),
    ]
