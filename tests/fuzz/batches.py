"""Cases of a fuzzer in processes of their own: one that crashes or hangs ends only itself, and the rest goes on.

A worker is a command that takes a seed, the number of the first case and how many there are. It prints a line of JSON
before a case, `{"begins": 7}`, and one after it, with its `index` and its `verdict`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Timer
from typing import Any

BATCH = 100  # cases of a process
PATIENCE = 120.0  # seconds for a case


def run_batches(worker: Sequence[str], seed: int, first: int, count: int, processes: int) -> Iterator[dict[str, Any]]:
    """What became of all cases, in order."""
    starts = range(first, first + count, BATCH)
    with ThreadPoolExecutor(processes) as pool:
        batches = pool.map(lambda at: list(run_batch(worker, seed, at, min(BATCH, first + count - at))), starts)
        for batch in batches:
            yield from batch


def run_batch(worker: Sequence[str], seed: int, first: int, count: int) -> Iterator[dict[str, Any]]:
    """What became of cases, in order; whoever ends the process is told, and another process goes on behind it."""
    end = first + count
    while first < end:
        for line in _lines(worker, seed, first, end - first):
            yield line
            first = line["index"] + 1


def _lines(worker: Sequence[str], seed: int, first: int, count: int) -> Iterator[dict[str, Any]]:
    """Up to all of them from one process."""
    command = [*worker, str(seed), str(first), str(count)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        errors: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: errors.extend(process.stderr or ()))
            done, hung = first, []
            clock = _clock(process, hung, 2 * PATIENCE)
            for text in process.stdout:
                clock.cancel()
                clock = _clock(process, hung, PATIENCE)
                line = json.loads(text)
                if "verdict" in line:
                    done = line["index"] + 1
                    yield line
            clock.cancel()
            status = process.wait(PATIENCE)
        if done < first + count:
            details = f"exit status {status}\n" + "".join(errors)[-3000:]
            yield {"index": done, "verdict": "HANG" if hung else "CRASH", "done": [], "details": details}


def _clock(process: subprocess.Popen[str], hung: list[bool], patience: float) -> Timer:
    def end() -> None:
        hung.append(True)
        process.kill()

    clock = Timer(patience, end)
    clock.daemon = True
    clock.start()
    return clock
