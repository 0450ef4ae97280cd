"""Gradients of programs: `append_backward`, `gradients`."""

import workbench.autodiff.control_flow
import workbench.autodiff.py_layer  # noqa: F401 (both install gradient makers)
from workbench.autodiff.backward import append_backward, gradients

__all__ = ["append_backward", "gradients"]
