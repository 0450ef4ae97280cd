"""`python -m tests.gpu`: runs everything marked `gpu` and ends in a table, one line per test function.

Further arguments go to pytest. Without a GPU everything is skipped, and the table says why.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from typing import Any

import pytest


class Table:
    """Counts what became of every test function, as a pytest plug-in."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.notes: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.split("[")[0]
        self.counts[name][report.outcome] += 1
        self.seconds[name] += report.duration
        if report.skipped:
            self.notes[name].add(report.longrepr[2])
        elif report.failed:
            self.notes[name].add(report.nodeid.rpartition("[")[2].rstrip("]"))

    def show(self) -> None:
        """Print one line per test function, then what failed or why it was skipped."""
        print(f"\n{'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8}  test")
        for name, count in sorted(self.counts.items()):
            print(f"{count['passed']:7} {count['failed']:7} {count['skipped']:7} {self.seconds[name]:8.1f}  {name}")
            for note in sorted(self.notes[name]):
                print(f"{'':34}{note}")


def main(arguments: list[str]) -> int:
    table = Table()
    settings = ["-p", "no:nbval", "-o", "addopts=--import-mode=importlib"]  # notebooks are not for this command
    status = pytest.main(["-m", "gpu", "-q", *settings, "tests", *arguments], plugins=[table])
    table.show()
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
