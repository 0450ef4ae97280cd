"""Gradients of programs: `append_backward`, `gradients`."""

import workbench.autodiff.control_flow  # noqa: F401 (installs the gradient makers)
from workbench.autodiff.backward import append_backward, gradients

__all__ = ["append_backward", "gradients"]
