"""What `%profile_step` does: run a step again and again, and show which ops, op types and layers take longest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from IPython.core.error import UsageError

from workbench.errors import did_you_mean, one_of
from workbench.events import PlanCompiled, Step
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.executors.api.parallel import ParallelExecutor
from workbench.executors.profiling.profile import Profile
from workbench.executors.profiling.profile_table import microseconds
from workbench.executors.profiling.sums import ProfileLine, of_kind, per_step, spread
from workbench.framework.program.program import Program
from workbench.framework.text.printable import escape
from workbench.notebook.programs.summary import CODE, count
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.trained import ClusterExecutor

SHOWN = 20
WARM_UP, REPEAT = 3, 10
_FEW = 8  # op types and layers shown
_BAR = 90  # pixels: all of the time
_HEAD = ("op", "makes", "device", "median µs", "middle half", "share", "built at")
_SUMS = ("median µs", "middle half", "share")
_NUMBERS = ("median µs", "middle half")


@dataclass(frozen=True)
class StepProfile:
    """The ops of a step that was made several times, those that took longest first.

    Attributes:
        profile: everything that was told of the steps that were looked at; it also exports a timeline.
        n: how many ops are shown. compiled: the plans that were made before.
        applied: how many steps have been applied in all.
    """

    profile: Profile
    n: int = SHOWN
    compiled: tuple[PlanCompiled, ...] = ()
    applied: int = 1

    @property
    def ops(self) -> list[ProfileLine]:
        """One line per op and device, the largest median first."""
        return self.profile.ops("median")

    @property
    def op_types(self) -> list[ProfileLine]:
        """One line per op type: the time of all its ops in a step, on all devices; the largest median first."""
        return per_step(self.profile.events, lambda op: [(op.type, 1.0)])

    @property
    def layers(self) -> list[ProfileLine]:
        """The same per layer."""
        return self.profile.layers("median")

    def heading(self) -> str:
        """`10 steps on cpu:0, cpu:1: 0.754 ms, the middle half 0.741 to 0.790 ms`, and what was done besides."""
        steps = of_kind(self.profile.events, Step)
        places = ", ".join(str(place) for place in dict.fromkeys(p for s in steps for p in s.places))
        seconds = [s.seconds for s in steps]
        text = f"{count(len(steps), 'step')} on {places}: {_ms(median(seconds))} ms"
        if len(steps) > 1:
            text += f", the middle half {' to '.join(map(_ms, spread(seconds)))} ms"
        if self.compiled:
            text += f", after {_ms(sum(p.seconds for p in self.compiled))} ms for compiling"
        return f"{text}. {count(self.applied, 'step')} applied in all: these{self._others(len(steps))}"

    def _others(self, timed: int) -> str:
        """`, 3 before them to warm up, and 9 between them that were not looked at`."""
        between = max(timed - 1, 0)
        first = self.applied - timed - between
        parts = [f"{first} before them to warm up"] * (first > 0) + [f"{between} between them, not timed"] * (
            between > 0
        )
        return "".join(f", {part}" for part in parts)

    def __repr__(self) -> str:
        return f"{self.heading()}\n\n{self.profile.table(self.n, 'median')}"

    def _repr_html_(self) -> str:
        ops = self.ops
        whole = sum(line.median for line in ops)
        rows = [_cells(line, _share(line, whole)) for line in ops[: self.n]]
        more = f"<div>… and {count(len(ops) - self.n, 'more op')}</div>" if len(ops) > self.n else ""
        sums = "".join(_sums(what, lines) for what, lines in (("op type", self.op_types), ("layer", self.layers)))
        side = f'<div style="display:flex; flex-wrap:wrap; gap:0 32px">{sums}</div>'
        return f"<div>{escape(self.heading())}</div>{_table(_HEAD, rows)}{more}{side}"


def profile_step(
    names: Mapping[str, Any], executor: str, feed: str, n: int = SHOWN, warm_up: int = WARM_UP, repeat: int = REPEAT
) -> StepProfile:
    """Run steps of what is called `executor` with what is called `feed`, and time their ops.

    Between two steps that are looked at there is one nobody looks at: telling of a step leaves caches cold.

    Args:
        names: what the user's names stand for.
        warm_up: steps before the first look. repeat: steps that are looked at.

    Raises:
        UsageError: a name that stands for nothing, or for something else; n or repeat below 1, warm_up below 0.
        Exception: what made a step fail; nothing of it is applied then.
    """
    __tracebackhide__ = True
    for option, number, least in (("-n", n, 1), ("--repeat", repeat, 1), ("--warm-up", warm_up, 0)):
        if number < least:
            raise UsageError(f"{option} takes a number of at least {least}, got {number}")
    target = to_run(names, executor)
    given = named(names, feed, feeds(names), "feed (a dict, or a list with a dict per device)")

    def step() -> None:
        if isinstance(target, CompiledProgram):
            Executor().run(target, feed=given, fetch_list=[])
        else:
            target.run([], feed=given)

    profile = Profile()
    with Profile(PlanCompiled) as compiled:
        for _ in range(warm_up):
            step()
        for number in range(repeat):
            if number:
                step()
            profile.go_on()
            try:
                step()
            finally:
                profile.stop()
    return StepProfile(profile, n, tuple(of_kind(compiled.events, PlanCompiled)), warm_up + 2 * repeat - 1)


def executors(names: Mapping[str, Any]) -> list[str]:
    """The names of what `%profile_step` can run."""
    return [n for n, v in names.items() if isinstance(v, ParallelExecutor | CompiledProgram)]


def to_run(names: Mapping[str, Any], name: str) -> ParallelExecutor | CompiledProgram:
    """What the user calls `name`, which `%profile_step` can run.

    Raises:
        UsageError: it is something else; of an Executor, how to get what it runs.
    """
    if isinstance(names.get(name), Executor):
        raise UsageError(f"{name!r} is an Executor, which runs many programs: step = {name}.compiled(PROGRAM) is one")
    named_value = names.get(name)
    if isinstance(named_value, Cluster | ClusterExecutor):
        ranks = named_value if isinstance(named_value, Cluster) else named_value.cluster
        devices = ranks.size * ranks.devices
        raise UsageError(
            f"{name!r} makes its steps in {count(ranks.size, 'rank')}, all of them at once; {count(devices, 'device')} "
            "of this process make the same steps, bit for bit: exe = static.ParallelExecutor(False, LOSS.name, "
            f"PROGRAM), with CPU_NUM={devices}"
        )
    if isinstance(named_value, Program) and not executors(names):
        raise UsageError(f"{name!r} is a Program: step = static.Executor().compiled({name}) runs it")
    return named(names, name, executors(names), "ParallelExecutor or CompiledProgram")


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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cell = "padding:1px 16px 1px 0; background:none; white-space:nowrap"
    heads = "".join(f'<th style="{cell}; text-align:{_align(h)}">{h}</th>' for h in head)
    lines = (
        "".join(f'<td style="{cell}; {CODE}; text-align:{_align(h)}">{text}</td>' for h, text in zip(head, texts))
        for texts in rows
    )
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    table = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    return f'<table style="margin:2px 0 0 0; border:none">{table}</table>'


def _sums(what: str, lines: Sequence[ProfileLine]) -> str:
    """A table of the totals of a step by something."""
    whole = sum(line.median for line in lines)
    rows = [[escape(line.name), *_times(line), _bar(_share(line, whole))] for line in lines[:_FEW]]
    more = f"<div>… and {len(lines) - _FEW} more</div>" if len(lines) > _FEW else ""
    return f"<div>{_table((what, *_SUMS), rows)}{more}</div>"


def _cells(line: ProfileLine, share: float) -> list[str]:
    name, outputs, place, site = map(escape, (line.name, _first(line.outputs), str(line.place), str(line.site or "")))
    return [name, outputs, place, *_times(line), _bar(share), site]


def _times(line: ProfileLine) -> tuple[str, str]:
    return microseconds(line.median), _range(line.spread)


def _share(line: ProfileLine, whole: float) -> float:
    return line.median / whole if whole else 0.0


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


def _range(ends: tuple[float, float]) -> str:
    return " to ".join(map(microseconds, ends))
