"""`python -m tests.oracle.docs --paddle PYTHON`: which of Paddle's documented examples run here, and print its numbers.

    python -m tests.oracle.docs --paddle ~/paddle/bin/python                      # all namespaces
    python -m tests.oracle.docs --paddle ~/paddle/bin/python --only paddle.nn     # this one and those below
    python -m tests.oracle.docs --paddle ~/paddle/bin/python --show paddle.nn.Linear

PYTHON has Paddle installed (`pip install paddlepaddle==2.6.2 'numpy<2'`, Python 3.10). The examples are read out of
its docstrings at run time. Each runs in a process of its own under Paddle, where it must end without an error to be
counted, and with `paddle` standing for workbench. Numbers are compared where Paddle prints them whatever the seed: with
two seeds, and where ours are others with eight more. What Paddle prints does not change and is kept in a folder
(`--cache`).

The table has, by namespace: the examples, how many run, how many print numbers (and the same), how many that run draw
random numbers, how many print descriptions of programs and variables, of which ours are others, how many print anything
(and the same text). Then come the reasons why examples do not run, those that print other numbers, those that print
what is documented where the wheel does not, for want of a GPU (`amp.GradScaler` switches itself off) or of other
processes (`init_parallel_env` does nothing), and the missing names by the number of examples that use them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import workbench
from tests.oracle.answers import CACHE, ROOT, TIMEOUT, Kept, ask_all
from tests.oracle.names import object_named, used_names
from tests.oracle.table import Outcome, missing, namespaces, reasons

_LISTING = 300.0  # seconds
_MORE_SEEDS = range(3, 11)
WARM = "workbench.ops,workbench.static,workbench.executors.api.executor,workbench.optimizer,workbench.nn.functional"


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    compared = outcomes(asked)
    if not compared:
        print("no example of that name runs under Paddle", file=sys.stderr)
        return 2
    if asked.show:
        for outcome in compared:
            _show(outcome)
        return 0
    print(report(compared, asked.package))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.oracle.docs", description="Do Paddle's examples run here?")
    parser.add_argument("--paddle", required=True, metavar="PYTHON", help="a Python with Paddle installed")
    parser.add_argument("--only", action="append", default=[], help="a namespace, with those below it")
    parser.add_argument("--exactly", action="append", default=[], help="a namespace without those below it")
    parser.add_argument("--show", action="append", default=[], help="the example of a name, in full: both outputs")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time (1)")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where Paddle's answers are kept ({CACHE})")
    parser.add_argument("--package", default="paddle", help="the package to take examples from (paddle)")
    return parser


def outcomes(asked: argparse.Namespace) -> list[Outcome]:
    """What became of the chosen examples that run under the real package."""
    listed = _listed(asked.paddle, asked.package)
    kept = Kept(asked.cache / f"docs-{asked.package}-{listed['version']}.json")
    chosen = [example for example in listed["examples"] if _chosen(example, asked)]
    real = [asked.paddle, "-m", "tests.oracle.worker", asked.package]
    firsts = ask_all(real, [_request(example, seed=1, shift=0) for example in chosen], asked.jobs, kept)
    running = [(example, first) for example, first in zip(chosen, firsts, strict=True) if first["error"] is None]
    seconds = ask_all(real, [_request(example, seed=2, shift=2) for example, _ in running], asked.jobs, kept)
    ours = [sys.executable, "-m", "tests.oracle.worker", "workbench", "--as", asked.package, "--warm", WARM]
    answers = ask_all(ours, [_request(example, seed=1, shift=0) for example, _ in running], asked.jobs)
    outcomes = [
        Outcome(
            **example,
            expected=first["printed"],
            steady=second["error"] is None and second["printed"] == first["printed"],
            error=answer["error"],
            printed=answer["printed"],
        )
        for (example, first), second, answer in zip(running, seconds, answers, strict=True)
    ]
    return _told_by_more_seeds(outcomes, running, lambda requests: ask_all(real, requests, asked.jobs, kept))


def _told_by_more_seeds(
    outcomes: list[Outcome], running: Sequence[tuple[dict[str, Any], dict[str, Any]]], ask: Callable[..., list[Any]]
) -> list[Outcome]:
    """Two seeds may give the same few digits: what prints other numbers here is asked for with more of them."""
    places = [i for i, outcome in enumerate(outcomes) if outcome.deviates]
    for seed in _MORE_SEEDS:
        answers = ask([_request(running[i][0], seed=seed, shift=seed) for i in places])
        for i, answer in zip(places, answers, strict=True):
            if answer["printed"] != outcomes[i].expected:
                outcomes[i] = outcomes[i]._replace(steady=False)
    return outcomes


def _listed(python: str, package: str) -> dict[str, Any]:
    command = [python, "-m", "tests.oracle.listing", package]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LISTING)
    if listed.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{listed.stderr}")
    return json.loads(listed.stdout)


def _chosen(example: dict[str, Any], asked: argparse.Namespace) -> bool:
    namespace, name = example["namespace"], example["name"].split("#")[0]
    if asked.show:
        return name in asked.show
    if not (asked.only or asked.exactly):
        return True
    below = any(namespace == only or namespace.startswith(only + ".") for only in asked.only)
    return below or namespace in asked.exactly


def _request(example: dict[str, Any], seed: int, shift: int) -> dict[str, Any]:
    return {"source": example["source"], "seed": seed, "shift": shift, "timeout": TIMEOUT}


def report(compared: Sequence[Outcome], package: str) -> str:
    """The table and the lists below it."""
    used = {outcome.name: used_names(outcome.source, package) for outcome in compared}
    lacks = {name for names in used.values() for name in names if object_named(workbench, name) is None}
    deviating = [f"       {outcome.name}" for outcome in compared if outcome.deviates]
    documented = [f"       {outcome.name}" for outcome in compared if outcome.as_documented]
    return "\n".join(
        [
            namespaces(compared),
            "\nwhy examples do not run:",
            *reasons(compared),
            f"\nexamples that run and print other numbers: {len(deviating)}",
            *deviating,
            f"\nexamples that print what is documented, and not what Paddle prints on this machine: {len(documented)}",
            *documented,
            "\nmissing names, by the examples that use them:",
            *missing([used[outcome.name] for outcome in compared], lacks),
        ]
    )


def _show(outcome: Outcome) -> None:
    print(f"{outcome.name}\n{outcome.source}\n--- Paddle{'' if outcome.steady else ' (depends on the seed)'}:")
    print(f"{outcome.expected}--- here:\n{outcome.printed}{outcome.error or ''}\n")


if __name__ == "__main__":
    sys.exit(main())
