"""Which devices there are (rules X-2, C-3), and what is missing where there is no GPU."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from workbench.config import environment, get_flag, set_environment
from workbench.errors import AlreadyExists, InvalidArgument, InvalidType, Unavailable
from workbench.framework.notice import say
from workbench.framework.values.place import CPUPlace, CUDAPlace, Place
from workbench.runtime.device import CPUDevice, Device
from workbench.runtime.standing import standing

_ON_THE_CPU = "use_cuda=False and CPUPlace() run on the CPU"
_SIMULATED = "FLAGS_simulated_gpus=2 runs the same program on two simulated GPUs"


def discover(use_cuda: bool) -> list[Place]:
    """The places an executor runs on if it is not told (X-2).

    Raises:
        Unavailable: `use_cuda`, and there is no usable GPU. InvalidArgument: CPU_NUM or FLAGS_selected_gpus is wrong.
    """
    if not use_cuda:
        return list[Place](cpu_places())
    require_gpu()
    return list[Place](cuda_places())


MOST_CPUS = 4096  # CPU devices: each has its own copy of everything


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """CPU devices.

    Args:
        device_count: how many, >= 1; None takes the environment variable CPU_NUM, and if that is not set, sets it to
            1 and says so once.

    Raises:
        InvalidType, InvalidArgument: the count is no whole number from 1 to 4,096.

    Example:
        >>> static.cpu_places(2)
        [CPUPlace(), CPUPlace(1)]
    """
    count = _cpu_num() if device_count is None else device_count
    if not isinstance(count, int) or isinstance(count, bool):
        raise InvalidType(f"cpu_places(device_count)\n  expected: a whole number >= 1, or None\n  got:      {count!r}")
    if not 1 <= count <= MOST_CPUS:
        expected = f"a whole number >= 1, and no more than {MOST_CPUS:,}"
        raise InvalidArgument(f"cpu_places(device_count)\n  expected: {expected}\n  got:      {count}")
    return [CPUPlace(index) for index in range(count)]


def cuda_places(device_ids: int | Sequence[int] | None = None) -> list[CUDAPlace]:
    """GPUs.

    Args:
        device_ids: which ones, not asked whether they exist; None takes FLAGS_selected_gpus, and if that is empty,
            all that are visible (`CUDA_VISIBLE_DEVICES` hides others from a process).

    Raises:
        InvalidType, InvalidArgument: not different whole numbers >= 0. Unavailable: None, and no driver or GPU.

    Example:
        >>> static.cuda_places([0, 1])
        [CUDAPlace(0), CUDAPlace(1)]
    """
    if device_ids is None:
        return [CUDAPlace(index) for index in _selected() or range(_visible())]
    ids = [device_ids] if isinstance(device_ids, int) else device_ids
    if not isinstance(ids, list | tuple | range):
        raise InvalidType(f"cuda_places(device_ids)\n  expected: whole numbers >= 0, or None\n  got:      {ids!r}")
    places = [CUDAPlace(index) for index in ids]
    _require_different("cuda_places(device_ids)", list(ids))
    return places


def require_gpu() -> None:
    """Whether an executor can run on GPUs.

    Raises:
        Unavailable: it cannot; names everything that is missing, and how to get it.
    """
    absent = missing_for_gpu()
    if absent:
        listed = "\n".join(f"  {line}" for line in absent)
        raise Unavailable(f"running on a GPU needs what is missing here:\n{listed}\n{_SIMULATED}; {_ON_THE_CPU}")


def simulated_gpus() -> int:
    """How many GPUs this process simulates; 0 where it uses those of the machine.

    Raises:
        InvalidArgument: the flags do not fit together.
    """
    chosen, simulated = get_flag("FLAGS_cuda_driver"), get_flag("FLAGS_simulated_gpus")
    if simulated < 0 or (chosen == "simulated" and not simulated):
        raise InvalidArgument(f"FLAGS_cuda_driver is {chosen} and FLAGS_simulated_gpus {simulated}; it takes 1 or more")
    return 0 if chosen == "cupy" else int(simulated)


def is_compiled_with_cuda() -> bool:
    """Whether programs can run on a GPU, real or simulated, so that `use_cuda` of it takes one where there is one.

    Example:
        >>> use_cuda = wb.is_compiled_with_cuda()
    """
    return not missing_for_gpu()


def missing_for_gpu() -> list[str]:
    """One line for each thing that keeps this process from using its GPUs: driver, CuPy, NCCL."""
    selected = _selected()
    if simulated_gpus():
        return _too_high(selected, simulated_gpus())
    absent, visible = [], 0
    try:
        visible = _visible()
    except Unavailable as error:
        absent.append(str(error))
    absent += _too_high(selected, visible) if not absent else []
    if find_spec("cupy") is None:
        absent.append("CuPy: pip install 'cupy-cuda12x[ctk]'")
    if (len(selected) or visible) > 1 and not _has_nccl():
        absent.append("NCCL, which several GPUs need: pip install nvidia-nccl-cu12")
    return absent


def _too_high(selected: Sequence[int], visible: int) -> list[str]:
    """A line for the first number of FLAGS_selected_gpus that no GPU has."""
    lines = [f"GPU {index} of FLAGS_selected_gpus: {_count(visible)} visible, numbered from 0" for index in selected
             if index >= visible]  # fmt: skip
    return lines[:1]


def processors() -> int:
    """Processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# CPUs


