"""Training runs, in scripts and notebooks alike."""

from workbench.experiments.compare_runs import Comparison, compare
from workbench.experiments.run import Run
from workbench.experiments.run_table import RecordedRun, Runs, runs
from workbench.experiments.train import train

__all__ = ["Comparison", "RecordedRun", "Run", "Runs", "compare", "runs", "train"]
