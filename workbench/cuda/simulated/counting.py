"""What a simulated machine was asked to do, in numbers: they stand for time, which nobody can measure here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.cuda.simulated.device import SimulatedDriver


@dataclass(frozen=True)
class MachineCounts:
    """Counts since the machine was made; the difference of two is what happened between.

    Attributes:
        kernels: launches that ran, by kernel; those of graphs included.
        graphs: launches of graphs. `calls`: all calls of the driver, by name.
        synchronizations: how often the host waited. `allocations`: of device memory.
        bytes_moved: by copies, by direction.
    """

    kernels: Counter[str]
    calls: Counter[str]
    bytes_moved: Counter[str]
    graphs: int
    synchronizations: int
    allocations: int

    def __sub__(self, earlier: MachineCounts) -> MachineCounts:
        pairs = {field.name: (getattr(self, field.name), getattr(earlier, field.name)) for field in fields(self)}
        return MachineCounts(**{name: now - before for name, (now, before) in pairs.items()})

    def launches(self) -> int:
        """How many times the host told a device to begin something: kernels outside of graphs, and graphs."""
        return self.calls["launch"] + self.calls["launch_graph"]


def counts_of(driver: SimulatedDriver) -> MachineCounts:
    """What a machine has counted so far."""
    with driver.timeline.lock:
        return MachineCounts(
            kernels=Counter(driver.launches.kernels),
            calls=Counter(driver.faults.calls),
            bytes_moved=Counter(driver.machine.moved),
            graphs=driver.launches.graphs,
            synchronizations=driver.timeline.synchronizations,
            allocations=driver.faults.calls["allocation"],
        )
