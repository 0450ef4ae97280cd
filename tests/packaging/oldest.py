"""The dashboard in the oldest JupyterLab, with the oldest widgets, that `pyproject.toml` allows.

`python -m tests.packaging.oldest`, in an environment with the tests' own requirements.
"""

from __future__ import annotations

import re
import sys
import tomllib

from tests.packaging.borrowed import ROOT, run_with

NAMES = ("jupyterlab", "ipywidgets", "anywidget")
TESTS = ("tests/notebook/test_line.py", "tests/notebook/test_dashboard.py", "tests/browser/test_busy_kernel.py")


def oldest(name: str) -> str:
    """`jupyterlab==4.0` of the requirement `jupyterlab>=4.0,<5`."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    versions = [match for line in required if (match := re.match(rf"{name}>=([\d.]+)", line))]
    return f"{name}=={versions[0][1]}"


if __name__ == "__main__":
    sys.exit(run_with([oldest(name) for name in NAMES], TESTS))
