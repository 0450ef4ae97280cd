"""What a launch may ask of each architecture, by the table of compute capabilities in the CUDA guide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.cuda.simulated.ptx.faults import LaunchRefused
from workbench.cuda.simulated.ptx.module import KernelEntry, KernelParameter


@dataclass(frozen=True)
class Architecture:
    """Sizes that bound a launch; bytes of shared memory include what a kernel has to opt in to."""

    name: str
    shared_bytes: int
    parameter_bytes: int = 4096
    threads_per_block: int = 1024
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    registers_per_block: int = 65536
    static_shared_bytes: int = 48 << 10
    local_bytes: int = 512 << 10

    @property
    def capability(self) -> int:
        return int(self.name.removeprefix("sm_"))


ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("sm_70", 96 << 10),
        Architecture("sm_75", 64 << 10),
        Architecture("sm_80", 163 << 10),
        Architecture("sm_86", 99 << 10),
        Architecture("sm_89", 99 << 10),
        Architecture("sm_90", 227 << 10, parameter_bytes=32764),
        Architecture("sm_100", 227 << 10, parameter_bytes=32764),
    )
}

_KINDS = {"u": "iu", "s": "iu", "b": "iufV", "f": "f"}


def check_launch(
    entry: KernelEntry, architecture: Architecture, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int
) -> None:
    """Refuse what the architecture does not have, as the driver does."""
    for what, given, most in (("grid", grid, architecture.grid), ("block", block, architecture.block)):
        if any(not 1 <= size <= limit for size, limit in zip(given, most)):
            _refuse(entry, f"its {what} is {given}; {architecture.name} takes 1 to {most}")
    threads = block[0] * block[1] * block[2]
    if threads > architecture.threads_per_block:
        _refuse(entry, f"a block has {threads} threads; {architecture.name} takes {architecture.threads_per_block}")
    if entry.shared_bytes > architecture.static_shared_bytes:
        _refuse(entry, f"it declares {entry.shared_bytes} bytes of shared memory; at most 48 KiB can be declared")
    if entry.shared_bytes + shared_bytes > architecture.shared_bytes:
        asked = entry.shared_bytes + shared_bytes
        _refuse(
            entry, f"a block needs {asked} bytes of shared memory; {architecture.name} has {architecture.shared_bytes}"
        )
    if entry.parameter_bytes > architecture.parameter_bytes:
        _refuse(entry, f"its parameters have {entry.parameter_bytes} bytes; at most {architecture.parameter_bytes} fit")
    if entry.local_bytes > architecture.local_bytes:
        _refuse(
            entry, f"a thread needs {entry.local_bytes} bytes of local memory; there are {architecture.local_bytes}"
        )
    _check_hints(entry, architecture, block, threads)


def _check_hints(entry: KernelEntry, architecture: Architecture, block: tuple[int, ...], threads: int) -> None:
    most = int(np.prod(entry.limits.get("maxntid", (1024,))))
    if threads > most:
        _refuse(entry, f"a block has {threads} threads; __launch_bounds__ promises {most}")
    registers = entry.limits.get("maxnreg", (0,))[0] * threads
    if registers > architecture.registers_per_block:
        _refuse(
            entry, f"a block needs {registers} registers; {architecture.name} has {architecture.registers_per_block}"
        )


def pack_arguments(entry: KernelEntry, arguments: Sequence[object]) -> bytes:
    """Return the bytes of all parameters; an argument of another size or kind than its parameter is refused."""
    if len(arguments) != len(entry.parameters):
        _refuse(entry, f"it has {len(entry.parameters)} parameters, {len(arguments)} arguments were given")
    packed = bytearray(entry.parameter_bytes)
    for at, (parameter, argument) in enumerate(zip(entry.parameters, arguments)):
        data = _argument_bytes(entry, at, parameter, argument)
        packed[parameter.offset : parameter.offset + len(data)] = data
    return bytes(packed)


def _argument_bytes(entry: KernelEntry, at: int, parameter: KernelParameter, argument: object) -> bytes:
    if parameter.type == "bytes":
        data = argument if isinstance(argument, bytes) else np.asarray(argument).tobytes()
    elif isinstance(argument, int):
        if not -(1 << 8 * parameter.nbytes - 1) <= argument < 1 << 8 * parameter.nbytes:
            _refuse(entry, f"argument {at}, {argument}, does not fit its parameter of type {parameter.type}")
        if parameter.type[0] == "f":
            _refuse(entry, f"argument {at} is the int {argument}; its parameter has type {parameter.type}")
        data = (argument % (1 << 8 * parameter.nbytes)).to_bytes(parameter.nbytes, "little")
    elif isinstance(argument, np.generic):
        if argument.dtype.kind not in _KINDS[parameter.type[0]] + "b":
            _refuse(entry, f"argument {at} is a {argument.dtype}; its parameter has type {parameter.type}")
        data = argument.tobytes()
    else:
        _refuse(entry, f"argument {at} is a {type(argument).__name__}; it has to be a NumPy scalar, an int or bytes")
    if len(data) != parameter.nbytes:
        _refuse(
            entry, f"argument {at} has {len(data)} bytes, its parameter of type {parameter.type} {parameter.nbytes}"
        )
    return data


def _refuse(entry: KernelEntry, why: str) -> None:
    raise LaunchRefused(f"The kernel {entry.name} cannot be launched: {why}")
