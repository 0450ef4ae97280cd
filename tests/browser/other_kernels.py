"""The dashboard's tests in kernels of other versions of ipykernel, which differ in who receives a page's messages.

`python -m tests.browser.other_kernels [6.31.0 7.3.0]`: for each an environment of its own in a temporary folder.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VERSIONS = ("6.31.0", "7.3.0")
TESTS = ("tests/notebook/test_line.py", "tests/browser/test_busy_kernel.py", "tests/browser/test_dashboard.py")


def main(versions: list[str]) -> int:
    failed = [version for version in versions or VERSIONS if tested(version)]
    print(f"failed with ipykernel {', '.join(failed)}" if failed else "all passed")
    return len(failed)


def tested(version: str) -> int:
    """The exit status of the tests with this version."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", "-e", ".[test]", f"ipykernel=={version}"]
        subprocess.run(install, cwd=ROOT, check=True)
        print(f"\n== ipykernel {version}", flush=True)
        command = [python, "-m", "pytest", "-q", "-s", *TESTS]
        return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
