"""`python -m tests.oracle.ops --paddle PYTHON`: do Paddle's functions give the same values and gradients here?

    python -m tests.oracle.ops --paddle ~/paddle/bin/python
    python -m tests.oracle.ops --paddle ~/paddle/bin/python --only paddle.nn.functional

Every public function whose required parameters have the same names here is called with random operands, chosen by those
names; what Paddle refuses is passed over. The results and the gradients of a weighted sum of them are compared. What
Paddle prints is kept in a folder (`--cache`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import workbench
from tests.oracle.answers import CACHE, ROOT, TIMEOUT, Kept, ask_all
from tests.oracle.docs import WARM
from tests.oracle.names import object_named
from tests.oracle.numbers import numbers, same_numbers
from tests.oracle.operands import operands, program
from tests.oracle.signatures import Parameters, parameters

_LISTING = 300.0  # seconds


class Call(NamedTuple):
    """A function with one choice of operands, under the real package and here."""

    function: str
    operands: dict[str, str]
    expected: str
    printed: str
    error: str | None

    def same(self, what: str) -> bool:
        """Whether the line that begins with `what` has the same numbers."""
        line = _line(self.printed, what)
        return bool(line) and same_numbers(line, _line(self.expected, what))


def _line(printed: str, what: str) -> str:
    return next((line for line in printed.splitlines() if line.startswith(what)), "")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    listed = _listed(asked.paddle, asked.package)
    chosen = {name: own for name, own in listed["functions"].items() if name.startswith(asked.only)}
    agreeing = {name: own for name, own in chosen.items() if differences(name, own) is None}
    calls = _calls(asked, agreeing, Kept(asked.cache / f"ops-{asked.package}-{listed['version']}.json"))
    for name in chosen:
        if name not in agreeing:
            print(f"{name}: {differences(name, chosen[name])}")
    print("\n".join(deviations(calls)))
    counts = [sum(call.same(what) for call in calls) for what in ("values", "gradients")]
    tried = {call.function for call in calls}
    print(
        f"{len(chosen)} functions, {len(agreeing)} with the same parameters here, {len(tried)} tried; "
        f"{len(calls)} calls, {counts[0]} with the same values, {counts[1]} with the same gradients"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.oracle.ops", description="Do Paddle's functions agree here?")
    parser.add_argument("--paddle", required=True, metavar="PYTHON", help="a Python with Paddle installed")
    parser.add_argument("--only", default="", help="the beginning of the functions' names")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time (1)")
    parser.add_argument("--calls", type=int, default=3, help="calls of a function to compare (3)")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where Paddle's answers are kept ({CACHE})")
    parser.add_argument("--package", default="paddle", help="the package to take functions from (paddle)")
    return parser


def _listed(python: str, package: str) -> dict[str, Any]:
    command = [python, "-m", "tests.oracle.signatures", package]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LISTING)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return json.loads(ran.stdout)


def differences(name: str, expected: Parameters) -> str | None:
    """How the parameters of our function differ from those of the real one; None if they do not."""
    ours = object_named(workbench, name)
    if ours is None:
        return "missing"
    own = [parameter for parameter, _ in parameters(ours)]
    lacking = [parameter for parameter, _ in expected if parameter not in own]
    if lacking:
        return f"has no parameter {', '.join(lacking)}"
    order = [parameter for parameter in own if parameter in dict(expected)]
    return None if order == [parameter for parameter, _ in expected] else f"has the parameters {own}"


def _calls(asked: argparse.Namespace, functions: dict[str, Parameters], kept: Kept) -> list[Call]:
    """The first calls of every function that the real package accepts."""
    tries = [
        (name, chosen)
        for name, own in functions.items()
        for chosen in operands([parameter for parameter, required in own if required])
    ]
    requests = [_request(program(name, chosen, asked.package)) for name, chosen in tries]
    real = ask_all([asked.paddle, "-m", "tests.oracle.worker", asked.package], requests, asked.jobs, kept)
    accepted: dict[str, list[int]] = {}
    for index, ((name, _), answer) in enumerate(zip(tries, real)):
        if answer["error"] is None and numbers(answer["printed"]) and len(accepted.get(name, ())) < asked.calls:
            accepted.setdefault(name, []).append(index)
    chosen = [index for indices in accepted.values() for index in indices]
    ours = [sys.executable, "-m", "tests.oracle.worker", "workbench", "--as", asked.package, "--warm", WARM]
    answers = ask_all(ours, [requests[index] for index in chosen], asked.jobs)
    return [
        Call(*tries[index], real[index]["printed"], answer["printed"], answer["error"])
        for index, answer in zip(chosen, answers)
    ]


def _request(source: str) -> dict[str, Any]:
    return {"source": source, "seed": 1, "shift": 0, "timeout": TIMEOUT}


def deviations(calls: Sequence[Call]) -> list[str]:
    """A line per call that does not give the same."""
    return [
        f"{call.function}({', '.join(f'{name}={operand}' for name, operand in call.operands.items())}): "
        + (call.error or f"other {what}")
        for call in calls
        for what in [next((w for w in ("values", "gradients") if not call.same(w)), None)]
        if what is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
