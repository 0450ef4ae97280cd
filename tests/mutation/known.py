"""Faults by name: those that guard what users rely on, and those no test can tell from the right code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """A fault that has to be noticed.

    Attributes:
        name: what it does. area: whose tests are asked.
        function: the last part of the qualified name. before: the code, however it is written.
        after: what stands there instead.
    """

    name: str
    area: str
    function: str
    before: str
    after: str = "pass"


@dataclass(frozen=True)
class Equivalent:
    """A fault of the rules that changes nothing anybody can rely on.

    Attributes:
        function: its qualified name. before, after: in the form `ast.unparse` gives.
        reason: why nothing changes.
    """

    function: str
    before: str
    after: str
    reason: str


NAMED: tuple[Named, ...] = ()

EQUIVALENT: tuple[Equivalent, ...] = ()
