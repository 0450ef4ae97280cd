"""The communicator over processes keeps the contract of all, whichever process has which devices."""

from __future__ import annotations

import re

import pytest

from tests.processes.ranks import ROOT, run_ranks

_RUN = """
    import sys
    import pytest

    folder, *arguments = sys.argv[1:]
    options = ["-q", "-x", "-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *arguments]))
"""


@pytest.mark.processes
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_contract_holds_over_processes(ranks: int) -> None:
    _require_contract(ranks)


@pytest.mark.processes
def test_the_contract_holds_over_two_machines_of_two_processes() -> None:
    _require_contract(4, FLAGS_nodes_of_ranks="0,0,1,1")


def _require_contract(ranks: int, **variables: str) -> None:
    where = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), str(ROOT / "tests/runtime/comm/mpi_ranks.py")]
    job = run_ranks(_RUN, ranks, timeout=200, args=("", *where), **variables)
    assert job.code == 0, str(job)
    passed = [int(n) for out in job.outputs for n in re.findall(r"(\d+) passed", out)]
    assert len(passed) == ranks and min(passed) > 40, str(job)
    assert not job.orphans
