"""Workers under any Python, asked in parallel; what the real package answered is kept in a file."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import select
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.checkpoint.atomic import replace_file

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "workbench-oracle"
TIMEOUT = 60.0  # seconds an example may take
_STARTING = 120.0  # seconds a worker may take to import its package
_KEEPING = 25  # new answers after which they are written to the file

Answer = dict[str, Any]


class WorkerLost(RuntimeError):
    """A worker ended, or does not answer."""


class Worker:
    """A process of `tests.oracle.worker`."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOG_v": "0", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment, text=True
        )

    def ask(self, request: dict[str, Any]) -> Answer:
        """The answer to one request.

        Raises:
            WorkerLost: the process is gone or says nothing.
        """
        to, fro = self._process.stdin, self._process.stdout
        assert to is not None and fro is not None
        try:
            to.write(json.dumps(request) + "\n")
            to.flush()
        except OSError as error:
            raise WorkerLost(f"{self._process.args} ended with status {self._process.poll()}") from error
        ready, _, _ = select.select([fro], [], [], request["timeout"] + _STARTING)
        line = fro.readline() if ready else ""
        if not line:
            raise WorkerLost(f"{self._process.args} does not answer (status {self._process.poll()})")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(timeout=30)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def workers(command: Sequence[str], count: int) -> Iterator[Callable[[dict[str, Any]], Answer]]:
    """A function that asks one of `count` workers; threads may call it at the same time."""
    idle: queue.Queue[Worker] = queue.Queue()
    started = [Worker(command) for _ in range(count)]
    for worker in started:
        idle.put(worker)

    def ask(request: dict[str, Any]) -> Answer:
        worker = idle.get(timeout=3600)
        try:
            return worker.ask(request)
        finally:
            idle.put(worker)

    try:
        yield ask
    finally:
        for worker in started:
            worker.close()


def ask_all(command: Sequence[str], requests: Sequence[dict[str, Any]], jobs: int, kept: Kept | None = None) -> list:
    """The answers to requests, in their order; those that `kept` has are not asked for."""
    kept = kept if kept is not None else Kept(None)
    asked = [request for request in requests if kept.get(request) is None]
    if asked:
        with workers(command, min(jobs, len(asked))) as ask, ThreadPoolExecutor(jobs) as threads:
            for request, answer in zip(asked, threads.map(ask, asked), strict=True):
                kept.put(request, answer)
    kept.write()
    return [kept.get(request) for request in requests]


class Kept:
    """Answers by request, in a JSON file if there is a path."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock, self._new = path, threading.Lock(), 0
        self._answers: dict[str, Answer] = json.loads(path.read_text()) if path and path.is_file() else {}

    def get(self, request: dict[str, Any]) -> Answer | None:
        return self._answers.get(_key(request))

    def put(self, request: dict[str, Any], answer: Answer) -> None:
        with self._lock:
            self._answers[_key(request)] = answer
            self._new += 1
        if self._new >= _KEEPING:
            self.write()

    def write(self) -> None:
        with self._lock:
            if self._path is None or not self._new:
                return
            self._new = 0
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, [json.dumps(self._answers).encode()])


def _key(request: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
