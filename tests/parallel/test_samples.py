"""The programs of Paddle's documentation run as written; only the import and `use_cuda = False` are changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "tests" / "samples").glob("*.py"))
LOOK = "\nprint(loss_data.shape, loss_data.dtype, bool(numpy.isfinite(loss_data).all()))\n"


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program in a fresh process that knows no CPU_NUM and takes warnings for errors."""
    program = folder / "sample.py"
    program.write_text(text)
    environment = {k: v for k, v in os.environ.items() if k != "CPU_NUM"} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=folder)


def test_all_three_are_there():
    assert [path.stem for path in SAMPLES] == ["drop_scopes", "feeding", "train_then_infer"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_runs_and_gives_one_loss_per_device(path, tmp_path):
    done = run(path.read_text() + LOOK, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "(2,) float32 True\n"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_number_of_devices_is_the_samples_own_choice(path, tmp_path):
    """Five devices: two of the ten rows for each."""
    text = path.read_text()
    assert text.count("os.environ['CPU_NUM'] = str(2)") == 1
    if path.stem == "feeding":  # its list feed is written for two devices
        text = text[: text.index("# If the feed is a list:")]
    done = run(text.replace("str(2)", "str(5)") + LOOK, tmp_path)
    assert (done.returncode, done.stdout) == (0, "(5,) float32 True\n"), done.stderr


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_without_the_choice_there_is_one_device(path, tmp_path):
    """CPU_NUM unset counts as 1."""
    text = path.read_text().replace("os.environ['CPU_NUM'] = str(2)", "pass")
    if path.stem == "feeding":
        text = text[: text.index("# If the feed is a list:")]
    done = run(text + LOOK, tmp_path)
    assert (done.returncode, done.stdout) == (0, "(1,) float32 True\n"), done.stderr
