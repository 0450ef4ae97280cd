"""Ctrl-C at a chosen one of all the moments at which Python looks at signals."""

from __future__ import annotations

import dis
import signal
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from types import CodeType
from typing import Any


class Tripwire:
    """Raises SIGINT at the n-th such moment in some of our files; with None it only counts them.

    Args:
        files: their names end so.
    """

    def __init__(self, n: int | None, files: Sequence[str]) -> None:
        self.n, self.count, self._files = n, 0, tuple(files)

    def __enter__(self) -> Tripwire:
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _call(self, frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        return self._opcode

    def _opcode(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "opcode" and frame.f_lasti in moments(frame.f_code):
            if self.count == self.n:
                signal.raise_signal(signal.SIGINT)
            self.count += 1
        return self._opcode


@cache
def moments(code: CodeType) -> frozenset[int]:
    """Where Python looks: behind every call, where a loop begins again, and where a function begins.

    What comes behind a call is raised by the call: so a moment does not count where the call is the last thing that
    some `except` or `with` protects, for the next instruction cannot stand for it.
    """
    bytecode = dis.Bytecode(code)
    handlers = {
        offset: entry.target
        for entry in reversed(bytecode.exception_entries)
        for offset in range(entry.start, entry.end + 1, 2)
    }
    offsets = set()
    for before, after in pairwise(bytecode):
        looks = before.opname.startswith("CALL") or before.opname == "RESUME"
        if looks and handlers.get(before.offset) == handlers.get(after.offset):
            offsets.add(after.offset)
        if before.opname.startswith("JUMP_BACKWARD"):
            offsets.add(before.argval)
    return frozenset(offsets)
