"""Mutants of programs, run by the tape and by calls: `python -m tests.fuzz.programs --mutants 20000 --seed 0`.

Both have to give the same results up to rounding, or both a clear error. Mutants run in processes of their own, so that
those that crash or hang are told like any other, and the rest goes on. What is wrong is kept in a folder, a file of
JSON each, with the program's text; `--only 17` runs a single mutant again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.batches import run_batches

WORKER = [sys.executable, "-m", "tests.fuzz.both"]
WRONG = ("CRASH", "HANG", "DISAGREE", "UNCLEAR")


def run_all(seed: int, first: int, count: int, processes: int, folder: Path | None) -> Counter[str]:
    """How many mutants came to which end; those that are wrong are written down in the folder and told."""
    counts: Counter[str] = Counter()
    for line in run_batches(WORKER, seed, first, count, processes):
        counts[line["verdict"]] += 1
        if line["verdict"] in WRONG:
            _note(seed, line, folder)
    return counts


def _note(seed: int, line: dict[str, Any], folder: Path | None) -> None:
    from tests.fuzz.both import describe, mutant

    described = line.setdefault("mutant", None) or describe(mutant(seed, line["index"]))
    line["mutant"] = described
    print(f"{line['verdict']} {line['index']}: {'; '.join(described['done'])}\n{line.get('details', '')}\n", flush=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed}-{line['index']}.json").write_text(json.dumps(line, indent=1))


def table(counts: Counter[str]) -> str:
    total = max(counts.total(), 1)
    return "\n".join(f"{count:7,} {100 * count / total:5.1f} %  {verdict}" for verdict, count in counts.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--only", type=int, help="run a single mutant")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where wrong mutants are written down")
    given = parser.parse_args()
    first, count = (given.first, given.mutants) if given.only is None else (given.only, 1)
    counts = run_all(given.seed, first, count, given.processes, given.keep)
    print(table(counts))
    return int(any(counts[word] for word in WRONG))


if __name__ == "__main__":
    sys.exit(main())
