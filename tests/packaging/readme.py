"""The README's commands, taken from the README and run as printed.

`python -m tests.packaging.readme list` prints them; `lab` runs the first until JupyterLab serves the
quickstart and stops it again; `tests` runs the second. Needs nothing but the standard library.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.lab_server import LabServer

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL_S = 900


def commands(text: str) -> list[str]:
    """Every line of every `sh` block, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def first_two() -> tuple[str, str]:
    lab, tests = commands((ROOT / "README.md").read_text(encoding="utf-8"))[:2]
    return lab, tests


def run_lab(command: str) -> None:
    """Runs `command` in the root until the server it starts lists the quickstart; then stops it."""
    with tempfile.TemporaryDirectory() as state:
        server = LabServer(ROOT / "README.md", Path(state), start_s=INSTALL_S)
        server.command = ["bash", "-c", command]
        with server:
            served = {entry["name"] for entry in server.request("GET", "api/contents")["content"]}
            assert "01_quickstart.ipynb" in served, served
            print(f"{server.url} serves {', '.join(sorted(served))}")


def main(which: str) -> int:
    lab, tests = first_two()
    if which == "list":
        print(lab, tests, sep="\n")
    if which == "lab":
        run_lab(lab)
    if which == "tests":
        return subprocess.run(["bash", "-c", tests], cwd=ROOT, check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
