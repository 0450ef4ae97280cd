"""What goes wrong by order: no memory at the n-th allocation, a call that fails, a lost device, a broken rank."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from workbench.cuda.driver import CudaError, RankHandle, as_cuda_error
from workbench.cuda.simulated.streams import StreamWork

DEVICE_LOST = "cudaErrorDeviceUnavailable"


@dataclass(frozen=True)
class PlannedFailure:
    """The `nth` call from now on (1: the next one) fails with a code; from then on every call, where it `stays`."""

    call: str
    nth: int
    code: str
    stays: bool


@dataclass
class Faults:
    """The failures that a test or a curious user has ordered.

    Attributes:
        calls: how often each call was made.
    """

    calls: Counter[str] = field(default_factory=Counter)
    _calls: list[PlannedFailure] = field(default_factory=list)
    _losses: dict[int, int] = field(default_factory=dict)

    def out_of_memory(self, nth: int, stays: bool = False) -> None:
        """Let the nth allocation of device memory from now on find none."""
        self.fail("allocation", nth, "cudaErrorMemoryAllocation", stays)

    def fail(self, call: str, nth: int, code: str, stays: bool = False) -> None:
        """Let the nth call of a name from now on fail."""
        self._calls.append(PlannedFailure(call, self.calls[call] + nth, code, stays))

    def lose_device(self, device: int, after: int = 0) -> None:
        """Let a device be gone once it has done so many more pieces of work."""
        self._losses[device] = after

    def break_rank(self, rank: RankHandle, message: str) -> None:
        """Let a communicator meet an error, as when a cable is pulled: its collectives never end."""
        rank.error = message

    def meet(self, call: str) -> None:
        """Count a call.

        Raises:
            CudaError: it was ordered to fail.
        """
        self.calls[call] += 1
        for planned in self._calls:
            reached = self.calls[call] - planned.nth
            if planned.call == call and (reached == 0 or (planned.stays and reached > 0)):
                raise as_cuda_error(RuntimeError(f"{planned.code}: ordered by a test"), call)

    def meet_work(self, work: StreamWork) -> CudaError | None:
        """What becomes of a piece of work that is about to run."""
        device = work.task.device
        if device not in self._losses:
            return None
        self._losses[device] -= 1
        if self._losses[device] >= 0:
            return None
        return CudaError(f"device {device} is lost at {work.describe()}", DEVICE_LOST)
