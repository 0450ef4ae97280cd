"""Losses, under the name of the module that Paddle 2.x has them in (`paddle.nn.loss`)."""

from workbench.facade import NN, lazy

_LOSSES = {module: line for module, line in NN.items() if module.endswith(".losses")}
__getattr__, __dir__ = lazy("workbench.nn.loss", _LOSSES)
