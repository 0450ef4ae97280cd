"""Optimizers and learning rate schedules (Paddle 2.x's `paddle.optimizer`)."""

from workbench.errors import suggesting
from workbench.optimizer import lr
from workbench.optimizer.adadelta import Adadelta
from workbench.optimizer.adagrad import Adagrad
from workbench.optimizer.adam import Adam, AdamW
from workbench.optimizer.adamax import Adamax
from workbench.optimizer.lamb import Lamb
from workbench.optimizer.lbfgs import LBFGS
from workbench.optimizer.momentum import Momentum
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.rmsprop import RMSProp
from workbench.optimizer.sgd import SGD

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Lamb",
    "Momentum",
    "Optimizer",
    "RMSProp",
    "lr",
]

__getattr__ = suggesting(__name__, __all__)
