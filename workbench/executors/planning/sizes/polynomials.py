"""Polynomials with whole coefficients: a count for every product of unknowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from workbench.executors.planning.sizes.unknowns import Term, Unknown

Polynomial = Mapping[Term, int]


def total(a: Polynomial, b: Polynomial) -> dict[Term, int]:
    """The sum of two."""
    terms = dict(a)
    for term, count in b.items():
        together = terms.get(term, 0) + count
        if together:
            terms[term] = together
        else:
            terms.pop(term, None)
    return terms


def difference(a: Polynomial, b: Polynomial) -> dict[Term, int]:
    """The first without the second."""
    terms = dict(a)
    for term, count in b.items():
        left = terms.get(term, 0) - count
        if left:
            terms[term] = left
        else:
            terms.pop(term, None)
    return terms


def product(a: Polynomial, b: Polynomial) -> dict[Term, int]:
    """The product of two."""
    terms: dict[Term, int] = {}
    for left, count_left in a.items():
        for right, count_right in b.items():
            term = tuple(sorted(left + right))
            terms[term] = terms.get(term, 0) + count_left * count_right
    return {term: count for term, count in terms.items() if count}


def divided(dividend: Polynomial, divisor: Polynomial) -> dict[Term, int] | None:
    """The quotient if the divisor is one term that goes into every one of the dividend's."""
    if len(divisor) != 1:
        return None
    ((by, count_by),) = divisor.items()
    terms: dict[Term, int] = {}
    for term, count in dividend.items():
        left = _without(term, by)
        if left is None or count % count_by:
            return None
        terms[left] = count // count_by
    return terms


def _without(term: Term, part: Term) -> Term | None:
    """A product without some of its factors; None if it does not have them."""
    left = list(term)
    for n in part:
        if n not in left:
            return None
        left.remove(n)
    return tuple(left)


def lower_bound(terms: Polynomial, unknowns: Sequence[Unknown]) -> int | None:
    """What it is never below: every term that is taken away is set against larger ones that contain it.

    Returns:
        None if none is seen.
    """
    added: dict[Term, int] = {}
    taken: list[tuple[Term, int]] = []
    low = 0
    for term, count in terms.items():
        least = 1
        for n in term:
            if unknowns[n].least < 0:
                return None
            least *= unknowns[n].least
        if count > 0 or not term:
            low += count * least
            added[term] = count
        else:
            taken.append((term, -count))
    if not taken:
        return low
    added.pop((), None)
    for term, missing in sorted(taken, key=lambda item: -len(item[0])):
        if not _set_against(added, term, missing, unknowns):
            return None
    return terms.get((), 0) + sum(n * prod([unknowns[k].least for k in t]) for t, n in added.items())


def _set_against(added: dict[Term, int], term: Term, missing: int, unknowns: Sequence[Unknown]) -> bool:
    """Whether there is as much that is larger; it is used up."""
    for larger in added:
        rest = _without(larger, term)
        times = prod([unknowns[n].least for n in rest]) if rest is not None else 0
        if times and missing > 0:
            used = min(added[larger], -(-missing // times))
            added[larger] -= used
            missing -= used * times
    return missing <= 0
