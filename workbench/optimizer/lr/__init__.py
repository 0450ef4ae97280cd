"""Learning rate schedules: plain objects, moved on by `step()`, read by calling them.

Names, signatures, defaults and formulas are those of Paddle 2.x (`python/paddle/optimizer/lr.py`). Every run
of a program reads the current value into the learning rate variable; calling `step()`, once an
epoch or once a batch, is the user's. In the formulas below `e` is `last_epoch`, 0 after construction.
"""

from workbench.errors import suggesting
from workbench.optimizer.lr.cycles import CosineAnnealingWarmRestarts, CyclicLR, LinearLR, OneCycleLR
from workbench.optimizer.lr.decays import (
    CosineAnnealingDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LinearWarmup,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    StepDecay,
)
from workbench.optimizer.lr.functions import LambdaDecay, MultiplicativeDecay
from workbench.optimizer.lr.plateau import ReduceOnPlateau
from workbench.optimizer.lr.schedule import LRScheduler

__all__ = [
    "LRScheduler",
    "NoamDecay",
    "PiecewiseDecay",
    "NaturalExpDecay",
    "InverseTimeDecay",
    "PolynomialDecay",
    "LinearWarmup",
    "ExponentialDecay",
    "MultiStepDecay",
    "StepDecay",
    "LambdaDecay",
    "ReduceOnPlateau",
    "CosineAnnealingDecay",
    "MultiplicativeDecay",
    "OneCycleLR",
    "CyclicLR",
    "LinearLR",
    "CosineAnnealingWarmRestarts",
]

__getattr__ = suggesting(__name__, __all__)
