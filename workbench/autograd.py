"""`workbench.autograd`: gradients beyond `Tensor.backward`."""

from workbench.facade import AUTOGRAD, lazy

__getattr__, __dir__ = lazy(__name__, AUTOGRAD)
