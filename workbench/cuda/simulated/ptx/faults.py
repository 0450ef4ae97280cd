"""What a simulated kernel can do wrong, as exceptions that name kernel, instruction, source line, thread and block."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.cuda.simulated.ptx.module import KernelEntry, PtxInstruction
from workbench.errors import ExecutionError


@dataclass(frozen=True)
class Culprit:
    """A thread of a launch, as its kernel sees itself."""

    thread: tuple[int, int, int]
    block: tuple[int, int, int]

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block}"


class KernelFault(ExecutionError):
    """A kernel broke a rule of CUDA.

    Attributes:
        kernel, instruction, line: where it happened; line 0 where the source has none.
        culprit: the first thread that did it.
    """

    def __init__(self, what: str, entry: KernelEntry, instruction: PtxInstruction, culprit: Culprit) -> None:
        place = f"line {instruction.line}" if instruction.line else "an unknown line"
        super().__init__(f"{what}\n  in kernel {entry.name}, {place}, {culprit}\n  at: {instruction}")
        self.kernel, self.instruction, self.line, self.culprit = entry.name, str(instruction), instruction.line, culprit


class AddressOutOfBounds(KernelFault):
    """An address lies outside all memory that the thread may use."""


class UseAfterFree(KernelFault):
    """An address lies in memory that was given back."""


class UninitialisedRead(KernelFault):
    """A thread reads bytes that nobody wrote."""


class Misaligned(KernelFault):
    """An address is no multiple of the size of what is moved."""


class Race(KernelFault):
    """Two threads use the same bytes, one at least writes, and nothing orders them."""


class BarrierFault(KernelFault):
    """Not all threads of a block reach a barrier, or they reach different ones."""


class InactiveLane(KernelFault):
    """A warp-wide instruction names a lane that does not take part."""


class WriteToConstant(KernelFault):
    """A thread writes to constant memory or to memory that is read through the read-only path."""


class StepLimit(KernelFault):
    """A launch takes more instructions than it was given; it hangs, very likely."""


class LaunchRefused(ExecutionError):
    """A launch asks for more than the architecture has, or its arguments do not fit the parameters."""
