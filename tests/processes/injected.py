"""Signals at chosen moments: a handler that raises wherever Python would have looked at signals, and again later.

Python answers signals behind a call, at the beginning of a function and where a loop goes back. `Injected` counts these
moments in the package's own code by tracing it, and raises KeyboardInterrupt at the ones it is told. Tracing ends when
a trace function raises; it is taken up again when `OpenStep.close` is called, which is the next thing to happen.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

from workbench.executors.running.step.open_step import OpenStep

_LOOKS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD"}
_BEGIN = {"_in_one_call", "commit"}  # of `StepRunner`: what can vote
_close = OpenStep.close


class Injected:
    """Calls a function with interrupts in it.

    Args:
        moments: of the first interrupt, counted from the beginning of what can vote; of every further one, counted
            from when the one before is answered.

    Attributes:
        came: how many of them did.
    """

    def __init__(self, *moments: int) -> None:
        self._moments, self.came, self._left = moments, 0, -1
        self._last: dict[int, tuple[CodeType, int]] = {}

    def __call__(self, function: Callable[[], Any]) -> None:
        """Swallows what they raise, unless the function goes on as if nothing had been."""
        OpenStep.close = self._closing(self)  # type: ignore[method-assign]
        sys.settrace(self._enter)
        try:
            function()
        finally:
            sys.settrace(None)
            OpenStep.close = _close  # type: ignore[method-assign]
            self._last.clear()

    @staticmethod
    def _closing(own: Injected) -> Callable[..., None]:
        def close(step: OpenStep, error: BaseException | None = None) -> None:
            own._go_on()
            _close(step, error)

        return close

    def _go_on(self) -> None:
        """Count again, from here and up to the caller."""
        if 0 < self.came < len(self._moments):
            self._left = self._moments[self.came]
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code is not Injected.__call__.__code__:
                frame = self._traced(frame).f_back
            sys.settrace(self._enter)

    def _traced(self, frame: FrameType) -> FrameType:
        if "/workbench/" in frame.f_code.co_filename:
            frame.f_trace, frame.f_trace_opcodes = self._at, True
        return frame

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if (
            self.came == 0
            and self._left < 0
            and frame.f_code.co_name in _BEGIN
            and "step_runner" in frame.f_code.co_filename
        ):
            self._left = self._moments[0]
        return self._traced(frame).f_trace

    def _at(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            code, before = self._last.get(id(frame), (None, -1))
            self._last[id(frame)] = frame.f_code, frame.f_lasti
            if self._left >= 0 and code is frame.f_code and _is_a_look(frame, before):
                self._left -= 1
                if self._left < 0:
                    self.came += 1
                    raise KeyboardInterrupt(f"at {frame.f_code.co_name}, line {frame.f_lineno}")
        return self._at


def _is_a_look(frame: FrameType, before: int) -> bool:
    """Whether Python looks at signals behind an instruction, and whoever handles what comes there handles it here."""
    if dis.opname[frame.f_code.co_code[before]] not in _LOOKS:
        return False
    return _handler(frame.f_code, before) == _handler(frame.f_code, frame.f_lasti)


@cache
def _handler(code: CodeType, at: int) -> int:
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((entry.target for entry in entries if entry.start <= at < entry.end), -1)
