"""Where the steps of an engine and its pruned programs run, one at a time: threads, memory, what is bound to it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import Unavailable
from workbench.executors.failures import no_memory
from workbench.executors.lowering.operands import Scratch
from workbench.executors.lowering.target import CALLS, TAPES, Target
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.planning.plan import Plan
from workbench.executors.running.finding.plan_cache import PlanCache
from workbench.executors.workers.pool import WorkerPool
from workbench.framework.values.place import CPUPlace, CUDAPlace, Place
from workbench.runtime.device import DeviceMemory
from workbench.runtime.devices import open_device
from workbench.runtime.native.library import kernels_at_hand

_AHEAD = (8, 2)  # times as much as before: batches and lengths of one program seldom differ by more


class Workspace:
    """Of one engine, and those of the pruned programs that work on the same devices and values.

    Args:
        timeout: seconds a step may wait for another thread.

    Attributes:
        target: what plans are lowered to.
        pool: the threads. number: how many pools there were before it.
        arenas: the memory of temporaries, by device; all plans use the same.
        scratch: memory for temporaries of rows, by thread.
        plans: what is bound to all that.
    """

    def __init__(self, places: Sequence[Place], timeout: float) -> None:
        self._places, self._timeout = places, timeout
        self._devices = [open_device(place) for place in places]
        self.plans = PlanCache()
        self.arenas: dict[int, DeviceMemory] = {}
        self.scratch: dict[int, Scratch] = {}
        kernels = kernels_at_hand()  # for good: others round differently; devices ask them what rows touch
        self._natives = kernels if places[0].kind == CPUPlace.kind else None
        self.pool, self.number = self._new_pool(), 0
        self.target = _target_of(places[0], self._natives is not None)

    def _new_pool(self) -> WorkerPool:
        return WorkerPool(self._timeout, self._natives)

    def room_for(self, plan: Plan) -> dict[int, DeviceMemory]:
        """The arenas, large enough for a plan.

        Raises:
            Unavailable: the device gives no such memory; says what the largest values are.
        """
        for place, nbytes in plan.sizes.items():
            there = self.arenas[place].nbytes if place in self.arenas else -1
            if there < nbytes:
                self.arenas[place] = self._larger(plan, place, nbytes, there)
                self.plans.unbind()
        return self.arenas

    def _larger(self, plan: Plan, place: int, nbytes: int, there: int) -> DeviceMemory:
        """An arena for a plan that needs more than the last one had, with room for larger ones if more will come.

        A new arena means that everything is bound anew, so there had better be few. What nobody writes takes no memory.
        """
        if type(plan) is FilledPlan:  # of the first shape: others will come
            there = max(there, nbytes)
        for times in _AHEAD if there > 0 and self._devices[place].grows_by_use else ():
            try:
                return self._devices[place].allocate(max(nbytes, times * there))
            except Unavailable:
                continue
        return self._allocated(plan, place, nbytes)

    def own_room(self, plan: Plan) -> dict[int, DeviceMemory]:
        """Memory no other step uses: what is observed stays while others run."""
        return {place: self._allocated(plan, place, nbytes) for place, nbytes in plan.sizes.items()}

    def _allocated(self, plan: Plan, place: int, nbytes: int) -> DeviceMemory:
        try:
            return self._devices[place].allocate(nbytes)
        except Unavailable as error:
            raise no_memory(plan.graph, plan.shapes.specs, error) from error

    def abandon(self) -> None:
        """Leave everything to a thread that has not come to rest: it may still write there."""
        self.pool, self.number = self._new_pool(), self.number + 1
        self.arenas, self.scratch = {}, {}
        self.plans.unbind()

    def release(self, freed: dict[int, int]) -> None:
        """Give the memory of temporaries back to the system; adds the bytes to `freed`, by device."""
        self.plans.release(freed)
        for place, arena in self.arenas.items():
            freed[place] += arena.release()


def _target_of(place: Place, has_kernels: bool) -> Target:
    """What plans for devices of a kind are lowered to; what GPUs need is imported where there are some."""
    if place.kind != CUDAPlace.kind:  # other kinds are a contributor's own: the memory of the host
        return TAPES if has_kernels else CALLS
    from workbench.executors.lowering.cuda.target import GPUS

    return GPUS
