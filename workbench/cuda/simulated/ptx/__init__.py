"""PTX, executed: `parse` a text, `launch` one of its kernels on memory of the host that stands for a GPU's."""

from workbench.cuda.simulated.ptx.counters import Counters, SectorTraffic
from workbench.cuda.simulated.ptx.launching import launch
from workbench.cuda.simulated.ptx.limits import ARCHITECTURES, Architecture
from workbench.cuda.simulated.ptx.module import KernelEntry, PtxModule, parse

__all__ = ["ARCHITECTURES", "Architecture", "Counters", "KernelEntry", "PtxModule", "SectorTraffic", "launch", "parse"]
