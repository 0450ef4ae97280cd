"""The dashboard's tests in kernels of other versions of ipykernel, which differ in who receives a page's messages.

`python -m tests.browser.other_kernels [6.31.0 7.3.0]`, in an environment with the tests' own requirements.
"""

from __future__ import annotations

import sys

from tests.packaging.borrowed import run_with

VERSIONS = ("6.31.0", "7.3.0")
TESTS = ("tests/notebook/test_line.py", "tests/browser/test_busy_kernel.py", "tests/browser/test_dashboard.py")


def main(versions: list[str]) -> int:
    failed = [version for version in versions or VERSIONS if run_with([f"ipykernel=={version}"], TESTS)]
    print(f"failed with ipykernel {', '.join(failed)}" if failed else "all passed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
