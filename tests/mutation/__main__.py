"""`python -m tests.mutation`: do the tests notice when the engine is wrong?

Faults are made on purpose, one at a time, in copies of the tree, and the tests of their area are run until one fails:

    python -m tests.mutation                      # all areas
    python -m tests.mutation --only planning      # an area, a named fault, or the key of one
    python -m tests.mutation --list               # what would be done
    python -m tests.mutation --seed 1             # other faults, by the same rules

It ends with status 1 if a fault survives that `known.py` does not explain.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutation.areas import AREAS, Area
from tests.mutation.choice import Mutant, choose, matching
from tests.mutation.copies import Copy, Ran

ROOT = Path(__file__).resolve().parents[2]
_LISTENING = 1200.0  # seconds the tests may take without a fault
_PATIENCE = 45.0  # seconds more than three times what its tests take, after which a fault counts as a hang
KILLED, SURVIVED, EXPLAINED = "killed", "survived", "explained"
Verdict = tuple[str, str]  # one of the above, and by which test or why


def main(arguments: Sequence[str] | None = None, root: Path = ROOT, areas: Sequence[Area] = AREAS) -> int:
    asked = _parser().parse_args(arguments)
    mutants = matching(choose(root, areas, asked.seed), asked.only)
    if not mutants:
        print(f"nothing is called {', '.join(asked.only)}: see --list", file=sys.stderr)
        return 2
    if asked.list:
        for mutant in mutants:
            print(mutant)
        return 0
    if asked.tests:
        mutants = [mutant.asking(asked.tests) for mutant in mutants]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="workbench-mutation-", ignore_cleanup_errors=True) as folder:
        verdicts = _try_all(mutants, root, Path(folder), asked.jobs)
    if verdicts is None:
        return 2
    return _tell(mutants, verdicts, time.monotonic() - begun)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.mutation", description="Do the tests notice faults?")
    parser.add_argument("--only", action="append", default=[], help="an area, `named`, a key, or a part of a name")
    parser.add_argument("--tests", action="append", default=[], help="ask these test files instead of the area's")
    parser.add_argument("--seed", default="0", help="chooses other faults")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--list", action="store_true", help="only tell what would be done")
    return parser


def _try_all(mutants: Sequence[Mutant], root: Path, folder: Path, jobs: int) -> dict[Mutant, Verdict] | None:
    """The verdict on each; None if the tests fail without a fault."""
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    trees = [Copy(root, folder / str(i)) for i in range(max(min(jobs, len(mutants)), 1))]
    heard = _listen(mutants, trees)
    if heard.failed:
        print(f"without any fault {heard.failed} fails{' or ' * bool(heard.how)}{heard.how}:\n{heard.text}", flush=True)
        return None
    print(f"{len(heard.passed)} tests pass; {len(mutants)} faults", flush=True)
    for copy in trees:
        copies.put(copy)
    verdicts: dict[Mutant, Verdict] = {}
    with ThreadPoolExecutor(len(trees)) as pool:
        tries = {pool.submit(_try, mutant, copies, heard): mutant for mutant in mutants}
        try:
            for number, done in enumerate(as_completed(tries), 1):
                mutant = tries[done]
                verdicts[mutant] = done.result()
                print(f"{number:4}/{len(tries)}  {mutant}\n           {': '.join(verdicts[mutant])}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in trees:
                copy.stop()
            raise
    return verdicts


def _listen(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> Ran:
    """Run the tests without a fault, a share of the files in each copy, and note which functions they reach."""
    files = list(dict.fromkeys(name for mutant in mutants for name in mutant.tests))
    modules = {mutant.path for mutant in mutants}
    with ThreadPoolExecutor(len(copies)) as pool:
        shares = [files[i :: len(copies)] for i in range(min(len(copies), len(files)))]
        runs = list(pool.map(lambda c, f: c.run(f, _LISTENING, listen=modules), copies, shares))
    passed = {test: reached for run in runs for test, reached in run.passed.items()}
    worst = next((run for run in runs if run.failed), runs[0])
    return Ran(passed, worst.failed, worst.how, worst.text)


def _try(mutant: Mutant, copies: queue.SimpleQueue[Copy], heard: Ran) -> Verdict:
    if mutant.reason:
        return EXPLAINED, mutant.reason
    tests = mutant.reached_by(heard.passed)
    if not tests:
        return SURVIVED, "its area has no test that passes"
    limit = _PATIENCE + 3 * sum(heard.passed[test][0] for test in tests)
    copy = copies.get()
    try:
        with copy.with_source(mutant.path, mutant.source):
            ran = copy.run(sorted({test.split("::")[0] for test in tests}), limit, tests)
    finally:
        copies.put(copy)
    if ran.failed:
        return KILLED, f"{ran.failed}{', ' * bool(ran.how)}{ran.how}"
    return SURVIVED, f"{len(tests)} tests pass"


def _tell(mutants: Sequence[Mutant], verdicts: dict[Mutant, Verdict], seconds: float) -> int:
    """The table; the status of the command."""
    print(f"\n{'area':12} {KILLED:>8} {EXPLAINED:>10} {SURVIVED:>9}")
    for area in dict.fromkeys(mutant.area for mutant in mutants):
        kinds = [verdicts[m][0] for m in mutants if m.area == area]
        print(f"{area:12} {kinds.count(KILLED):8} {kinds.count(EXPLAINED):10} {kinds.count(SURVIVED):9}")
    left = [mutant for mutant in mutants if verdicts[mutant][0] == SURVIVED]
    print(f"\n{len(mutants)} faults in {seconds / 60:.1f} minutes, {len(left)} survived")
    for mutant in left:
        print(f"  {mutant}: {verdicts[mutant][1]}")
    return 1 if left else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
