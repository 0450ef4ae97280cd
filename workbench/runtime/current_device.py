"""The device of dynamic mode, and what Paddle's programs ask about devices: there is the CPU so far."""

from __future__ import annotations

import re
from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.values.place import CPUPlace
from workbench.runtime.devices import require_gpu

_CPU = "cpu"


def set_device(device: str) -> CPUPlace:
    """Have dynamic mode compute on a device.

    Args:
        device: "cpu"; "gpu" and "gpu:k" are refused so far.

    Returns:
        its place.

    Raises:
        InvalidArgument: no such device. Unavailable: a GPU.

    Example:
        >>> wb.set_device("cpu")
        CPUPlace()
    """
    if device == _CPU:
        return CPUPlace()
    if isinstance(device, str) and re.fullmatch(r"gpu(:\d+)?", device):
        require_gpu()
    raise InvalidArgument(f"the device is 'cpu' so far, got {device!r}")


def get_device() -> str:
    """The device dynamic mode computes on.

    Example:
        >>> wb.get_device()
        'cpu'
    """
    return _CPU


def is_compiled_with_xpu() -> bool:
    """False: there are no XPUs."""
    return False


def is_compiled_with_rocm() -> bool:
    """False: there are no ROCm devices."""
    return False


def is_compiled_with_custom_device(device_type: str) -> bool:
    """False: there are no devices of other makes."""
    return False


def is_compiled_with_ipu() -> bool:
    """False: there are no IPUs.

    Example:
        >>> wb.is_compiled_with_ipu()
        False
    """
    return False


def is_compiled_with_cinn() -> bool:
    """False: programs are compiled by passes and kernels of this package, not by CINN."""
    return False


def is_compiled_with_distribute() -> bool:
    """True: there are process groups."""
    return True


def get_all_custom_device_type() -> list[str]:
    """The kinds of devices of other makes: none."""
    return []


def get_available_custom_device() -> list[str]:
    """The devices of other makes: none."""
    return []


def get_all_device_type() -> list[str]:
    """The kinds of devices besides the CPU."""
    return []


def get_available_device() -> list[str]:
    """The devices besides the CPU."""
    return []


def get_cudnn_version() -> Any:
    """None: cuDNN is not used."""
    return None