def _cpu_num() -> int:
    given = environment("CPU_NUM")
    if not given:
        _tell_of_cpu_num()
        set_environment("CPU_NUM", "1")
        return 1
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        raise InvalidArgument(
            f"the environment variable CPU_NUM, the number of CPU devices\n"
            f"  expected: a whole number >= 1\n  got:      {given!r}"
        )
    return int(given)


@cache  # once in a process
def _tell_of_cpu_num() -> None:
    """On standard error, as in Paddle, or below the cell; there is nothing to tell where no processor is left over.

    Processes that were started together share the processors: no hint may have each of them take all.
    """
    cores, processes = processors(), _processes_here()
    if cores // processes < 2:
        return
    told = "CPU_NUM is not set: it is set to 1, so the program runs on one CPU device"
    if processes == 1:
        all_of_them = f"os.environ['CPU_NUM'] = '{cores}' before the executor is made uses all."
        say(f"{told}, of {cores} cores there are. {all_of_them}")
    elif standing().rank == 0:
        say(
            f"{told} in each of {processes} processes that share {cores} cores. CPU_NUM={cores // processes} in front "
            "of what starts them uses all."
        )


def _processes_here() -> int:
    """How many processes were started together on this machine, this one among them."""
    try:
        own = standing()
    except InvalidArgument:  # contradictions are told by who needs to know
        return 1
    return max(1, own.size if own.local_size is None else own.local_size)


# GPUs


def _selected() -> list[int]:
    """FLAGS_selected_gpus; empty if it says nothing."""
    given = get_flag("FLAGS_selected_gpus").strip()
    if not given:
        return []
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InvalidArgument(f"FLAGS_selected_gpus\n  expected: numbers of GPUs, as '0,1'\n  got:      {given!r}")
    ids = [int(part) for part in parts]
    _require_different("FLAGS_selected_gpus", ids)
    return ids


def _require_different(what: str, ids: list[int]) -> None:
    if len(set(ids)) != len(ids):
        raise InvalidArgument(f"{what}\n  expected: different GPUs\n  got:      {ids}")


def _visible() -> int:
    """How many GPUs the driver shows to this process.

    Raises:
        Unavailable: there is no driver, it fails, or it shows none.
    """
    if simulated_gpus():
        return simulated_gpus()
    driver = load_driver()
    if driver is None:
        raise Unavailable("driver: libcuda.so.1 cannot be loaded; install the NVIDIA driver")
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status and status != _NO_DEVICE:
        raise Unavailable(f"driver: it answers with CUDA error {status}; nvidia-smi may tell more")
    if count.value < 1:
        hidden = environment("CUDA_VISIBLE_DEVICES")
        told = f" with CUDA_VISIBLE_DEVICES={hidden!r}" if "CUDA_VISIBLE_DEVICES" in os.environ else ""
        raise Unavailable(f"GPU: the driver shows none{told}")
    return count.value


_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def load_driver() -> Any:
    """The driver's library; None where it cannot be loaded."""
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


def _has_nccl() -> bool:
    """NCCL as a package beside Python, or as a library of the system."""
    try:
        if find_spec("nvidia.nccl") is not None:
            return True
    except ModuleNotFoundError:  # not even `nvidia`
        pass
    try:
        ctypes.CDLL("libnccl.so.2")
    except OSError:
        return False
    return True


def _count(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'}"


_KINDS: dict[str, Callable[[int], Device]] = {CPUPlace.kind: CPUDevice}


def register_device(kind: str, make: Callable[[int], Device]) -> None:
    """Let executors open devices of a kind of place.

    Args:
        kind: `Place.kind` of the places. make: gives the device for an index.

    Raises:
        AlreadyExists: the kind is taken.
    """
    if kind in _KINDS:
        raise AlreadyExists(f"there is a device for places of kind {kind!r} already")
    _KINDS[kind] = make


def open_device(place: Place) -> Device:
    """The device at a place.

    Raises:
        Unavailable: there is none that can be used; says what is missing.
    """
    make = _KINDS.get(place.kind)
    if make is not None:
        return make(place.index)
    require_gpu()
    import_module("workbench.cuda.devices.gpu")  # notes what opens a GPU
    return _KINDS[place.kind](place.index)
