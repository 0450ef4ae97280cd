"""Copies of the tree in which tests are run against a fault; a run is a group of processes, killed if it takes long."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTS = ("workbench", "magics", "assets", "tests", "pyproject.toml")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", ".*", "dist")

_OPTIONS = ("-q", "--tb=short", "-p", "mutation_listening", "-p", "no:cacheprovider", "-p", "no:nbval",
            "-o", "addopts=--import-mode=importlib", "-m", "not slow and not browser")  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """What became of a run.

    Attributes:
        passed: tests, with seconds and the functions they reached.
        failed: the test that failed first, or in which the process crashed or was killed; "" if none did.
        how: in words, if it did not just fail.
        text: the end of what it wrote.
    """

    passed: dict[str, tuple[float, frozenset[str]]]
    failed: str
    how: str = ""
    text: str = ""


class Copy:
    """A copy of a tree.

    Args:
        folder: where it is made; it must not exist.
    """

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root, self._task, self._log = folder / "tree", folder / "task.json", folder / "log.jsonl"
        self._group, self._stopped = 0, False  # of processes, while there are some
        self.root.mkdir(parents=True)
        for part in filter(Path.exists, (tree / name for name in PARTS)):
            if part.is_dir():
                shutil.copytree(part, self.root / part.name, ignore=_LEFT_OUT)
            else:
                shutil.copy2(part, self.root)
        shutil.copy2(Path(__file__).with_name("listening.py"), folder / "mutation_listening.py")

    @contextmanager
    def with_source(self, path: Path, source: bytes) -> Iterator[None]:
        """Another source in the place of a module's."""
        target = self.root / path
        kept = target.read_bytes()
        try:
            self._write(target, source)
            yield
        finally:
            self._write(target, kept)

    def _write(self, target: Path, source: bytes) -> None:
        """Compiled files are told apart by size and second: the old one has to go."""
        target.write_bytes(source)
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()

    def run(
        self,
        files: Sequence[str],
        limit: float,
        tests: Sequence[str] = (),
        listen: Collection[Path] = (),
        stop: bool = True,
    ) -> Ran:
        """Run tests.

        Args:
            files: with them. limit: seconds, after which the run is killed. tests: these of them, in this order.
            listen: modules of which it is noted what functions are reached. stop: at the first failure.
        """
        self._log.write_text("")
        modules = [os.path.realpath(self.root / path) for path in listen]
        self._task.write_text(json.dumps({"modules": modules, "tests": list(tests), "log": str(self._log)}))
        there = [name for name in files if (self.root / name.split("::")[0]).exists()]
        call = [sys.executable, "-m", "pytest", *_OPTIONS, *["-x"][:stop], *there]
        code, text = self._call(call, self._environment(bool(listen)), limit)
        return self._read(code, text)

    def stop(self) -> None:
        """End the run there is; none begins any more."""
        self._stopped = True
        if self._group:
            _kill(self._group)

    def _environment(self, listens: bool) -> dict[str, str]:
        path = os.pathsep.join([str(self.root), str(self._task.parent)])
        own = {"PYTHONPATH": path, "WORKBENCH_MUTATION": str(self._task), "CI": "1"}
        return {**os.environ, **own, **({} if listens else {"PYTHONDONTWRITEBYTECODE": "1"})}

    def _call(self, call: Sequence[str], environment: dict[str, str], limit: float) -> tuple[int | None, str]:
        """The exit status, None if it had to be killed, and what was written."""
        with subprocess.Popen(
            call, cwd=self.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, text=True, errors="replace",
        ) as process:  # fmt: skip
            self._group = process.pid
            try:
                text, _ = process.communicate(timeout=0 if self._stopped else limit)
                return process.returncode, text
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                _kill(process.pid)
                self._group = 0

    def _read(self, code: int | None, text: str) -> Ran:
        lines: list[dict[str, Any]] = [json.loads(line) for line in self._log.read_text().splitlines()]
        passed = {line["passed"]: (line["seconds"], frozenset(line["reached"])) for line in lines if "passed" in line}
        failed = [line["failed"] for line in lines if "failed" in line]
        begun = next((line["begun"] for line in reversed(lines) if "begun" in line), "the start")
        end = text[-2000:]
        if failed:
            return Ran(passed, failed[0], text=end)
        if code is None:
            return Ran(passed, begun, "did not come to an end", end)
        if code:
            return Ran(passed, begun, f"crashed ({_name(code)})" if lines else "nothing could be imported", end)
        return Ran(passed, "", text=end)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"
