"""Pruned programs: `use_prune`, and fetch lists with some of the updates (rules E-3, E-5, C-7).

A pruned program gets an engine of its own, which works on the same devices and their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import PreconditionNotMet
from workbench.executors.feeding.feed import Feed, fed_names
from workbench.executors.fetching.fetch import split_optimize_ops
from workbench.executors.running.engine.engine import Engine, Listed
from workbench.framework.notice import tell
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.prune import prune
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.program.variable import Variable

_NOTHING_LISTED = Listed((), (), False)
_MORE = (None,)  # what is no list of variables and names


def needed(engine: Engine, feed: Feed, fetch_list: Any, use_prune: bool = False) -> tuple[Engine, list[str]]:
    """What a step runs on to do what `fetch_list` asks for: the engine or that of a pruned program, and the fetches.

    Optimizer operators in it, such as the tuple `minimize` returns, are not among the results. Listing all updates, or
    none, runs the whole program (X-47); listing some runs these and what they need (E-3), as `use_prune` does (E-5).

    Raises:
        PreconditionNotMet: an operator of another program.
    """
    names: list[str] = []
    for item in fetch_list if type(fetch_list) is list else _MORE:
        if type(item) is not str:
            if not isinstance(item, Variable):  # updates, or something that is wrong
                return _with_updates(engine, feed, fetch_list, use_prune)
            item = item.name
        names.append(item)
    return (_pruned_engine(engine, feed, names, []) if use_prune else engine), names


def _with_updates(engine: Engine, feed: Feed, fetch_list: Any, use_prune: bool) -> tuple[Engine, list[str]]:
    items, ops = split_optimize_ops(fetch_list)
    names = [item.name if isinstance(item, Variable) else item for item in items]
    listed = _listed(engine, ops) if ops else _NOTHING_LISTED
    if use_prune or listed.leaves_out:
        engine = _pruned_engine(engine, feed, names, listed.copies)
    return engine, names


def pruned_program(
    program: Program, feed: Feed, fetch_list: Any, use_prune: bool = False
) -> tuple[Program, Feed, list[str]]:
    """The same of a program that is run without an engine: the pruned program, what is fed to it, names to fetch."""
    items, ops = split_optimize_ops(fetch_list)
    names = [item.name if isinstance(item, Variable) else item for item in items]
    keep = _copied_operators(program, ops) if ops else []
    if not (use_prune or (keep and _leaves_out(program, keep))):
        return program, feed, names
    pruned = _pruned(program, names, fed_names(feed), keep)
    return pruned, _without_unneeded(program, pruned, feed), names


def _listed(engine: Engine, ops: Sequence[Operator]) -> Listed:
    """What is known of updates in a fetch list; found out once."""

    def find() -> Listed:
        copies = _copied_operators(engine.program, ops)
        return Listed(ops, copies, _leaves_out(engine.program, copies))

    return engine.listed.get((*map(id, ops),), find)


def _copied_operators(program: Program, ops: Sequence[Operator]) -> list[Operator]:
    """The operators of a snapshot that were copied from these."""
    if any(op.block.program.origin != program.origin for op in ops):
        raise PreconditionNotMet("fetch_list holds optimizer operators of another program")
    wanted = [(op.type, op.inputs, op.outputs) for op in ops]
    copied = [op for op in program.global_block().ops if (op.type, op.inputs, op.outputs) in wanted]
    if len(copied) < len(wanted):
        raise PreconditionNotMet(
            "fetch_list holds an optimizer operator that was appended after the executor was made; it is not part of "
            "what the executor runs"
        )
    return copied


def _leaves_out(program: Program, keep: Sequence[Operator]) -> bool:
    """Whether some parameter's update is not among `keep`."""
    kept = set(map(id, keep))
    return any("Param" in op.inputs and op.role & OPTIMIZE and id(op) not in kept for op in program.global_block().ops)


def _pruned_engine(engine: Engine, feed: Feed, names: list[str], keep: Sequence[Operator]) -> Engine:
    given = fed_names(feed)
    key = (*names,), given, (*map(id, keep),)
    pruned = engine.pruned.get(key, lambda: engine.part(_pruned(engine.program, names, given, keep)))
    if not pruned.unneeded.isdisjoint(given):
        _tell_unneeded(pruned.unneeded.intersection(given))
    return pruned


def _tell_unneeded(names: Iterable[str]) -> None:
    for name in sorted(names):
        tell(f"feed {name!r} is not needed by what is run and was dropped")


def _pruned(program: Program, names: list[str], given: Sequence[str], keep: Sequence[Operator]) -> Program:
    keep = keep or [op for op in program.global_block().ops if op.role & OPTIMIZE]
    if not (names or keep):
        return program  # no target to prune for
    pruned = prune(program, names, given, keep)
    pruned.lr_schedulers = program.lr_schedulers
    return pruned


def _without_unneeded(whole: Program, part: Program, feed: Feed) -> Feed:
    """The feed without variables that were pruned, with one warning for each; unknown names stay and are refused."""
    known, left = whole.global_block().vars, part.global_block().vars
    dropped = {name for name in fed_names(feed) if name in known and name not in left}
    _tell_unneeded(dropped)

    def rest(arrays: Any) -> Any:
        return {k: v for k, v in arrays.items() if (k.name if isinstance(k, Variable) else k) not in dropped}

    if not dropped or feed is None:
        return feed
    return rest(feed) if isinstance(feed, Mapping) else [rest(arrays) for arrays in feed]
