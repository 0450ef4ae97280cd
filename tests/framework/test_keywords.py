"""A script that passes a wrong keyword: what its traceback says."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes
OWN_HOOK = """
import sys
sys.excepthook = lambda kind, error, trace: print("mine:", error, file=sys.stderr)
"""


def last_line(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    return run.stderr.strip().splitlines()[-1]


def test_a_script_is_told_which_keyword_was_meant() -> None:
    line = last_line("import workbench as wb\nwb.optimizer.SGD(lr=0.1)")
    assert line.startswith("TypeError: ") and line.endswith("argument 'lr'. Did you mean 'learning_rate'?")


def test_whoever_shows_errors_goes_on_doing_so() -> None:
    line = last_line(OWN_HOOK + "import workbench as wb\nwb.optimizer.Momentum(momentun=0.9)")
    assert line.startswith("mine: ") and line.endswith("Did you mean 'momentum'?")


def test_other_errors_of_a_script_are_left_alone() -> None:
    line = last_line("import workbench as wb\ndef SGD(*, rate): pass\nSGD(lr=0.1)")
    assert line == "TypeError: SGD() got an unexpected keyword argument 'lr'"
