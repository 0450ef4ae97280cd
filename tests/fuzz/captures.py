"""Random Python, captured and in dynamic mode: `python -m tests.fuzz.captures --cases 20000 --seed 0`.

A case is a module with a step and a history: calls, and between them changes of what the step reads. A recorded step
has to give what dynamic mode gives, or to be refused with a clear error, or a notice has to name what is not looked at.
How often each of these happened is shown at the end. What is wrong is made as small as it goes, and kept in a folder, a
file of JSON each, with its source; `--only 17` runs a single case again, `--kinds` shows what cases are made of.
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

WORKER = [sys.executable, "-m", "tests.fuzz.histories"]
WRONG = ("CRASH", "HANG", "DIFFERS", "FROZEN", "CHANGED", "UNCLEAR")


class Tally:
    """How many cases came to which end.

    Attributes:
        verdicts: by their words. wrong_kinds, kinds: what wrong cases, and all of them, are made of.
        changed: cases that were equal though a change between two calls had an effect.
    """

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.wrong_kinds: Counter[str] = Counter()
        self.changed = 0

    def add(self, line: dict[str, Any]) -> None:
        """Count what became of a case."""
        word, kinds = line["verdict"], line.get("kinds", ())
        self.verdicts[word] += 1
        self.kinds.update(kinds)
        if word in WRONG:
            self.wrong_kinds.update(kinds)
        self.changed += word == "equal" and line.get("changes", False)

    @property
    def wrong(self) -> int:
        """How many cases are wrong."""
        return sum(self.verdicts[word] for word in WRONG)

    def __str__(self) -> str:
        total = max(self.verdicts.total(), 1)
        lines = [f"{n:7,} {100 * n / total:5.1f} %  {word}" for word, n in self.verdicts.most_common()]
        lines.append(f"{self.changed:7,} {100 * self.changed / total:5.1f} %  equal, and a change had an effect")
        if self.wrong:
            lines.append("kinds that are in wrong cases more often than in others:")
            shares = {kind: n / self.kinds[kind] for kind, n in self.wrong_kinds.items()}
            worst = sorted(shares, key=lambda kind: -shares[kind])[:25]
            lines += [f"{100 * shares[kind]:5.0f} % of {self.kinds[kind]:5,}  {kind}" for kind in worst]
        return "\n".join(lines)


def run_all(seed: int, first: int, count: int, processes: int, folder: Path | None) -> Tally:
    """What became of cases; those that are wrong are written down in the folder and told."""
    tally = Tally()
    for line in run_batches(WORKER, seed, first, count, processes):
        tally.add(line)
        if line["verdict"] in WRONG:
            _note(seed, line, folder)
    return tally


def _note(seed: int, line: dict[str, Any], folder: Path | None) -> None:
    from tests.fuzz.histories import LEFT_OUT, describe
    from tests.fuzz.python_cases import random_case

    case = line.setdefault("case", None) or describe(random_case(seed, line["index"], LEFT_OUT))
    line["case"] = case
    history = "\n".join(f">>> {code}" for code in case["events"])
    print(f"{line['verdict']} {line['index']}\n{case['step']}\n{history}\n{line.get('details', '')}\n", flush=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"capture-{seed}-{line['index']}.json").write_text(json.dumps(line, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="run a single case")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where wrong cases are written down")
    parser.add_argument("--kinds", action="store_true", help="show what cases are made of, and end")
    given = parser.parse_args()
    if given.kinds:
        from tests.fuzz.python_cases import all_kinds

        print("\n".join(all_kinds()))
        return 0
    first, count = (given.first, given.cases) if given.only is None else (given.only, 1)
    tally = run_all(given.seed, first, count, given.processes, given.keep)
    print(tally)
    return int(tally.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
