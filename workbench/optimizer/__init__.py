"""Optimizers and learning rate schedules (Paddle 2.x's `paddle.optimizer`)."""

from workbench.errors import suggesting
from workbench.optimizer import lr
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.rules.adadelta import Adadelta
from workbench.optimizer.rules.adagrad import Adagrad
from workbench.optimizer.rules.adam import Adam, AdamW
from workbench.optimizer.rules.adamax import Adamax
from workbench.optimizer.rules.lamb import Lamb
from workbench.optimizer.rules.lbfgs import LBFGS
from workbench.optimizer.rules.momentum import Momentum
from workbench.optimizer.rules.rmsprop import RMSProp
from workbench.optimizer.rules.sgd import SGD

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
