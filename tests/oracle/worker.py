"""`PYTHON -m tests.oracle.worker PACKAGE [--as NAME] [--warm MODULES]`: runs examples, each in a forked child.

The package is imported once, which takes seconds; a fork takes milliseconds. Every line on standard input is a request
in JSON: `{"source", "seed", "shift", "timeout"}`. Every line on standard output answers one:
`{"error", "printed", "seconds"}`, `error` None or `"Type: first line"`. It runs under the Python that has the package,
so it needs the standard library alone.

A number that depends on the seed differs between two requests with different `seed` and `shift`: the first is what is
set before an example runs, the second is added to every seed the example sets itself.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import importlib
import importlib.abc
import importlib.util
import io
import json
import linecache
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from functools import partial
from types import ModuleType
from typing import Any

PRINTED = 1_000_000  # characters kept of what an example prints


class Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of a package under another name; they stay the same modules."""

    def __init__(self, package: str, name: str) -> None:
        self.package, self.name = package, name

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.split(".")[0] != self.name:
            return None
        own = self._own(fullname)
        try:
            spec = importlib.util.find_spec(own)
        except ModuleNotFoundError:
            spec = None
        return spec and importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec: Any) -> ModuleType:
        module = importlib.import_module(self._own(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec

    def _own(self, fullname: str) -> str:
        return self.package + fullname[len(self.name) :]


def serve(package: ModuleType) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    requests = os.fdopen(os.dup(0))
    for descriptor in (0, 1, 2):  # of what an example prints past Python, nothing gets among the answers
        os.dup2(nothing, descriptor)
    for line in requests:
        print(json.dumps(answered(json.loads(line), package)), file=answers, flush=True)


def answered(request: dict[str, Any], package: ModuleType) -> dict[str, Any]:
    """Run a request in a forked child, in a folder of its own, and wait until it ends or its time is over."""
    begun = time.monotonic()
    folder = tempfile.mkdtemp(prefix="oracle-")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _child(request, package, folder, writing)
    os.close(writing)
    told = _read(reading, begun + request["timeout"])
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # with what the example has started
    _, status = os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - begun, 3)
    if told is None:
        return {"error": f"Timeout: more than {request['timeout']} s", "printed": "", "seconds": seconds}
    if not told:
        return {"error": f"Died: wait status {status}", "printed": "", "seconds": seconds}
    return {**json.loads(told), "seconds": seconds}


def _read(descriptor: int, deadline: float) -> str | None:
    """All that comes up to the end, None if the deadline comes before that."""
    pieces = []
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        while (left := deadline - time.monotonic()) > 0:
            if select.select([stream], [], [], left)[0]:
                piece = stream.read(1 << 16)
                if not piece:
                    return b"".join(pieces).decode()
                pieces.append(piece)
                if piece.endswith(b"\n"):  # grandchildren may keep the pipe open
                    return b"".join(pieces).decode()
    return None


def _child(request: dict[str, Any], package: ModuleType, folder: str, descriptor: int) -> None:
    """Run the request, write the answer, end this process."""
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        signal.alarm(int(request["timeout"]) + 5)  # if the parent is gone
        _seed(request, package)
        answer = json.dumps(run(request["source"])) + "\n"
        with os.fdopen(descriptor, "w") as stream:
            stream.write(answer)
    finally:
        os._exit(0)


def _seed(request: dict[str, Any], package: ModuleType) -> None:
    numpy = sys.modules.get("numpy")
    for owner in (random, package, *([numpy.random] if numpy else [])):
        seed = getattr(owner, "seed", None)
        if seed is not None:
            seed(request["seed"])
            owner.seed = partial(_shifted, seed, request["shift"])


def _shifted(seed: Any, shift: int, value: Any = None, *args: Any) -> Any:
    return seed(value + shift if isinstance(value, int) else value, *args)


def run(source: str) -> dict[str, Any]:
    """What an example prints, and the error it ends with."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        error = _error_of(source)
    return {"error": error, "printed": printed.getvalue()[:PRINTED]}


def _error_of(source: str) -> str | None:
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    sys.modules["__main__"].__dict__.update(names)
    try:
        for piece, refused in _pieces(source):
            try:
                exec(piece, names)
            except Exception as raised:
                if not refused:
                    raise
                print(type(raised).__name__)
    except SystemExit:
        return None
    except BaseException as raised:
        lines = str(raised).strip().splitlines() or [""]
        return f"{type(raised).__name__}: {_telling(lines)}"
    return None


def _telling(lines: list[str]) -> str:
    """The line of a message that says what is wrong: the last where the first is a heading of a traceback."""
    return lines[-1] if len(lines) > 1 and (not lines[0] or set(lines[0]) <= set("-= ")) else lines[0]


def _pieces(source: str) -> list[tuple[Any, bool]]:
    """Compiled statements, and whether each is meant to raise.

    Values of bare expressions are shown, as at a prompt, where the example says what they are.
    """
    try:
        parsed = doctest.DocTestParser().get_examples(source)
        modes = ["single" if e.want.strip() else "exec" for e in parsed]
        return [(_compiled(e.source, m), e.exc_msg is not None) for e, m in zip(parsed, modes)]
    except (SyntaxError, ValueError):  # blocks with `>>>` on every line
        return [(_compiled(unprompted(source), "exec"), False)]


def _compiled(source: str, mode: str) -> Any:
    """A piece of an example, whose source can be looked up as that of a notebook's cell can."""
    name = f"<example {len(linecache.cache)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    return compile(source, name, mode)


def unprompted(source: str) -> str:
    lines = [line for line in source.splitlines() if line.lstrip().startswith((">>>", "..."))]
    return "\n".join(line.lstrip()[4:] for line in lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("tests.oracle.worker")
    parser.add_argument("package")
    parser.add_argument("--as", dest="name", default=None, help="what examples call it")
    parser.add_argument("--warm", default="", help="modules to import before the first example, with commas")
    asked = parser.parse_args(arguments)
    package = importlib.import_module(asked.package)
    for module in filter(None, asked.warm.split(",")):
        importlib.import_module(module)
    if asked.name:
        sys.meta_path.insert(0, Renamed(asked.package, asked.name))
        importlib.import_module(asked.name)
    serve(package)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
