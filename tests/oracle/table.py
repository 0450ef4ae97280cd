"""What became of the examples, by namespace, and why the rest does not run."""

from __future__ import annotations

import doctest
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.oracle.numbers import numbers, same_numbers, same_text

_DESCRIPTION = re.compile(r"LOD_TENSOR|block_idx")
_REQUIRES = re.compile(r"doctest: \+REQUIRES\(env: ?(GPU|DISTRIBUTED).*")


class Outcome(NamedTuple):
    """An example under the real package and under ours.

    Attributes:
        namespace, name: where it is written.
        source: its lines.
        expected: what the real package prints.
        steady: whether it prints that whatever the seed.
        error: first line of our error, None if it runs.
        printed: what ours prints.
    """

    namespace: str
    name: str
    source: str
    expected: str
    steady: bool
    error: str | None
    printed: str

    @property
    def runs(self) -> bool:
        return self.error is None

    @property
    def comparable(self) -> bool:
        """Whether there are numbers to compare."""
        return self.steady and bool(numbers(self.expected))

    @property
    def same(self) -> bool:
        return self.runs and self.comparable and same_numbers(self.printed, self.expected)

    @property
    def same_text(self) -> bool:
        return self.runs and self.steady and bool(self.expected) and same_text(self.printed, self.expected)

    @property
    def random(self) -> bool:
        """Runs, and the real package prints numbers that depend on the seed: there is nothing to compare."""
        return self.runs and not self.steady and bool(numbers(self.expected))

    @property
    def describes(self) -> bool:
        """Runs, and prints the real package's own description of programs or variables; ours is another text."""
        return self.runs and self.comparable and not self.same and bool(_DESCRIPTION.search(self.expected))

    @property
    def as_documented(self) -> bool:
        """Runs, and prints what the documentation says; the real package does not, lacking a GPU or other processes."""
        lacking = self.runs and self.comparable and not self.same and bool(_REQUIRES.search(self.source))
        return lacking and same_numbers(self.printed, "".join(wanted(self.source)))

    @property
    def deviates(self) -> bool:
        """Runs, but prints other numbers."""
        return self.runs and self.comparable and not (self.same or self.describes or self.as_documented)


def wanted(source: str) -> Iterator[str]:
    """What an example says that it prints."""
    for example in doctest.DocTestParser().get_examples(_REQUIRES.sub("", source)):
        yield example.want


def namespaces(outcomes: Iterable[Outcome]) -> str:
    """A line per namespace: examples, run; with numbers, the same; random; describing programs; with text, the same."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.namespace].append(outcome)
    lines = [
        f"{'namespace':38}{'examples':>9}{'run':>6}{'%':>6}{'numbers':>9}{'same':>6}"
        f"{'random':>8}{'program':>9}{'text':>6}{'same':>6}"
    ]
    lines += [_line(name, groups[name]) for name in sorted(groups, key=lambda name: (name.count("."), name))]
    return "\n".join([*lines, _line("all", [o for group in groups.values() for o in group])])


def _line(name: str, group: list[Outcome]) -> str:
    runs, comparable = sum(o.runs for o in group), sum(o.comparable for o in group)
    texts = sum(o.steady and bool(o.expected) for o in group)
    return (
        f"{name:38}{len(group):9}{runs:6}{100 * runs / max(1, len(group)):6.0f}{comparable:9}"
        f"{sum(o.same for o in group):6}{sum(o.random for o in group):8}{sum(o.describes for o in group):9}"
        f"{texts:6}{sum(o.same_text for o in group):6}"
    )


_MISSING = (
    (re.compile(r"^AttributeError: module 'workbench([\w.]*)' has no attribute '(\w+)'"), "paddle{}.{}"),
    (re.compile(r"^AttributeError: workbench([\w.]*)\.(\w+) is not available yet"), "paddle{}.{}"),
    (re.compile(r"^ImportError: cannot import name '(\w+)' from '\w+?((?:\.\w+)*)'"), "paddle{1}.{0}"),
    (re.compile(r"^ModuleNotFoundError: No module named '\w+?((?:\.\w+)+)'"), "paddle{}"),
    (re.compile(r"^AttributeError: (?:type object )?'(\w+)'(?: object)? has no attribute '(\w+)'"), "{}.{}"),
)


def reason(error: str) -> str:
    """The error without what differs from example to example; `missing NAME` where a name is missing.

    Example:
        >>> reason("AttributeError: module 'workbench.nn' has no attribute 'Linear'. Did you mean 'a'?")
        'missing paddle.nn.Linear'
    """
    for pattern, form in _MISSING:
        if match := pattern.match(error):
            return "missing " + form.format(*match.groups())
    return error[:150]


def reasons(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A line per reason, the most frequent first, with some of the examples it stops."""
    stopped: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.error is not None:
            stopped[reason(outcome.error)].append(outcome.name)
    for why, names in sorted(stopped.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"{len(names):5}  {why}   ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})"


def missing(used: Iterable[set[str]], lacks: Iterable[str]) -> Iterator[str]:
    """A line per missing name, by the number of examples that use it."""
    counts = Counter(name for names in used for name in names)
    for name in sorted(lacks, key=lambda name: (-counts[name], name)):
        yield f"{counts[name]:5}  {name}"
