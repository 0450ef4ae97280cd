"""The ways a step of an engine is run: as one call where that is possible, else in its parts, plain or watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench import events
from workbench.config import get_flag
from workbench.events import LISTENERS
from workbench.executors.at_once import AtOnce, at_once
from workbench.executors.binding import Binding
from workbench.executors.split import Fed
from workbench.executors.telltales import Telltales
from workbench.executors.transaction import speculate
from workbench.executors.watch import watched
from workbench.runtime.tensor import LoDTensor
from workbench.runtime.undisturbed import in_one_call

if TYPE_CHECKING:
    from workbench.executors.engine import Engine

Step = Callable[..., list[Any]]
BESIDE = frozenset((events.ScopeDrop, events.PlanCompiled, events.Error, events.Fetched))  # told of any step


def kind_of_step(executor: str) -> Step:
    """How a step of an executor is run now; called with (engine, binding, fed, return_numpy, merged)."""
    if LISTENERS and not LISTENERS.keys() <= BESIDE and events.heard(executor, BESIDE):
        return watched_step
    return watched_step if get_flag("FLAGS_check_nan_inf") else step


def step(engine: Engine, binding: Binding, fed: Fed, return_numpy: bool, merged: bool) -> list[Any]:
    """Load, speculate, fetch, commit."""
    whole = binding.at_once
    if binding.in_use:
        _put_in_order(engine, binding, whole)
    if whole is not None and merged and whole.takes(fed, binding):
        found = _in_one_call(engine, binding, whole, fed)
        if found is not None:
            return found if return_numpy else list(map(LoDTensor, found))
    counters = engine.load(binding, fed)
    speculate(binding, binding.speculative)
    results, fills = binding.collector.collect(return_numpy, merged)
    if engine.whole.guards:
        _look(engine, binding, fed)
    engine.commit(binding, binding.commit, counters, fills)
    if not binding.has_run and merged:
        binding.has_run, binding.at_once = True, None if engine.draws else at_once(binding)
    return results


def _look(engine: Engine, binding: Binding, fed: Fed) -> None:
    """Call the guards if there is a NaN or an Inf in a step that is ready to be applied; what one raises ends it."""
    if not _telltales(engine, binding).are_finite():
        engine.call_guards(binding, fed)


def _telltales(engine: Engine, binding: Binding) -> Telltales:
    if binding.telltales is None:
        binding.telltales = Telltales(binding, engine.loss_name)
    return binding.telltales


def _in_one_call(engine: Engine, binding: Binding, whole: AtOnce, fed: Fed) -> list[Any] | None:
    """The step as one call; None, and nothing done, if it cannot be: in its parts it is done, or they say why not."""
    engine.load_rates(binding)
    engine.applied, before = False, whole.applied
    binding.in_use = True
    try:
        results = whole.run(fed, engine.marks(binding), _is_looked_at(engine, binding, whole))
        if results is not None:
            binding.in_use = False
            return results
        if not whole.commits and not whole.blemished:
            binding.at_once, binding.has_run = None, False
        else:
            if whole.blemished:
                engine.call_guards(binding, fed)
            engine.commit(binding, binding.commit, [], [])
            results = binding.collector.collect(True, True)[0]
    except BaseException:
        _settle(engine, binding, whole, before)
        raise
    binding.reset()
    return results


def _is_looked_at(engine: Engine, binding: Binding, whole: AtOnce) -> bool:
    """Whether somebody wants to know of a NaN or an Inf; the first time the call is told where to look."""
    if not engine.whole.guards:
        return False
    if binding.telltales is None or not whole.looks:
        whole.look_at(_telltales(engine, binding).stretches)
    return True


def _settle(engine: Engine, binding: Binding, whole: AtOnce, before: int) -> None:
    """After a signal: a commit that has begun is taken to its end, and what has been applied is counted."""
    if whole.commits and not engine.applied and engine.whole.broken is None:
        engine.commit(binding, binding.commit, [], [])
    elif whole.applied != before and not engine.applied:
        in_one_call(engine.marks(binding))
    binding.reset()


def _put_in_order(engine: Engine, binding: Binding, whole: AtOnce | None) -> None:
    """A signal came again before that was done."""
    if whole is not None and whole.commits and engine.whole.broken is None:
        engine.commit(binding, binding.commit, [], [])
    binding.reset()


def watched_step(engine: Engine, binding: Binding, fed: Fed, return_numpy: bool, merged: bool) -> list[Any]:
    """The same for those who listen, or look for NaN."""
    clock = events.listening(events.OpRun) or events.listening(events.Collective)
    parts = watched(binding, clock, bool(get_flag("FLAGS_check_nan_inf")))
    if binding.in_use:
        _put_in_order(engine, binding, binding.at_once)
    engine.reporter.fed(engine.steps, fed)
    counters = engine.load(binding, fed)
    speculate(binding, parts[0].programs)
    results, fills = binding.collector.collect(return_numpy, merged)
    if engine.whole.guards:
        _look(engine, binding, fed)
    number = engine.steps
    try:
        engine.commit(binding, parts[1].programs, counters, fills)
    finally:
        if engine.applied:
            if clock:
                engine.reporter.ran(number, binding, [span for part in parts for span in part.spans()])
            engine.reporter.stepped(number, engine.begun, fed)
            engine.reporter.memory(number, binding.arenas)
    return results
