"""What `%profile_step` does: run one step, and show which ops took longest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from IPython.core.error import UsageError

from workbench.errors import did_you_mean, one_of
from workbench.events import OpRun, PlanCompiled, Step
from workbench.executors.compiled import CompiledProgram
from workbench.executors.parallel import ParallelExecutor
from workbench.executors.profile import Line, Profile, of_kind
from workbench.executors.serial import Executor
from workbench.notebook.summary import CODE, count

SHOWN = 20
_BAR = 90  # pixels: all of the time
_HEAD = ("op", "makes", "device", "ms", "share", "built at")
_NUMBERS = ("ms",)


@dataclass(frozen=True)
class StepProfile:
    """The ops of one step, those that took longest first.

    Attributes:
        profile: everything that was told during the step; it also exports a timeline.
        n: how many ops are shown.
    """

    profile: Profile
    n: int = SHOWN

    @property
    def ops(self) -> list[Line]:
        """One line per op and device."""
        return self.profile.ops()

    def heading(self) -> str:
        """`1 step on cpu:0, cpu:1: 3.214 ms from the first op to the last`, and the time for compiling, if any.

        The step as a whole took longer: what listens has to be prepared for the first time, and told afterwards.
        """
        told = self.profile.events
        steps, plans, runs = of_kind(told, Step), of_kind(told, PlanCompiled), of_kind(told, OpRun)
        places = ", ".join(str(place) for place in dict.fromkeys(p for s in steps for p in s.places))
        span = max((r.end for r in runs), default=0) - min((r.start for r in runs), default=0)
        text = f"{count(len(steps), 'step')} on {places}: {_ms(span / 1e9)} ms from the first op to the last"
        if plans:
            text += f", after {_ms(sum(p.seconds for p in plans))} ms for compiling"
        return text

    def __repr__(self) -> str:
        return self.profile.table(self.n)

    def _repr_html_(self) -> str:
        found = self.ops
        cell = "padding:1px 16px 1px 0; background:none; white-space:nowrap"
        head = "".join(f'<th style="{cell}; text-align:{_align(h)}">{h}</th>' for h in _HEAD)
        rows = "".join(_row(line, cell) for line in found[: self.n])
        more = f"<div>… and {count(len(found) - self.n, 'more op')}</div>" if len(found) > self.n else ""
        table = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
        return f'<div>{escape(self.heading())}</div><table style="margin:2px 0 0 0; border:none">{table}</table>{more}'


def profile_step(names: Mapping[str, Any], executor: str, feed: str, n: int = SHOWN) -> StepProfile:
    """Run one step of what is called `executor` with what is called `feed`, and time its ops.

    Args:
        names: what the user's names stand for.

    Raises:
        UsageError: a name that stands for nothing, or for something else; n below 1.
        Exception: what made the step fail; nothing of it is applied then.
    """
    __tracebackhide__ = True
    if n < 1:
        raise UsageError(f"-n takes a number of at least 1, got {n}")
    target = named(names, executor, executors(names), "ParallelExecutor or CompiledProgram")
    given = named(names, feed, feeds(names), "feed (a dict, or a list with a dict per device)")
    with Profile() as profile:
        if isinstance(target, CompiledProgram):
            Executor().run(target, feed=given, fetch_list=[])
        else:
            target.run([], feed=given)
    return StepProfile(profile, n)


def executors(names: Mapping[str, Any]) -> list[str]:
    """The names of what `%profile_step` can run."""
    return [n for n, v in names.items() if isinstance(v, ParallelExecutor | CompiledProgram)]


def feeds(names: Mapping[str, Any]) -> list[str]:
    """The names of what can be fed."""
    return [n for n, v in names.items() if _can_be_fed(v)]


def _can_be_fed(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) for one in value)
    return isinstance(value, dict) and bool(value)


def named(names: Mapping[str, Any], name: str, known: list[str], what: str) -> Any:
    if name in known:
        return names[name]
    hint = did_you_mean(name, known) or (f" Here: {one_of(known)}" if known else "")
    if name in names:
        raise UsageError(f"{name!r} is no {what}, but of type {type(names[name]).__name__}.{hint}")
    raise UsageError(f"there is no {what} called {name!r}.{hint}")


def _row(line: Line, style: str) -> str:
    name, made, place, site = map(escape, (line.name, _first(line.outputs), str(line.place), str(line.site or "")))
    texts = (name, made, place, _ms(line.total), _bar(line.share), site)
    cells = [f'<td style="{style}; {CODE}; text-align:{_align(head)}">{text}</td>' for head, text in zip(_HEAD, texts)]
    return f'<tr style="background:none">{"".join(cells)}</tr>'


def _first(outputs: tuple[str, ...]) -> str:
    """`w[4, 3] +2`: the first output, and how many more there are."""
    return " +".join([*outputs[:1], *([str(len(outputs) - 1)] if len(outputs) > 1 else [])])


def _bar(share: float) -> str:
    width = max(round(_BAR * share), 1)
    bar = f"display:inline-block; width:{width}px; height:9px; background:var(--jp-brand-color1, #1976d2); opacity:0.7"
    return f'<span style="{bar}"></span> {share:.1%}'


def _align(head: str) -> str:
    return "right" if head in _NUMBERS else "left"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"
