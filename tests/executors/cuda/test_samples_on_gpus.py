"""The programs of Paddle's documentation run on two simulated GPUs as they are written there: `use_cuda = True`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SAMPLES = sorted((ROOT / "tests" / "samples").glob("*.py"))
LOOK = "\nprint(loss_data.shape, loss_data.dtype, bool(numpy.isfinite(loss_data).all()))\n"


def run(text: str, folder: Path, **flags: str) -> subprocess.CompletedProcess[str]:
    """A program in a fresh process that takes warnings for errors."""
    program = folder / "sample.py"
    program.write_text(text)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {k: v for k, v in os.environ.items() if k != "CPU_NUM"} | {"PYTHONPATH": paths} | flags
    command = [sys.executable, "-W", "error", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment, cwd=folder)


def as_written(path: Path) -> str:
    """The sample with the line that was changed for machines without a GPU as it is in the documentation."""
    text = path.read_text()
    assert text.count("use_cuda = False") == 1
    return text.replace("use_cuda = False", "use_cuda = True")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_gives_one_loss_per_gpu(path: Path, tmp_path: Path) -> None:
    done = run(as_written(path) + LOOK, tmp_path, FLAGS_simulated_gpus="2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "(2,) float32 True\n"


def test_without_a_gpu_one_error_names_the_flag(tmp_path: Path) -> None:
    done = run(as_written(SAMPLES[0]), tmp_path, FLAGS_simulated_gpus="0", CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 1 and "FLAGS_simulated_gpus=2" in done.stderr.splitlines()[-1]
