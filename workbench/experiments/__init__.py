"""Training runs, in scripts and in notebooks."""

from workbench.experiments.compare_runs import Comparison, compare
from workbench.experiments.model_checkpoint import ModelCheckpoint
from workbench.experiments.recorded_run import RecordedRun
from workbench.experiments.resume import resume
from workbench.experiments.run import Run
from workbench.experiments.run_table import Runs, runs
from workbench.experiments.setup import Setup, setup
from workbench.experiments.sweep import Sweep, sweep
from workbench.experiments.train import train

__all__ = [
    "Comparison", "ModelCheckpoint", "RecordedRun", "Run", "Runs", "Setup", "Sweep",
    "compare", "resume", "runs", "setup", "sweep", "train",
]  # fmt: skip
