"""The plans that an engine and its pruned programs keep, with what binds them to memory, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from workbench.config import get_flag
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.planning.plan import Plan
from workbench.executors.running.step.bound_step import BoundStep
from workbench.framework.notice import tell

_BYTES_OF_ROW = 4_500  # what a row of a plan takes, with what binds it to memory; the arenas are shared
_BYTES_OF_FILLED, _BYTES_OF_FILLED_ROW = 16_000, 700  # where it was filled in: of the plan, and of a row of it

Key = tuple[Any, ...]  # the number of an engine, and what its plan depends on


class KeptPlan:
    """A plan and the step that is bound to it, if there is one.

    Whoever holds this when the cache lets go of it finds it empty: what a plan takes is free then.
    """

    __slots__ = ("nbytes_of_plan", "plan", "step")

    def __init__(self, plan: Plan) -> None:
        self.plan: Plan | None = plan
        self.nbytes_of_plan = bytes_kept_for(plan)
        self.step: BoundStep | None = None

    @property
    def nbytes(self) -> int:
        """What it takes, about, with what its loops and branches hold just now."""
        return self.nbytes_of_plan + (0 if self.step is None else self.step.binding.held_bytes)

    def bind(self, step: BoundStep) -> None:
        """Its steps run so from now on."""
        self.step = step

    def unbind(self) -> None:
        """It is to be bound anew."""
        self.step = None

    def forget(self) -> None:
        """Keep nothing."""
        self.plan = self.step = None


class PlanCache:
    """Keeps what was used last within `FLAGS_plan_cache_mib`."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, KeptPlan] = OrderedDict()
        self._holding: dict[Key, KeptPlan] = {}  # those whose loops and branches have memory of their own
        self._nbytes_of_plans = 0
        self._gone: deque[int] = deque()  # told by the collector, which may come in the middle of anything
        self._has_told = False

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """What all of them take, about."""
        return self._nbytes_of_plans + sum(kept.nbytes - kept.nbytes_of_plan for kept in self._holding.values())

    def of(self, engine: int) -> list[KeptPlan]:
        """Those of one engine, the one used longest ago first."""
        return [kept for key, kept in self._kept.items() if key[0] == engine]

    def get(self, key: Key) -> KeptPlan | None:
        """The plan of a key, if it is kept."""
        return self._kept.get(key)

    def use(self, key: Key) -> None:
        """Note that a plan is used."""
        if key in self._kept:
            self._kept.move_to_end(key)

    def keep(self, key: Key, plan: Plan) -> KeptPlan:
        """Keep a new plan in place of the one of this key, if there is one, and no more than fit besides."""
        while self._gone:
            self._forget_all_of(self._gone.popleft())
        if key in self._kept:
            self._forget(key)
        kept = self._kept[key] = KeptPlan(plan)
        self._nbytes_of_plans += kept.nbytes_of_plan
        self._forget_oldest()
        return kept

    def bind(self, key: Key, step: BoundStep) -> None:
        """The steps of a plan run so from now on."""
        kept = self._kept[key]
        kept.bind(step)
        if step.binding.holds_memory:
            self._holding[key] = kept

    def unbind(self) -> None:
        """The memory that all are bound to is another one."""
        self._holding.clear()
        for kept in self._kept.values():
            kept.unbind()

    def release(self, freed: dict[int, int]) -> None:
        """Give back what is in no arena; adds the bytes, by device."""
        for kept in self._kept.values():
            if kept.step is not None:
                kept.step.binding.release(freed)

    def leaving(self, engine: int) -> Callable[[], None]:
        """What says that nobody asks for an engine's plans any more; it keeps none, so a finalizer may keep it."""
        return partial(self._gone.append, engine)

    def _forget_all_of(self, engine: int) -> None:
        for key in [key for key in self._kept if key[0] == engine]:
            self._forget(key)

    def _forget_oldest(self) -> None:
        limit = get_flag("FLAGS_plan_cache_mib")
        while len(self._kept) > 1 and (taken := self.nbytes) > limit * 2**20:
            if not self._has_told:
                self._has_told = True
                tell(
                    f"plans for {len(self._kept)} combinations of shapes and fetches take {taken / 2**20:.0f} "
                    f"MiB; from now on the least recently used are dropped, and made again when they are needed. "
                    f" FLAGS_plan_cache_mib, {limit}, is how many MiB are kept"
                )
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key)
        self._holding.pop(key, None)
        self._nbytes_of_plans -= kept.nbytes_of_plan
        kept.forget()


def bytes_kept_for(plan: Plan) -> int:
    """Memory that a plan and its binding take, about; without the arenas, which all plans of an executor share."""
    rows = len(plan.schedule.order)
    if type(plan) is FilledPlan:
        return _BYTES_OF_FILLED + _BYTES_OF_FILLED_ROW * rows
    return _BYTES_OF_ROW * rows
