"""Training runs, in scripts and notebooks alike."""

from workbench.experiments.run import Run
from workbench.experiments.train import train

__all__ = ["Run", "train"]
