"""Training runs, in scripts and in notebooks."""

from workbench.experiments.charts.compare_runs import Comparison, compare
from workbench.experiments.launch.resume import resume
from workbench.experiments.launch.setup import Setup, setup
from workbench.experiments.launch.sweep import Sweep, sweep
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.run import Run
from workbench.experiments.tables.run_table import Runs, runs
from workbench.experiments.training.saving.model_checkpoint import ModelCheckpoint
from workbench.experiments.training.train import train

__all__ = [
    "Comparison", "ModelCheckpoint", "RecordedRun", "Run", "Runs", "Setup", "Sweep",
    "compare", "resume", "runs", "setup", "sweep", "train",
]  # fmt: skip
