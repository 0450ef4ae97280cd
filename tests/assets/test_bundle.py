"""The bundle is what its sources make, small enough to travel with notebooks, and asks nobody on the network."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ASSETS = Path(__file__).resolve().parent.parent.parent / "assets"
BUNDLE = ("dashboard.js", "dashboard.css")
LARGEST = 160_000  # bytes; it travels in the state of every notebook that is saved with its widgets

needs_node = pytest.mark.skipif(
    not (shutil.which("npm") and shutil.which("node")), reason="needs Node.js and npm: esbuild makes the bundle"
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources in a folder of their own, with the tools of package-lock.json."""
    folder = tmp_path_factory.mktemp("front end") / "assets"
    shutil.copytree(ASSETS, folder, ignore=shutil.ignore_patterns("node_modules"))
    for name in BUNDLE:
        (folder / name).unlink()
    run(folder, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    return folder


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@needs_node
@pytest.mark.slow
def test_the_bundle_is_what_its_sources_make(copy: Path) -> None:
    run(copy, "npm", "run", "build")
    for name in BUNDLE:
        assert (copy / name).read_bytes() == (ASSETS / name).read_bytes(), f"run `npm run build` in assets/: {name}"


@needs_node
@pytest.mark.slow
def test_the_front_ends_own_tests_pass(copy: Path) -> None:
    output = run(copy, "npm", "test")
    assert re.search(r"^# pass [1-9]\d+$", output, re.MULTILINE) and re.search(r"^# fail 0$", output, re.MULTILINE), (
        output
    )


def test_the_bundle_is_small_and_reads_nothing_from_elsewhere() -> None:
    assert sum((ASSETS / name).stat().st_size for name in BUNDLE) < LARGEST + 25_000
    script = (ASSETS / "dashboard.js").read_text()
    addresses = set(re.findall(r"https?://[^\"'`\s)]+", script))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    for word in ("eval(", "new Function", 'fetch("', "XMLHttpRequest", "WebSocket", "localStorage"):
        assert word not in script


def test_every_import_names_a_file() -> None:
    for path in (ASSETS / "src").rglob("*.js"):
        for name in re.findall(r"from \"(\.[^\"]+)\"", path.read_text()):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"
