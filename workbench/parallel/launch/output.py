"""What the processes of a job print: shown line by line with the rank before it, and kept in a file for each."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import defaultdict, deque
from pathlib import Path
from typing import BinaryIO

LONGEST = 1 << 16  # bytes without a line's end that are kept back
REMEMBERED = 40  # lines of a process's stderr

# What mpiexec puts before what a process on another machine has printed: Open MPI's and MPICH's.
_TAG = re.compile(rb"\[\d+,(\d+)\]<(?:stdout|stderr)>: |^\[(\d+)\] ")


class JobOutput:
    """Where the processes' output goes.

    Args:
        log_dir: a folder for `workerlog.RANK`; None keeps nothing. goes_on: what is in these files stays there.

    Raises:
        OSError: the folder cannot be made or written to.
    """

    def __init__(self, processes: int, log_dir: Path | None, goes_on: bool = False) -> None:
        self._logs: list[BinaryIO] = []
        self._rests: dict[tuple[int, str], bytes] = {}
        self._untold: dict[str, bytes] = defaultdict(bytes)
        self._errors: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        if log_dir is not None:
            log_dir.mkdir(parents=True, exist_ok=True)
            mode = "ab" if goes_on else "wb"
            self._logs = [(log_dir / f"workerlog.{rank}").open(mode, buffering=0) for rank in range(processes)]  # type: ignore[misc]

    def take(self, rank: int, stream: str, data: bytes) -> None:
        """Some bytes a process has printed on `"out"` or `"err"`."""
        if self._logs:
            self._logs[rank].write(data)
        key = rank, stream
        *lines, rest = (self._rests.pop(key, b"") + data).split(b"\n")
        if len(rest) > LONGEST:
            lines, rest = [*lines, rest], b""
        if rest:
            self._rests[key] = rest
        if lines:
            self._show(rank, stream, lines)

    def take_tagged(self, stream: str, data: bytes) -> None:
        """Some bytes from mpiexec: lines of its own, and of processes on other machines, with a tag each."""
        *lines, self._untold[stream] = (self._untold[stream] + data).split(b"\n")
        for line in lines:
            own, *told = _TAG.split(line)
            if own or not told:
                self.show(stream, own.decode(errors="replace") + "\n")
            for at in range(0, len(told), 3):
                self.take(int(told[at] or told[at + 1]), stream, told[at + 2] + b"\n")

    def last_errors(self, rank: int) -> str:
        """The last lines of a process's stderr."""
        return "".join(f"{line}\n" for line in self._errors[rank])

    def show(self, stream: str, text: str) -> None:
        """A line that no process printed."""
        target = sys.stdout if stream == "out" else sys.stderr
        with contextlib.suppress(BrokenPipeError, ValueError):  # whoever reads it has gone
            target.write(text)
            target.flush()

    def close(self) -> None:
        """Show what came without a line's end."""
        for stream in list(self._untold):
            if self._untold[stream]:
                self.take_tagged(stream, b"\n")
        for (rank, stream), rest in self._rests.items():
            self._show(rank, stream, [rest])
        self._rests.clear()
        for log in self._logs:
            log.close()
        self._logs = []

    def _show(self, rank: int, stream: str, lines: list[bytes]) -> None:
        texts = [line.decode(errors="replace") for line in lines]
        if stream == "err":
            self._errors[rank].extend(texts)
        self.show(stream, "".join(f"[{rank}] {text}\n" for text in texts))
