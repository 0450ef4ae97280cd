"""A traced row program as rounds over its rows: what each of them reduces, stores and leaves for the next one.

A reduction needs a whole row before anything that reads its result can go on. So a program is a sequence of rounds:
each goes over the elements of a row once, and between two rounds the numbers that belong to whole rows are computed.
A scan, as a running sum, is there at every element as soon as those before it have been seen: what reads it at the same
element may do so in the same round, which goes the way the scan goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.framework.expr.expr import Expr, in_order
from workbench.framework.rows.recording import AT, FOLDS, PICK, SCANS, Per, kinds_of

LONG = {
    "arccos", "arcsin", "arctan", "arctan2", "cos", "cosh", "erf", "exp", "expm1", "log", "log10", "log1p", "log2",
    "power", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
"""Functions that cost more than to keep their result in the cache and read it again."""


@dataclass(frozen=True, eq=False)
class Round:
    """One go over the elements of rows.

    Attributes:
        row_outs: (number of the output, expression) of outputs with one number per row, stored before the round.
        row_values: numbers of whole rows that are computed before the round, for it and later ones.
        folds: the reductions of the round. scans: what runs along with it, each after those it reads.
        outs: (number of the output, expression) of outputs with a number per element, stored in the round.
        kept: expressions of elements that are kept for later rounds.
    """

    row_outs: tuple[tuple[int, Expr], ...]
    row_values: tuple[Expr, ...]
    folds: tuple[Expr, ...]
    outs: tuple[tuple[int, Expr], ...]
    kept: tuple[Expr, ...]
    scans: tuple[Expr, ...] = ()

    @property
    def is_over_elements(self) -> bool:
        """Whether it has to look at the elements at all."""
        return bool(self.folds or self.outs or self.scans)

    @property
    def is_reversed(self) -> bool:
        """Whether it goes over elements from the last one to the first."""
        return any(scan.value.reverse for scan in self.scans)

    @property
    def roots(self) -> list[Expr]:
        """What is computed for every element."""
        return [*(fold.args[0] for fold in self.folds), *(expr for _, expr in self.outs), *self.scans]


@dataclass(frozen=True, eq=False)
class RowRounds:
    """A traced program.

    Attributes:
        rounds: in order.
        kinds: of every part of its expressions, by id.
        labels: (label, what marks ignored ones) of every look-up by label: they have to be checked first.
    """

    rounds: tuple[Round, ...]
    kinds: dict[int, Per]
    labels: tuple[tuple[Expr, Expr], ...]

    @property
    def kept(self) -> list[Expr]:
        """All expressions of elements that are kept between rounds."""
        return [part for one in self.rounds for part in one.kept]


def rounds_of(results: Sequence[tuple[int, Expr]], inputs: tuple[Per, ...], outputs: tuple[Per, ...]) -> RowRounds:
    """Divide a program into rounds.

    Args:
        results: (number of the output, expression). inputs, outputs: the kind of every one; an expression with a number
            per row may be an output with a number per element.
    """
    parts = in_order([expr for _, expr in results])
    kinds = kinds_of([expr for _, expr in results], inputs)
    levels = _levels(parts)
    last = max((levels[id(expr)] for _, expr in results), default=0)
    full = [(n, e) for n, e in results if outputs[n] is Per.ELEMENT]
    rounds, known = [], set[int]()
    folds_at = [tuple(p for p in parts if p.function in FOLDS and levels[id(p)] == k + 1) for k in range(last + 1)]
    scans_at = [tuple(p for p in parts if p.function in SCANS and levels[id(p)] == k) for k in range(last + 1)]
    outs_at = [tuple((n, e) for n, e in full if levels[id(e)] == k) for k in range(last + 1)]
    needs = [_needed(folds_at[k], outs_at[k], scans_at[k]) for k in range(last + 1)]
    for k in range(last + 1):
        row_outs = tuple((n, e) for n, e in results if outputs[n] is not Per.ELEMENT and levels[id(e)] == k)
        values = [p for p in _row_values(needs[k], outs_at[k], kinds) if id(p) not in known]
        known.update(map(id, values))
        kept = tuple(p for p in _first_needed(needs, k) if _is_worth_keeping(p, k, needs, kinds))
        rounds.append(Round(row_outs, tuple(values), folds_at[k], outs_at[k], kept, scans_at[k]))
    labels = {id(p.args[-2]): (p.args[-2], p.args[-1]) for p in parts if p.function in (AT, PICK)}
    return RowRounds(tuple(rounds), kinds, tuple(labels.values()))


def _levels(parts: Sequence[Expr]) -> dict[int, int]:
    """In which round each part is there: behind the reductions on the way to it, all scans of a round going one way."""
    levels: dict[int, int] = {}
    ways: dict[int, bool] = {}
    for part in parts:
        level = max((levels[id(arg)] for arg in part.args), default=0)
        if part.function in SCANS:
            while ways.setdefault(level, part.value.reverse) != part.value.reverse:
                level += 1
        levels[id(part)] = level + (part.function in FOLDS)
    return levels


def _needed(folds: Sequence[Expr], outs: Sequence[tuple[int, Expr]], scans: Sequence[Expr]) -> list[Expr]:
    """What a round computes: all parts of what it reduces, stores and scans; what is of rounds before it is given."""
    roots = [fold.args[0] for fold in folds] + [expr for _, expr in outs] + list(scans)
    own = set(map(id, scans))
    parts: dict[int, Expr] = {}
    rest = roots[::-1]
    while rest:
        part = rest.pop()
        if id(part) in parts:
            continue
        parts[id(part)] = part
        if part.function not in (*FOLDS, PICK, *SCANS) or id(part) in own:
            rest += part.args
    return list(parts.values())


def _row_values(needed: Sequence[Expr], outs: Sequence[tuple[int, Expr]], kinds: dict[int, Per]) -> list[Expr]:
    """Numbers of whole rows that elements are combined with, but for those that are operands as they are."""
    met = [arg for part in needed if kinds[id(part)] is Per.ELEMENT and part.function not in FOLDS for arg in part.args]
    met += [expr for _, expr in outs]
    values = {id(arg): arg for arg in met if kinds[id(arg)] is Per.ROW and arg.function != "input"}
    return list(values.values())


def _first_needed(needs: Sequence[Sequence[Expr]], k: int) -> list[Expr]:
    earlier = {id(p) for need in needs[:k] for p in need}
    return [p for p in needs[k] if id(p) not in earlier]


def _is_worth_keeping(part: Expr, k: int, needs: Sequence[Sequence[Expr]], kinds: dict[int, Per]) -> bool:
    later = {id(p) for need in needs[k + 1 :] for p in need}
    return kinds[id(part)] is Per.ELEMENT and (part.function in LONG or part.function in SCANS) and id(part) in later
