"""GPUs: CUDA behind one narrow interface (`driver`), offered by CuPy and NCCL and by simulated devices.

`open_driver` is the door; the rest of workbench asks what it gives.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from workbench.config import get_flag
from workbench.runtime.devices import require_gpu, simulated_gpus

if TYPE_CHECKING:
    from workbench.cuda.driver import CudaDriver

__all__ = ["open_driver", "chosen_driver"]


def chosen_driver() -> str:
    """Which body FLAGS_cuda_driver and FLAGS_simulated_gpus choose: "cupy" or "simulated".

    Raises:
        Unavailable: there is no GPU that can be used, and none is to be simulated.
        InvalidArgument: the flags do not fit together.
    """
    require_gpu()
    return "simulated" if simulated_gpus() else "cupy"


def open_driver() -> CudaDriver:
    """CUDA, as the flags have chosen; the same machine for everybody who asks while the flags stay as they are.

    Raises:
        Unavailable: there is no GPU, and none is simulated.
    """
    return _opened(chosen_driver(), get_flag("FLAGS_simulated_gpus"))


@cache
def _opened(body: str, devices: int) -> CudaDriver:
    if body == "simulated":
        from workbench.cuda.simulated.device import SimulatedDriver

        return SimulatedDriver(devices)
    from workbench.cuda.cupy_driver import CupyDriver

    return CupyDriver()
