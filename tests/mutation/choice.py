"""Which faults are tried: all named ones, and of those the rules make a stable choice from every area."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from tests.mutation.areas import PACKAGE, Area
from tests.mutation.changes import Change, changes, replaced
from tests.mutation.known import EQUIVALENT, NAMED, Named

_PER_FUNCTION = 2
_PROCESSES = "tests/processes/"


@dataclass(frozen=True)
class Mutant:
    """A fault in a module.

    Attributes:
        name: of a named one. path: of the module, below the root. tests: files that are asked.
        source: of the module, with the fault. reason: why no test can notice it, if that is known.
    """

    area: str
    name: str
    change: Change
    path: Path
    tests: tuple[str, ...]
    source: bytes
    reason: str = ""

    def asking(self, tests: Sequence[str]) -> Mutant:
        """The same with other tests."""
        return replace(self, tests=tuple(tests))

    def reached_by(self, passed: Mapping[str, tuple[float, frozenset[str]]]) -> list[str]:
        """The tests that call its function: the likeliest file first, of a file the quickest first.

        What no test calls is called where its module is imported, if at all: any test may notice. So may tests that
        start processes, whose calls nobody hears.
        """
        everywhere = not any(self.change.function in reached for _, reached in passed.values())
        rank = {name.split("::")[0]: number for number, name in reversed(list(enumerate(self.tests)))}
        ranked = [
            (rank[file], seconds, test)
            for test, (seconds, reached) in passed.items()
            if (file := test.split("::")[0]) in rank
            and (everywhere or self.change.function in reached or file.startswith(_PROCESSES))
        ]
        return [test for _, _, test in sorted(ranked)]

    def __str__(self) -> str:
        what = f'"{self.name}"' if self.name else self.change.rule
        return f"{self.area:11} {self.change.key}  {what:22}  {self.change}"


def choose(root: Path, areas: Sequence[Area], seed: str) -> list[Mutant]:
    """All mutants of some areas.

    Raises:
        LookupError: an area's sources are not found, or a named fault cannot be made exactly once.
    """
    return [mutant for area in areas for mutant in (*_named(root, area), *_by_rule(root, area, seed))]


def matching(mutants: Sequence[Mutant], only: Sequence[str]) -> list[Mutant]:
    """Those of an area, with a key, with a part of a name or function; `named` are all that have a name."""

    def is_asked(mutant: Mutant) -> bool:
        kinds = (mutant.area, mutant.change.key, "named" if mutant.name else "by rule")
        return any(one in kinds or one in f"{mutant.name} {mutant.change.function}" for one in only)

    return [mutant for mutant in mutants if not only or is_asked(mutant)]


def _named(root: Path, area: Area) -> Iterator[Mutant]:
    for known in NAMED:
        if known.area == area.name:
            path, change = _find(root, known)
            yield _mutant(root, area, known.name, path, change)


def _find(root: Path, known: Named) -> tuple[Path, Change]:
    """The one place where a named fault can be made."""
    matches = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        source = path.read_bytes()
        if known.function.rpartition(".")[2].encode() in source:
            matches += [
                (path.relative_to(root), c) for c in replaced(source, known.function, known.before, known.after)
            ]
    if len(matches) != 1:
        where = f"in {len(matches)} places" if matches else "nowhere"
        raise LookupError(f"{known.name!r}: {known.before!r} stands {where} in a function {known.function!r}")
    return matches[0]


def _by_rule(root: Path, area: Area, seed: str) -> list[Mutant]:
    """Every rule in turn, the functions in an order that depends on the seed alone."""
    by_rule: dict[str, list[tuple[str, Path, Change]]] = defaultdict(list)
    for path in area.sources(root):
        for change in changes((root / path).read_bytes()):
            by_rule[change.rule].append((sha256(f"{seed} {change.key}".encode()).hexdigest(), path, change))
    queues = [sorted(by_rule[rule], key=lambda entry: entry[0], reverse=True) for rule in sorted(by_rule)]
    per_function: Counter[str] = Counter()
    chosen: list[Mutant] = []
    while len(chosen) < area.count and any(queues):
        for entries in filter(None, queues):
            _, path, change = entries.pop()
            if per_function[change.function] < _PER_FUNCTION and len(chosen) < area.count:
                mutant = _mutant(root, area, "", path, change)
                if _can_be_read(mutant.source):
                    per_function[change.function] += 1
                    chosen.append(mutant)
    return chosen


def _mutant(root: Path, area: Area, name: str, path: Path, change: Change) -> Mutant:
    reason = next((known.reason for known in EQUIVALENT if known.is_about(change)), "")
    return Mutant(area.name, name, change, path, area.tests, change.apply((root / path).read_bytes()), reason)


def _can_be_read(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
