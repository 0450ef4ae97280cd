"""The installed package as its user meets it, in a folder of theirs: `python smoke.py`.

Runs away from any checkout, with the standard library alone; lab_server.py of tests/browser lies beside it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab_server import LabServer

HERE = Path.cwd()
COMMAND = str(Path(sys.executable).with_name("workbench"))


def run(*arguments: str, **settings: str) -> None:
    print(*(f"{name}={value}" for name, value in settings.items()), "$ workbench", *arguments, flush=True)
    subprocess.run([COMMAND, *arguments], env={**os.environ, **settings}, check=True, timeout=600)


def main() -> None:
    run("--version")
    run("doctor")
    run("bench", "tiny", "--seconds", "0.2", FLAGS_cpu_tape="1")
    with tempfile.TemporaryDirectory() as state:
        server = LabServer(HERE / "README.md", Path(state))
        server.command = [COMMAND, "lab", "--no-browser"]
        with server:
            served = {entry["name"] for entry in server.request("GET", "api/contents")["content"]}
    print("JupyterLab served", *sorted(served), flush=True)
    assert "01_quickstart.ipynb" in served
    run("run", "workbench-notebooks/01_quickstart.ipynb", "--timeout", "300")
    assert (HERE / "workbench-run" / "01_quickstart.executed.html").is_file()


if __name__ == "__main__":
    main()
