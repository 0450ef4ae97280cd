"""What `%step` does: run some nodes of a step, and show them in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError

from workbench.executors.inspection.stepper import NodeRun, ShownOperand, Stepper
from workbench.framework.program.program import Program
from workbench.framework.text.printable import escape
from workbench.framework.values.spec import shape_text
from workbench.notebook.programs.summary import CODE, count
from workbench.notebook.steps.profiling import feeds, named, to_run

_HEAD = ("#", "op", "device", "reads", "makes", "built at")
_OPERANDS = 3  # shown of a node


@dataclass(frozen=True)
class Stepped:
    """The nodes that have just run.

    Attributes:
        stepper: the step they belong to; ask it for values. nodes: in the order they ran. ahead: what can be done next.
    """

    stepper: Stepper
    nodes: tuple[NodeRun, ...]
    ahead: str

    def __repr__(self) -> str:
        table = [_HEAD, *map(_texts, self.nodes)]
        widths = [max(len(row[i]) for row in table) for i in range(len(_HEAD))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join([*(lines if self.nodes else []), self.ahead])

    def _repr_html_(self) -> str:
        cell = "padding:1px 16px 1px 0; background:none; text-align:left; white-space:nowrap"
        head = "".join(f'<th style="{cell}">{escape(h)}</th>' for h in _HEAD)
        rows = "".join(
            '<tr style="background:none">'
            + "".join(f'<td style="{cell}; {CODE}">{escape(text)}</td>' for text in _texts(node))
            + "</tr>"
            for node in self.nodes
        )
        table = f'<table style="margin:0; border:none"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        return f"{table if self.nodes else ''}<div>{escape(self.ahead)}</div>"


def require_count(n: int) -> None:
    """Raise UsageError unless n is at least 1."""
    if n < 1:
        raise UsageError(f"-n takes a number of at least 1, got {n}")


def begin(names: Mapping[str, Any], executor: str, feed: str | None, name: str) -> Stepper:
    """Begin a step of what is called `executor`; an unfinished one that is called `name` is discarded.

    Args:
        names: what the user's names stand for.

    Raises:
        UsageError: a name that stands for nothing, or for something else.
    """
    target = to_run(names, executor)
    given = (
        None if feed is None else named(names, feed, feeds(names), "feed (a dict, or a list with a dict per device)")
    )
    if not isinstance(names.get(name, None), Stepper | None):
        raise UsageError(f"{name!r} is in use for something else; `--as NAME` binds the step to another name")
    stepper: Stepper = target.stepper(given)
    if isinstance(names.get(name), Stepper):
        names[name].abort()
    return stepper


def going_on(names: Mapping[str, Any], name: str) -> Stepper:
    """The stepper of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in names:
        raise UsageError(f"there is no step called {name!r} to go on with; `%step EXECUTOR FEED` begins one")
    stepper: Stepper = named(names, name, steppers(names), "step")
    return stepper


def steppers(names: Mapping[str, Any]) -> list[str]:
    """The names of steps."""
    return [n for n, v in names.items() if isinstance(v, Stepper)]


def breakpoints(programs: Iterable[Program]) -> list[str]:
    """What `--until` may name: op types and variables of these programs."""
    ops = [op for program in programs for op in program.global_block().ops]
    return list(dict.fromkeys([*(op.type for op in ops), *(name for op in ops for name in op.output_arg_names)]))


def advance(stepper: Stepper, name: str, until: str | None, device: int | None, n: int | None) -> Stepped:
    """Run nodes: until a breakpoint, else `n` of them, all that are left if None.

    Args:
        name: what the stepper is called. until: an op type, a variable, or a node's number.

    Raises:
        NotFound: a breakpoint nothing can meet. EnforceNotMet: an op failed; the step is discarded.
    """
    nodes: list[NodeRun] = []
    meets = None if until is None else stepper.condition(int(until) if until.isdigit() else until, device)
    while (meets is not None or n is None or len(nodes) < n) and (node := stepper.next()) is not None:
        nodes.append(node)
        if meets is not None and meets(node):
            break
    return Stepped(stepper, tuple(nodes), _ahead(stepper, name))


def _ahead(stepper: Stepper, name: str) -> str:
    done, total = stepper.progress
    if done == total:
        return f"all {count(total, 'node')} have run: {name}.finish() applies the step, {name}.abort() discards it"
    following = stepper.following
    assert following is not None
    return (
        f"{done} of {count(total, 'node')} have run, next is #{following.number} {following.type}: `%step` goes on, "
        f'{name}.value("{following.inputs[0].name if following.inputs else "x"}", device) shows a value, '
        f"{name}.finish() runs the rest and applies the step"
    )


def _texts(node: NodeRun) -> tuple[str, ...]:
    devices = ", ".join(map(str, node.devices))
    return str(node.number), node.type, devices, _few(node.inputs), _few(node.outputs), str(node.site or "")


def _few(operands: tuple[ShownOperand, ...]) -> str:
    """`x[4, 3], w[3, 2] +2`; a collective's part of each device has the same name."""
    names = list(dict.fromkeys(f"{o.name}{shape_text(o.shape)}" for o in operands))
    more = f" +{len(names) - _OPERANDS}" if len(names) > _OPERANDS else ""
    return ", ".join(names[:_OPERANDS]) + more
